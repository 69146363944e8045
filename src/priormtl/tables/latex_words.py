"""Words as LaTeX sets them: never commands, and signs that pdfLaTeX knows."""

import re
from unicodedata import decomposition, normalize

__all__ = ["in_latex"]

TEXT = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "`": r"\textasciigrave{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "“": "``",
    "”": "''",
    "€": r"\texteuro{}",
}
MATHS = {
    "−": "-",
    "±": r"\pm",
    "∓": r"\mp",
    "×": r"\times",
    "÷": r"\div",
    "·": r"\cdot",
    "∘": r"\circ",
    "≤": r"\leq",
    "≥": r"\geq",
    "≠": r"\neq",
    "≈": r"\approx",
    "∞": r"\infty",
    "√": r"\surd",
    "∂": r"\partial",
    "∇": r"\nabla",
    "∑": r"\sum",
    "∏": r"\prod",
    "∈": r"\in",
    "‖": r"\|",
    "←": r"\leftarrow",
    "→": r"\rightarrow",
    "↑": r"\uparrow",
    "↓": r"\downarrow",
    "↔": r"\leftrightarrow",
    "⇒": r"\Rightarrow",
    "°": r"^\circ",
    "†": r"^\dagger",
    "▲": r"^\bigtriangleup",
    "▼": r"^\bigtriangledown",
}
GREEK = {
    "αβγδεζηθ": "alpha beta gamma delta varepsilon zeta eta theta",
    "ικλμµνξπ": "iota kappa lambda mu mu nu xi pi",
    "ρςστυφχψω": "rho varsigma sigma tau upsilon varphi chi psi omega",
    "ϑϕϵ": "vartheta phi epsilon",
    "ΓΔΘΛΞΠ": "Gamma Delta Theta Lambda Xi Pi",
    "ΣΥΦΨΩ": "Sigma Upsilon Phi Psi Omega",
}
AS_LATIN = dict(zip("οΑΒΕΖΗΙΚΜΝΟΡΤΧ", "oABEZHIKMNOPTX", strict=True))
RAISED = {"<super>": "^", "<sub>": "_"}
# Fonts make one sign of two of these.
LIGATURE = re.compile(r"([-,'])(?=\1)")
PARTED = "\N{NULL}"


def in_latex(text: str) -> str:
    """Words on one line that LaTeX shows as they are.

    Signs that no source can hold are left out. Letters beyond Latin and Greek stay
    what they are: XeLaTeX and LuaLaTeX show them with a font that has them.
    """
    line = " ".join(normalize("NFC", text).split())
    parted = LIGATURE.sub(rf"\1{PARTED}", "".join(filter(str.isprintable, line)))
    return "".join(SIGNS.get(sign) or _raise(sign) for sign in parted)


def _raise(sign: str) -> str:
    """Signs above and below the line, such as ¹ and ₂, others as they are."""
    place, _, base = decomposition(sign).partition(" ")
    if place not in RAISED or " " in base:
        return sign
    plain = chr(int(base, 16))
    inner = MATHS.get(plain, plain)
    return rf"\ensuremath{{{RAISED[place]}{{{inner}}}}}" if inner.isascii() else sign


def _greek_commands() -> dict[str, str]:
    return {
        letter: rf"\{name}"
        for letters, names in GREEK.items()
        for letter, name in zip(letters, names.split(), strict=True)
    }


SIGNS = {
    **TEXT,
    **AS_LATIN,
    **{
        sign: rf"\ensuremath{{{command}}}"
        for sign, command in (MATHS | _greek_commands()).items()
    },
    PARTED: "{}",
}
