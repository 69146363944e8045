"""Output that cannot be written ends a command in one way, whoever printed it."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from priormtl.cli.streams import BROKEN_PIPE, GuardedWriter, guard_streams

needs_posix = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="needs /dev/full and a shell"
)


def fail(error):
    def write(data):
        raise error

    return write


def test_the_first_failure_is_answered_and_the_rest_dropped():
    answered = []
    stream, error = io.BytesIO(), OSError(28, "No space left on device")
    writer = GuardedWriter(stream, answered.append)
    assert writer.write(b"abc") == 3
    stream.write = fail(error)
    assert [writer.write(b"de"), writer.write(b"f")] == [2, 1]
    assert answered == [error]
    assert stream.getvalue() == b"abc"


def test_streams_of_others_stay(monkeypatch):
    ours, notebook = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", ours)
    monkeypatch.setattr(sys, "stderr", notebook)
    guard_streams()
    assert sys.stdout is ours
    assert sys.stderr is notebook


def run(words, ways):
    """Exit code and standard error of a command in a shell."""
    text = f'"$0" -m priormtl {words} {ways}'
    command = ["bash", "-c", text, sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@needs_posix
@pytest.mark.parametrize(
    ("words", "ways", "reason"),
    [
        ("--version", "> /dev/full", "No space left on device"),
        ("--version", ">&-", "Bad file descriptor"),
    ],
)
def test_output_without_a_place_is_one_sentence(words, ways, reason):
    code, said = run(words, ways)
    assert code == 1
    assert said.startswith(f"Error: could not write to standard output: {reason}; ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("words", ["--help", "data"])  # typer prints, rich prints
def test_a_reader_that_has_left_ends_it_silently(words):
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "priormtl", words]
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, check=False)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (BROKEN_PIPE, b"")


@needs_posix
@pytest.mark.parametrize("ways", ["2> /dev/full", "2>&-"])
def test_messages_without_a_place_change_nothing(ways):
    assert run("fly", ways) == (2, "")


@needs_posix
def test_files_never_get_the_number_of_a_closed_stream(tmp_path):
    code = (
        "from priormtl.cli.streams import guard_streams; guard_streams()\n"
        f"import os; file = open({str(tmp_path / 'a')!r}, 'w')\n"
        "os._exit(file.fileno())"
    )
    words = ["bash", "-c", '"$0" -c "$1" >&- 2>&-', sys.executable, code]
    assert subprocess.run(words, check=False).returncode > 2


@needs_posix
def test_what_is_printed_at_once_still_is():
    code = (
        "from priormtl.cli.streams import guard_streams; guard_streams()\n"
        "import os; print('größe', end=''); os._exit(0)"
    )
    done = subprocess.run(
        [sys.executable, "-u", "-c", code],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"gr??e"
