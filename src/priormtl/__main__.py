"""The ``priormtl`` command, also as ``python -m priormtl``, and its terminal.

Standard output that is full, broken or closed ends the command with one sentence, or
silently if its reader has left. Signals that end the process unwind it, so that files
that are being written are removed. While a command is silent, a line in the terminal
shows that it is working. Only the standard library is needed here, so that all of this
also holds while packages are loaded.
"""

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from errno import EBADF
from functools import partial
from importlib.util import find_spec
from threading import Event, Lock, Thread
from time import monotonic
from types import FrameType
from typing import IO, TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# Signals that end the command, as far as the system has them.
ENDING = {
    number: word
    for name, word in (
        ("SIGINT", "Interrupted"),
        ("SIGTERM", "Terminated"),
        ("SIGHUP", "Hung up"),
    )
    if (number := vars(signal).get(name)) is not None
}


# Streams


def guard_streams(before: Callable[[], None] = lambda: None) -> None:
    """End the command if output cannot be written, and ignore lost messages.

    Characters that the terminal or file does not know become question marks.
    ``before`` is called before each write to a terminal.
    """
    # Keep the numbers of closed streams from files that are opened later.
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    sys.stdout = _guard(sys.stdout, _exit_without_output, before)
    sys.stderr = _guard(sys.stderr, lambda error: None, before)


class GuardedWriter(io.RawIOBase):
    """Write through to another stream until that fails for the first time.

    What comes later is dropped, so that nothing is tried again when Python ends.
    """

    def __init__(
        self,
        stream: IO[bytes] | None,  # None: closed
        on_error: Callable[[OSError], None],
        before: Callable[[], None] = lambda: None,
    ) -> None:
        self.stream = stream
        self.on_error = on_error
        self.before = before
        self.failed = False

    def write(self, data: "ReadableBuffer") -> int:  # noqa: D102
        size = memoryview(data).nbytes
        if self.failed:
            return size
        try:
            if self.stream is None:
                raise OSError(EBADF, os.strerror(EBADF))
            self.before()
            return self.stream.write(data)
        except OSError as error:
            self.failed = True
            self.on_error(error)
        return size

    def writable(self) -> bool:  # noqa: D102
        return True

    def isatty(self) -> bool:  # noqa: D102
        return self.stream is not None and self.stream.isatty()

    def fileno(self) -> int:  # noqa: D102
        if self.stream is None:
            raise io.UnsupportedOperation("fileno")
        return self.stream.fileno()


def _guard(
    stream: TextIO | None,
    on_error: Callable[[OSError], None],
    before: Callable[[], None],
) -> TextIO:
    if stream is None:
        closed = io.BufferedWriter(GuardedWriter(None, on_error))
        return io.TextIOWrapper(closed, errors="replace")
    if not isinstance(stream, io.TextIOWrapper):  # not of this process, as in notebooks
        return stream
    stream.flush()
    buffer = stream.buffer
    below = buffer.raw if isinstance(buffer, io.BufferedWriter) else buffer
    raw = GuardedWriter(below, on_error, *([before] if stream.isatty() else []))
    guarded = raw if stream.write_through else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        guarded,  # type: ignore[type-var]
        encoding=stream.encoding,
        errors="replace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _exit_without_output(error: OSError) -> None:
    """End silently if the reader has left, with one sentence otherwise."""
    if isinstance(error, BrokenPipeError):
        raise SystemExit(128 + 13)  # as if SIGPIPE had ended the command
    raise SystemExit(
        f"Error: could not write to standard output: {error.strerror}. Redirect it to "
        "a file or terminal with space."
    )


# Signals


@contextmanager
def handle_signals() -> Iterator[None]:
    """Unwind at the signals that end a process, and say so in one line.

    Files that are being written are removed on the way out.
    """

    def unwind(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    for number in ENDING:
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, unwind)
    try:
        yield
    except KeyboardInterrupt:
        _explain(128 + signal.SIGINT)
        sys.exit(128 + signal.SIGINT)
    except SystemExit as end:
        _explain(end.code)
        raise


def _explain(code: object) -> None:
    word = ENDING.get(code - 128) if isinstance(code, int) else None
    if word is not None:
        # The terminal shows ^C where the cursor is.
        newline = "\n" if word == "Interrupted" and sys.stderr.isatty() else ""
        sys.stderr.write(f"{newline}{word}: no partial file was left behind.\n")


# Sign of life


class Heartbeat:
    """Show how long a command has worked when nothing else was printed for a while.

    Progress bars print more often than that, so they are never disturbed.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self.write = write
        self.begin = self.last = monotonic()
        self.beats = 0  # since something else was printed
        self.lock = Lock()

    def check(self) -> None:
        """Show a line if nothing was printed for long."""
        silence = 1.0  # seconds after which a waiting user may wonder
        with self.lock:
            now = monotonic()
            if now - self.last >= silence:
                frame = "|/-\\"[self.beats % 4]
                self.write(f"\r{frame} working, {now - self.begin:.0f} s")
                self.beats += 1

    def clear(self) -> None:
        """Remove the line, since something else is about to be printed."""
        with self.lock:
            if self.beats:
                self.write("\r\x1b[K")
            self.beats, self.last = 0, monotonic()


@contextmanager
def heartbeat(heart: Heartbeat) -> Iterator[None]:
    """Check now and then, in a thread beside the work."""
    ended = Event()

    def watch() -> None:
        between = 0.2  # seconds between checks
        while not ended.wait(between):
            heart.check()

    Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        heart.clear()


def write_ascii(file: int, text: str) -> None:
    """Write to a terminal, past all buffers; one that is gone is ignored."""
    with suppress(OSError):
        os.write(file, text.encode("ascii"))


# The command


def main() -> None:
    """Run the command line, or name the packages that it needs."""
    with handle_signals(), _open_streams():
        if any(find_spec(name) is None for name in ("typer", "rich")):
            sys.exit(
                "The priormtl command needs two packages: pip install 'priormtl[cli]'"
            )
        from priormtl.cli.main import app  # noqa: PLC0415

        try:
            app(prog_name="priormtl")
        finally:
            sys.stdout.flush()  # here, where it can still be answered


def _open_streams() -> AbstractContextManager[None]:
    """Guard the streams; in terminals also show that a silent command is working."""
    if sys.stderr is None or not sys.stderr.isatty():
        guard_streams()
        return nullcontext()
    heart = Heartbeat(partial(write_ascii, sys.stderr.fileno()))
    guard_streams(heart.clear)
    return heartbeat(heart)


if __name__ == "__main__":
    main()
