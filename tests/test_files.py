"""write_whole, write_aside, write_folder: they appear complete or not at all."""

import os
import subprocess
import sys

import pytest

from priormtl import _files
from priormtl._files import (
    PREFIX,
    remove_leftovers,
    write_aside,
    write_folder,
    write_whole,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("content", [b"", b"new", memoryview(b"new")])
def test_what_is_written_is_read(tmp_path, content):
    write_whole(tmp_path / "file", content)
    assert (tmp_path / "file").read_bytes() == content
    assert names(tmp_path) == ["file"]


def test_an_old_file_is_replaced(tmp_path):
    (tmp_path / "file").write_bytes(b"something old and longer")
    write_whole(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("step", ["fsync", "chmod", "replace"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path, monkeypatch, step, error
):
    def fail(*_):
        raise error

    (tmp_path / "file").write_bytes(b"old")
    monkeypatch.setattr(_files.os, step, fail)
    with pytest.raises(error):
        write_whole(tmp_path / "file", b"new")
    assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_what_is_written_aside_appears_at_the_end(tmp_path):
    with write_aside(tmp_path / "file") as place:
        place.write_text("one")
        assert names(tmp_path) == [place.name]
        with place.open("a") as file:
            file.write(" two")
    assert (tmp_path / "file").read_text() == "one two"
    with pytest.raises(KeyError), write_aside(tmp_path / "other"):
        raise KeyError
    assert names(tmp_path) == ["file"]


def test_content_of_the_wrong_type_leaves_nothing(tmp_path):
    with pytest.raises(TypeError):
        write_whole(tmp_path / "file", "text")
    assert names(tmp_path) == []


def test_the_file_has_the_rights_of_any_new_file(tmp_path):
    mask = os.umask(0o027)
    try:
        (tmp_path / "usual").write_bytes(b"")
        write_whole(tmp_path / "ours", b"")
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(mask)
    modes = {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {0o640}


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing does not; make it first"):
        write_whole(tmp_path / "missing" / "file", b"")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(OSError, match="must be a file to be written: it is a folder"):
        write_whole(tmp_path, b"")
    assert list(tmp_path.iterdir()) == []


def test_pipes_and_devices_are_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to(pipe)
    for path in (pipe, tmp_path / "link"):
        with pytest.raises(OSError, match="it is a device or pipe"):
            write_whole(path, b"")
    assert pipe.is_fifo()


def test_links_stay_and_lead_to_what_was_written(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    link = tmp_path / "latest"
    link.symlink_to(folder / "file")
    for content in (b"new", b"replaced"):
        write_whole(link, content)
        assert link.is_symlink()
        assert (folder / "file").read_bytes() == content
    assert [path.name for path in folder.iterdir()] == ["file"]


def ended_process():
    """Number of a process that is no more."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_leftovers_of_dead_processes_go_and_those_of_living_ones_stay(tmp_path):
    living = f"{PREFIX}{os.getpid()}-abc"
    others = (living, f"{PREFIX}1-abc", f"{PREFIX}notes", "file")
    for name in (*others, f"{PREFIX}{ended_process()}-abc"):
        (tmp_path / name).write_bytes(b"")
    remove_leftovers(tmp_path)
    assert names(tmp_path) == sorted(others)


def test_a_folder_that_is_not_there_has_no_leftovers(tmp_path):
    remove_leftovers(tmp_path / "missing")


def test_leftover_folders_go_too(tmp_path):
    left = tmp_path / f"{PREFIX}{ended_process()}-abc"
    left.mkdir()
    (left / "file").write_bytes(b"much")
    remove_leftovers(tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize("exists", [False, True])
def test_a_folder_appears_when_all_is_written(tmp_path, exists):
    target = tmp_path / "folder"
    if exists:
        target.mkdir()
    with write_folder(target) as aside:
        (aside / "file").write_bytes(b"new")
        assert not exists or names(target) == []
    assert names(tmp_path) == ["folder"]
    assert names(target) == ["file"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failure_leaves_no_folder(tmp_path, error):
    def write():
        with write_folder(tmp_path / "folder") as aside:
            (aside / "file").write_bytes(b"new")
            raise error

    with pytest.raises(error):
        write()
    assert names(tmp_path) == []


def test_the_folder_has_the_rights_of_any_new_folder(tmp_path):
    (tmp_path / "usual").mkdir()
    with write_folder(tmp_path / "ours"):
        pass
    assert len({path.stat().st_mode for path in tmp_path.iterdir()}) == 1


def test_a_folder_with_contents_or_without_a_place_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    for taken in (tmp_path, tmp_path / "file"):
        with pytest.raises(FileExistsError, match="new or empty"), write_folder(taken):
            pass
    with (
        pytest.raises(FileNotFoundError, match="in a folder that exists"),
        write_folder(tmp_path / "missing" / "folder"),
    ):
        pass
    assert names(tmp_path) == ["file"]
