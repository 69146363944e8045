"""Signals end a command in order: one line, the usual code, nothing half-written."""

import signal
import subprocess
import sys

import pytest

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
        time.sleep(60)

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
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, **pipes, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        assert len(list(tmp_path.iterdir())) == 1
        process.send_signal(number := getattr(signal, name))
        _, said = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert said == f"{word}: no file was left half-written.\n"
    assert list(tmp_path.iterdir()) == []


def test_what_nohup_keeps_out_stays_out():
    code = (
        "import signal; from priormtl.cli.signals import orderly_end\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "with orderly_end(): signal.raise_signal(signal.SIGHUP)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
