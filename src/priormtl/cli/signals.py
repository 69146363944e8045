"""Signals that end a command: one short line, the usual code, nothing half-written."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["orderly_end"]

INTERRUPTED = 128 + signal.SIGINT
ENDING = tuple(
    number
    for name in ("SIGTERM", "SIGHUP")
    if (number := getattr(signal, name, None)) is not None  # not all on Windows
)
WORDS = {INTERRUPTED: "Interrupted"} | {
    128 + number: word
    for number, word in zip(ENDING, ("Terminated", "Hung up"), strict=False)
}


@contextmanager
def orderly_end() -> Iterator[None]:
    """Unwind at the signals that end a process, and say so.

    What was being written aside is removed on the way out.
    """
    for number in ENDING:
        if signal.getsignal(number) == signal.SIG_DFL:  # else as nohup wants it
            signal.signal(number, _unwind)
    try:
        yield
    except KeyboardInterrupt:
        _say(INTERRUPTED)
        sys.exit(INTERRUPTED)
    except SystemExit as end:
        _say(end.code)
        raise


def _unwind(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _say(code: object) -> None:
    word = WORDS.get(code) if isinstance(code, int) else None
    if word is None:
        return
    after_typing = "\n" if code == INTERRUPTED and sys.stderr.isatty() else ""  # ^C
    sys.stderr.write(f"{after_typing}{word}: no file was left half-written.\n")
