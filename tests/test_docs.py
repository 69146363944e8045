"""What the README shows runs as written."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(
    r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
)


@pytest.mark.parametrize("code", BLOCKS)
def test_readme_examples_run(code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    expected = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == expected


def test_readme_has_examples():
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_readme_names_the_two_commands(command):
    assert command in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"\n{command.split()[1]}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
