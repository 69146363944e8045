"""Processes: their signals, their memory, how commands refuse, and units of work."""

import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import pyarrow as pa

from priormtl.exceptions import ApproximationWarning

# A process inherits the signals that its parent ignores, even if the tests themselves
# run in the background.
LAUNCH = (
    "import os, signal, sys\n"
    "for name in ('SIGINT', 'SIGTERM', 'SIGHUP'):\n"
    "    signal.signal(getattr(signal, name), signal.SIG_DFL)\n"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


def start_process(words, **settings):
    """Start a process with the default answers to signals, and pipes."""
    command = [sys.executable, "-c", LAUNCH, *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **pipes, **settings)


@dataclass(frozen=True)
class Square:
    """A number squared; every computation leaves a line in a log."""

    number: int
    log: str
    seconds: float = 0.0
    fails: bool = False
    dies: bool = False
    remark: str | None = None  # a warning
    shade: str = "plain"  # part of the settings, not of the rows

    @property
    def label(self) -> str:
        return f"square of {self.number}"

    @property
    def family(self) -> tuple[str, ...]:
        return ("square",)

    def settings(self) -> dict[str, object]:
        return {"kind": "square", "number": self.number, "shade": self.shade}

    def compute(self) -> pa.Table:
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(f"{self.number}\n")
        time.sleep(self.seconds)
        if self.remark is not None:
            warnings.warn(self.remark, ApproximationWarning, stacklevel=1)
        if self.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fails:
            raise ValueError(f"{self.number} cannot be squared")
        return self.square()

    def square(self) -> pa.Table:
        return pa.table({"number": [self.number], "square": [self.number**2]})


def assert_refused(result, *words):
    """Whether a command failed for a reason that it told, with these words in it."""
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr


# Memory of a process of its own, on Linux.


def beside_tests():
    """Environment of a process that can import this file."""
    known = os.environ.get("PYTHONPATH", "")
    return os.environ | {"PYTHONPATH": f"{Path(__file__).parent}{os.pathsep}{known}"}


def own_memory():
    """Megabytes of this process that are no file's."""
    with open("/proc/self/status") as status:
        found = next(line for line in status if line.startswith("RssAnon"))
    return int(found.split()[1]) // 1024


def watch_memory(work):
    """Result of a function, and by how many megabytes the process grew meanwhile."""
    before, peaks, done = own_memory(), [], Event()

    def watch():
        while not done.wait(0.002):
            peaks.append(own_memory())

    watcher = Thread(target=watch)
    watcher.start()
    try:
        return work(), max([*peaks, own_memory()]) - before
    finally:
        done.set()
        watcher.join()
