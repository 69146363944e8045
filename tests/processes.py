"""Processes that heed signals, even if the tests themselves run in the background."""

import subprocess
import sys

# A process inherits the signals that its parent ignores.
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
