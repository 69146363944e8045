"""Commands are loaded when they are used, and bring nothing heavy with their help."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from priormtl.cli.lazy import LazyCommands
from priormtl.cli.main import COMMANDS, app
from refusals import assert_refused

HEAVY = ("numba", "sklearn", "scipy", "pyarrow", "pandas", "polars", "numpy", "rich")
PARSES_VALUES = "pydantic"  # what typer needs to read options that take a value

# All in one process: what one help loads, the next would show too.
CODE = """
import sys
from typer.testing import CliRunner
from priormtl.cli.main import COMMANDS, app
for words in ((), *((name,) for name in COMMANDS), ("data", "convert")):
    result = CliRunner().invoke(app, [*words, "--help"])
    assert result.exit_code == 0, words
    assert "Example: priormtl" in result.output, words
    print(*words, *sorted(set(sys.modules) & set(sys.argv[1:])), sep=",")
"""


def test_no_help_loads_anything_heavy():
    command = [sys.executable, "-c", CODE, *HEAVY, PARSES_VALUES]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    *lines, nested = result.stdout.splitlines()
    assert lines == ["", *COMMANDS]
    # Before its subcommand, data reads its own --home.
    assert nested.removesuffix(f",{PARSES_VALUES}") == "data,convert"


def test_one_command_does_not_load_the_others():
    code = (
        "import sys; from priormtl.cli.main import app\n"
        "from typer.testing import CliRunner\n"
        "CliRunner().invoke(app, ['fit', '--help'])\n"
        "print('priormtl.cli.fit' in sys.modules, 'priormtl.cli.demo' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "True False\n"


def test_commands_are_known_by_name():
    commands = LazyCommands(("fit", "data"))
    assert list(commands) == ["fit", "data"]
    assert len(commands) == 2
    assert commands["fit"].name == "fit"
    assert commands["data"].name == "data"
    with pytest.raises(KeyError):
        commands["demo"]


@pytest.mark.parametrize(
    ("words", "told", "command"),
    [
        (("fti",), "Did you mean 'fit'?", ""),
        (("--verison",), "--version", ""),
        (("fit", "--tsk", "a"), "--task", " fit"),
        (("fit", "--folds", "x", "--out", "m"), "'--folds'", " fit"),
        (("fit", "--folds", "1", "--out", "m"), "'--folds'", " fit"),
        (("fit", "--penalty", "l22", "--out", "m"), "Did you mean 'l21'?", " fit"),
        (("fit",), "--out", " fit"),
        (("fit", "--out"), "--out", ""),
        (("predict",), "MODEL", " predict"),
        (("demo", "a"), "(a)", " demo"),
        (("reproduce", "tabel1"), "Did you mean 'table1'", " reproduce"),
        (("data", "convrt"), "Did you mean 'convert'?", " data"),
        (("data", "convert"), "name", " data convert"),
    ],
)
def test_mistyped_words_are_answered_in_one_line(words, told, command):
    result = CliRunner().invoke(app, list(words), prog_name="priormtl")
    assert_refused(result, told)
    assert result.stderr.endswith(f" See 'priormtl{command} --help'.\n")
    assert result.stdout == ""


def test_no_words_at_all_are_answered_with_help():
    result = CliRunner().invoke(app, [])
    assert "Example: priormtl" in result.output
    assert "Error" not in result.output
