"""What README and pages show runs as written."""

import shlex
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from priormtl.cli.main import app
from shown_code import DOCS, blocks, run_code

ROOT = Path(__file__).parents[1]
BLOCKS = blocks(ROOT / "README.md")
SCALING = DOCS / "scaling.md"


@pytest.mark.parametrize("code", BLOCKS)
def test_readme_examples_run(code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_code(code, {}, capsys)


def test_readme_has_examples():
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_readme_names_the_two_commands(command):
    assert command in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"\n{command.split()[1]}:" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_page_on_scaling_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    """Spark's block does so in test_spark.py."""
    monkeypatch.chdir(tmp_path)
    code = [block for block in blocks(SCALING) if "pyspark" not in block]
    assert len(code) == 4
    names = {"__name__": "__main__"}
    for block in code:
        run_code(block, names, capsys)
    lines = [line for block in blocks(SCALING, "sh") for line in block.splitlines()]
    known = get_command(app).commands
    for line in lines:
        program, command, *words = shlex.split(line)
        assert program == "priormtl"
        if command in known:
            result = CliRunner().invoke(app, [command, *words])
            assert result.exit_code == 0, result.output
    assert {line.split()[1] for line in lines} == {"stats", "merge", "fit"}
