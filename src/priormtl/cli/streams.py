"""Standard streams that may be full, broken or closed: one sentence, or silence."""

import io
import os
import sys
from collections.abc import Callable
from errno import EBADF
from typing import Any

__all__ = ["guard_streams"]

BROKEN_PIPE = 128 + 13  # as if SIGPIPE had ended the command


def guard_streams(before: Callable[[], None] = lambda: None) -> None:
    """Let output that cannot be written end the command, and messages end nothing.

    Letters that the terminal or file does not know become question marks. ``before`` is
    called before each write to a terminal.
    """
    _occupy_closed()
    sys.stdout = _guard(sys.stdout, _end, before)
    sys.stderr = _guard(sys.stderr, _say_nothing, before)


class GuardedWriter(io.RawIOBase):
    """Writes through to another stream, until that fails for the first time.

    What comes later is dropped, so that nothing is tried again when Python ends.
    """

    def __init__(
        self,
        stream: Any,  # None: closed
        answer: Callable[[OSError], None],
        before: Callable[[], None] = lambda: None,
    ) -> None:
        self.stream = stream
        self.answer = answer
        self.before = before
        self.lost = False

    def write(self, data: Any) -> int:
        """Write bytes, as many as the stream takes at once."""
        size = memoryview(data).nbytes
        if self.lost:
            return size
        try:
            if self.stream is None:
                raise OSError(EBADF, os.strerror(EBADF))
            self.before()
            return self.stream.write(data)
        except OSError as error:
            self.lost = True
            self.answer(error)
        return size

    def writable(self) -> bool:
        """Whether something can be written: always, be it in vain."""
        return True

    def isatty(self) -> bool:
        """Whether somebody is watching."""
        return self.stream is not None and self.stream.isatty()

    def fileno(self) -> int:
        """Number of the file below."""
        if self.stream is None:
            raise io.UnsupportedOperation("fileno")
        return self.stream.fileno()


def _guard(
    stream: Any, answer: Callable[[OSError], None], before: Callable[[], None]
) -> Any:
    if stream is None:
        return _as_text(GuardedWriter(None, answer))
    if not hasattr(stream, "buffer"):  # not of this process, as in notebooks
        return stream
    stream.flush()
    below = getattr(stream.buffer, "raw", stream.buffer)
    raw = GuardedWriter(below, answer, *([before] if stream.isatty() else []))
    return _as_text(
        raw,
        encoding=stream.encoding,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _as_text(
    raw: GuardedWriter, *, write_through: bool = False, **settings: Any
) -> io.TextIOWrapper:
    buffer: Any = raw if write_through else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        buffer, errors="replace", write_through=write_through, **settings
    )


def _end(error: OSError) -> None:
    """End silently where nobody reads on, with one sentence otherwise."""
    if isinstance(error, BrokenPipeError):
        raise SystemExit(BROKEN_PIPE)
    raise SystemExit(
        f"Error: could not write to standard output: {error.strerror}; send it to a "
        "file or a terminal that takes it."
    )


def _say_nothing(error: OSError) -> None:
    """Messages are lost; what the command makes is not."""


def _occupy_closed() -> None:
    """Keep the numbers of closed streams from files that are opened later."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
