"""Terminal: failing output, signals and a sign of life."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from priormtl import __main__ as terminal
from priormtl.__main__ import (
    GuardedWriter,
    Heartbeat,
    guard_streams,
    heartbeat,
    write_ascii,
)
from processes import start_process

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
    assert said.startswith(f"Error: could not write to standard output: {reason}. ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("words", ["--help", "data"])  # typer prints, rich prints
def test_a_reader_that_has_left_ends_it_silently(words):
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "priormtl", words]
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, check=False)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (141, b"")


@needs_posix
@pytest.mark.parametrize("ways", ["2> /dev/full", "2>&-"])
def test_messages_without_a_place_change_nothing(ways):
    assert run("fly", ways) == (2, "")


@needs_posix
def test_files_never_get_the_number_of_a_closed_stream(tmp_path):
    code = (
        "from priormtl.__main__ import guard_streams; guard_streams()\n"
        f"import os; file = open({str(tmp_path / 'a')!r}, 'w')\n"
        "os._exit(file.fileno())"
    )
    words = ["bash", "-c", '"$0" -c "$1" >&- 2>&-', sys.executable, code]
    assert subprocess.run(words, check=False).returncode > 2


@needs_posix
def test_what_is_printed_at_once_still_is():
    code = (
        "from priormtl.__main__ import guard_streams; guard_streams()\n"
        "import os; print('größe', end=''); os._exit(0)"
    )
    done = subprocess.run(
        [sys.executable, "-u", "-c", code],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"gr??e"


WRITES_FOR_LONG = """
import sys, time
from pathlib import Path
from unittest.mock import patch
from typer import Typer
from priormtl.__main__ import main
from priormtl._files import write_aside

app = Typer()

@app.command()
def stay(file: Path):
    with write_aside(file):
        print("ready", flush=True)
        time.sleep(600)

with patch("priormtl.cli.main.app", app):
    main()
"""
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs signals")


@pytest.mark.parametrize(
    ("name", "word"),
    [("SIGINT", "Interrupted"), ("SIGTERM", "Terminated"), ("SIGHUP", "Hung up")],
)
def test_a_command_that_is_ended_leaves_nothing(tmp_path, name, word):
    words = [sys.executable, "-c", WRITES_FOR_LONG, str(tmp_path / "a.csv")]
    with start_process(words) as process:
        assert process.stdout.readline() == "ready\n"
        assert len(list(tmp_path.iterdir())) == 1
        process.send_signal(number := getattr(signal, name))
        _, said = process.communicate(timeout=300)
    assert process.returncode == 128 + number
    assert said == f"{word}: no partial file was left behind.\n"
    assert list(tmp_path.iterdir()) == []


def test_what_nohup_keeps_out_stays_out():
    code = (
        "import signal; from priormtl.__main__ import handle_signals\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "with handle_signals(): signal.raise_signal(signal.SIGHUP)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr(terminal, "monotonic", lambda: now[0])
    return now


def test_nothing_is_said_of_a_short_silence(clock):
    said = []
    heart = Heartbeat(said.append)
    clock[0] = 0.9
    heart.check()
    heart.clear()
    assert said == []


def test_a_long_silence_is_counted_from_the_beginning(clock):
    said = []
    heart = Heartbeat(said.append)
    for seconds in (1.0, 2.0):
        clock[0] = seconds
        heart.check()
    assert said == ["\r| working, 1 s", "\r/ working, 2 s"]


def test_it_gives_way_once_and_waits_again(clock):
    said = []
    heart = Heartbeat(said.append)
    clock[0] = 1.5
    heart.check()
    heart.clear()
    heart.clear()
    clock[0] = 2.4
    heart.check()
    assert said == ["\r| working, 2 s", "\r\x1b[K"]


def test_it_ends_with_the_work(clock):
    said = []
    heart = Heartbeat(said.append)
    clock[0] = 5.0
    with heartbeat(heart):
        heart.check()
    assert said[-1] == "\r\x1b[K"


def test_a_terminal_that_is_gone_needs_no_line():
    ours, theirs = os.pipe()
    write_ascii(theirs, "a")
    assert os.read(ours, 9) == b"a"
    os.close(ours)
    write_ascii(theirs, "b")
    os.close(theirs)
