"""Code that pages show: taken out, and run as written."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def find_steps(page):
    """Blocks of Python and of commands, in order."""
    text = Path(page).read_text(encoding="utf-8")
    pattern = r"^```(python|console)\n(.*?)^```"
    return re.findall(pattern, text, re.DOTALL | re.MULTILINE)


def find_examples(page):
    """Blocks of Python on a page."""
    return [code for language, code in find_steps(page) if language == "python"]


def run_python(code, names, capsys):
    """Run a block; what it prints must be what stands behind each print."""
    capsys.readouterr()
    exec(compile(code, "page", "exec"), names)
    expected = re.findall(r"^ *print\(.*\)(?:  |\n)# (.*)$", code, re.MULTILINE)
    said = capsys.readouterr().out.splitlines()
    assert said == expected, f"printed {said}, not {expected}"
