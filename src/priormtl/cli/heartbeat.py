"""A line in the terminal while a command works in silence, such as when it loads."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from time import monotonic

__all__ = ["Heartbeat", "beating", "write_ascii"]

SILENCE = 1.0  # seconds after which somebody who watches may wonder
BETWEEN = 0.2  # seconds from look to look
FRAMES = "|/-\\"
CLEAR = "\r\x1b[K"


class Heartbeat:
    """Says how long a command has worked, where nothing else was said for a while.

    Bars speak more often than that, so that they are never disturbed.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self.write = write
        self.begin = self.last = monotonic()
        self.beats = 0  # since something else was said
        self.lock = Lock()

    def look(self) -> None:
        """Show a line if it has been silent for long."""
        with self.lock:
            now = monotonic()
            if now - self.last >= SILENCE:
                frame = FRAMES[self.beats % len(FRAMES)]
                self.write(f"\r{frame} working, {now - self.begin:.0f} s")
                self.beats += 1

    def give_way(self) -> None:
        """Take the line away, since something else is about to be said."""
        with self.lock:
            if self.beats:
                self.write(CLEAR)
            self.beats, self.last = 0, monotonic()


@contextmanager
def beating(heart: Heartbeat) -> Iterator[None]:
    """Look now and then, beside the work."""
    ended = Event()

    def look_on() -> None:
        while not ended.wait(BETWEEN):
            heart.look()

    Thread(target=look_on, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        heart.give_way()


def write_ascii(file: int, text: str) -> None:
    """Write to a terminal, past all buffers; one that is gone needs no line."""
    with suppress(OSError):
        os.write(file, text.encode("ascii"))
