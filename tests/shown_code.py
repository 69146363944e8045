"""Code that pages show: taken out, and run as written."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def blocks(path, language="python"):
    """All blocks of one language on a page."""
    page = Path(path).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def run_code(code, names, capsys):
    """Run a block; what it prints must be what stands behind each print."""
    capsys.readouterr()
    exec(compile(code, "page", "exec"), names)
    expected = re.findall(r"^ *print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == expected
