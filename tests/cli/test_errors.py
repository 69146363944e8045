import warnings
from pathlib import Path

import pytest
from typer import Exit

from priormtl.cli.errors import one_sentence, refuse_folder, short_warnings


@pytest.mark.parametrize("error", [ValueError("no such name"), OSError("no disk")])
def test_mistakes_end_with_one_line_and_two(capsys, error):
    with pytest.raises(Exit) as ended, one_sentence():
        raise error
    assert ended.value.exit_code == 2
    assert capsys.readouterr().err == f"Error: {error}\n"


def test_contents_of_files_cannot_steer_the_terminal(capsys):
    with pytest.raises(Exit), one_sentence():
        raise ValueError("got '\x1b[31mred\x07' in\n\u202e“größe”")
    assert capsys.readouterr().err == (
        "Error: got '\\x1b[31mred\\x07' in\\n\\u202e“größe”\n"
    )


def test_our_own_mistakes_are_not_hidden():
    with pytest.raises(TypeError), one_sentence():
        raise TypeError("a bug")


@pytest.mark.parametrize("out", ["rows.csv", "./rows.csv", "link.csv", "all/a.csv"])
def test_what_is_read_is_never_replaced(tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "all"
    folder.mkdir()
    for file in (tmp_path / "rows.csv", folder / "a.csv"):
        file.touch()
    (tmp_path / "link.csv").symlink_to("rows.csv")
    with pytest.raises(ValueError, match="must be another file than the input"):
        refuse_folder(Path(out), None, Path("rows.csv"), folder)


def test_other_files_may_be_replaced(tmp_path):
    rows, old = tmp_path / "rows.csv", tmp_path / "old.csv"
    rows.touch()
    old.touch()
    refuse_folder(old, rows, tmp_path / "absent.csv")
    refuse_folder(tmp_path / "new.csv", tmp_path)
    refuse_folder(None, rows)


def test_warnings_are_lines_each_once(capsys):
    with short_warnings():
        for words in ("coarse", "gap\n1e-3", "coarse"):
            for _ in range(2):
                warnings.warn(words, RuntimeWarning, stacklevel=2)
        warnings.warn("coarse", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "Warning: coarse\nWarning: gap\\n1e-3\n"


def _warn_and_fail():
    warnings.warn("coarse", stacklevel=2)
    raise ValueError("no such name")


def test_an_error_stands_alone(capsys):
    with pytest.raises(Exit), one_sentence(), short_warnings():
        _warn_and_fail()
    assert capsys.readouterr().err == "Error: no such name\n"
