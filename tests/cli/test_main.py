"""The command itself: help, version, demonstration."""

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from exam_rows import exam_frame
from priormtl import __version__
from priormtl.cli.main import app


def run(*words):
    return CliRunner().invoke(app, list(words))


def test_version():
    assert run("--version").output.strip() == __version__


@pytest.mark.parametrize("command", [(), ("demo",)])
def test_help_has_an_example(command):
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Example: priormtl" in result.output


def test_unknown_command_ends_with_two():
    assert run("fly").exit_code == 2


def test_command_without_its_extra_says_what_to_install():
    code = (
        "import sys; sys.modules['typer'] = None\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'typer' else find(name, *a)\n"
        "from priormtl.__main__ import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "pip install 'priormtl[cli]'" in result.stderr
    assert "Traceback" not in result.stderr


def test_letters_that_cannot_be_printed_end_nothing(tmp_path):
    table = tmp_path / "rows.csv"
    exam_frame(60)[["hours", "school", "score"]].to_csv(table, index=False)
    words = ["compare", table, "--task", "school", "--target", "score", "--cv", "2"]
    words += ["--methods", "ridge-single", "--settings", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "priormtl", *words],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"ridge-single" in done.stdout
