"""The command itself: help, version, lazy loading, errors in one line."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from typer import BadParameter, Exit
from typer.testing import CliRunner

from priormtl import __version__
from priormtl.cli.main import (
    COMMANDS,
    LazyCommands,
    app,
    check_output,
    exit_on_error,
    print_warnings,
    read_categories,
    read_periods,
    split_names,
    word_of,
)
from processes import assert_refused


def run(*words):
    return CliRunner().invoke(app, list(words))


def test_version():
    assert run("--version").output.strip() == __version__


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


def test_characters_that_cannot_be_printed_end_nothing():
    done = subprocess.run(
        [sys.executable, "-m", "priormtl", "data", "--home", "größe"],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"Folder: gr??e" in done.stdout


HEAVY = ("numba", "sklearn", "scipy", "pyarrow", "pandas", "polars", "numpy", "rich")
PARSES_VALUES = "pydantic"  # what typer needs to read options that take a value

# All in one process: what one help loads, the next would show too.
CODE = """
import sys
from typer.testing import CliRunner
from priormtl.cli.main import (
    COMMANDS,
    LazyCommands,
    app,
    check_output,
    exit_on_error,
    print_warnings,
)
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
        "print(*(f'priormtl.cli.{x}' in sys.modules for x in ('fit', 'predict')))"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "True False\n"


def test_commands_are_known_by_name():
    commands = LazyCommands()
    assert list(commands) == list(COMMANDS)
    assert len(commands) == len(COMMANDS)
    assert all(commands[name].name == name for name in COMMANDS)
    with pytest.raises(KeyError):
        commands["dem"]


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


@pytest.mark.parametrize("error", [ValueError("no such name"), OSError("no disk")])
def test_mistakes_end_with_one_line_and_two(capsys, error):
    with pytest.raises(Exit) as ended, exit_on_error():
        raise error
    assert ended.value.exit_code == 2
    assert capsys.readouterr().err == f"Error: {error}\n"


def test_contents_of_files_cannot_steer_the_terminal(capsys):
    with pytest.raises(Exit), exit_on_error():
        raise ValueError("got '\x1b[31mred\x07' in\n\u202e“größe”")
    assert capsys.readouterr().err == (
        "Error: got '\\x1b[31mred\\x07' in\\n\\u202e“größe”\n"
    )


def test_our_own_mistakes_are_not_hidden():
    with pytest.raises(TypeError), exit_on_error():
        raise TypeError("a bug")


@pytest.mark.parametrize("out", ["rows.csv", "./rows.csv", "link.csv", "all/a.csv"])
def test_what_is_read_is_never_replaced(tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "all"
    folder.mkdir()
    for file in (tmp_path / "rows.csv", folder / "a.csv"):
        file.touch()
    (tmp_path / "link.csv").symlink_to("rows.csv")
    with pytest.raises(ValueError, match="would replace the input"):
        check_output(Path(out), None, Path("rows.csv"), folder)


def test_other_files_may_be_replaced(tmp_path):
    rows, old = tmp_path / "rows.csv", tmp_path / "old.csv"
    rows.touch()
    old.touch()
    check_output(old, rows, tmp_path / "absent.csv")
    check_output(tmp_path / "new.csv", tmp_path)
    check_output(None, rows)


def test_warnings_are_lines_each_once(capsys):
    with print_warnings():
        for words in ("coarse", "gap\n1e-3", "coarse"):
            for _ in range(2):
                warnings.warn(words, RuntimeWarning, stacklevel=2)
        warnings.warn("coarse", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "Warning: coarse\nWarning: gap\\n1e-3\n"


def _warn_and_fail():
    warnings.warn("coarse", stacklevel=2)
    raise ValueError("no such name")


def test_an_error_stands_alone(capsys):
    with pytest.raises(Exit), exit_on_error(), print_warnings():
        _warn_and_fail()
    assert capsys.readouterr().err == "Error: no such name\n"


def test_known_words_pass_and_others_are_answered():
    word = word_of(("error", "drop", "mean"))
    assert word("drop") == "drop"
    with pytest.raises(BadParameter, match=r"unknown value 'men'.*Did you mean 'mean'"):
        word("men")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (None, None),
        ("", []),
        (",", []),
        ("a", ["a"]),
        (" a, b ,,c=d", ["a", "b", "c=d"]),
        ('a, "b, c" ,d', ["a", "b, c", "d"]),
        ('"""b""",a"c', ['"b"', 'a"c']),
    ],
)
def test_names_stand_between_commas(text, names):
    assert split_names(text) == names


def test_periods_stand_behind_a_colon():
    found = read_periods('hour:24, age,"a,b:7.5",odd:name')
    assert found == {"hour": 24.0, "age": None, "a,b": 7.5, "odd:name": None}


def test_categories_are_columns_and_values():
    assert read_categories(None) == {}
    assert read_categories(["sex=f,m", "a=b=c"]) == {"sex": ["f", "m"], "a": ["b=c"]}
    assert read_categories(["sex"]) == {"sex": []}
    for wrong in ("=f", "sex="):
        with pytest.raises(ValueError, match="--categories must look like COL or COL"):
            read_categories([wrong])


COLUMNS = ("--task", "a", "--target", "b")


@pytest.mark.usefixtures("without_pyarrow")
@pytest.mark.parametrize(
    "words",
    [
        ("fit", "x.csv", *COLUMNS, "--out", "x.model"),
        ("stats", "x.csv", *COLUMNS, "--out", "x.stats"),
        ("compare", "x.csv", *COLUMNS),
        ("predict", "x.model", "x.csv", "--out", "y.csv"),
        ("report", "x.model"),
        ("data", "example"),
        ("demo",),
    ],
    ids=lambda words: words[0],
)
def test_without_pyarrow_commands_say_what_to_install(words):
    result = run(*words)
    assert_refused(result, f"{words[0]}", "needs pyarrow: pip install 'priormtl[cli]'")
