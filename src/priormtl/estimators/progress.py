"""How a long search shows where it is: callbacks, a bar, or log lines."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import Any

__all__ = ["CallbackSupport", "hide_progress", "show_progress", "with_callbacks"]

LOGGER = logging.getLogger("priormtl")
SHORT = 2.0  # seconds below which nothing is shown
BETWEEN_LINES = 5.0  # seconds from log line to log line
HIDDEN: ContextVar[bool] = ContextVar("HIDDEN", default=False)

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupport
    from sklearn.callback import with_callbacks
except ImportError:  # before scikit-learn 1.9

    class CallbackSupport:  # type: ignore[no-redef]
        """No callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Leave a method as it is."""
        return method


@contextmanager
def hide_progress() -> Iterator[None]:
    """No bars and no lines of what runs inside: something larger shows its own."""
    before = HIDDEN.set(True)
    try:
        yield
    finally:
        HIDDEN.reset(before)


@contextmanager
def show_progress(
    estimator: Any, root: Any, name: str, total: int, parts: str = "paths"
) -> Iterator[Callable[..., None]]:
    """Yield a function to be called after each of ``total`` parts, named ``parts``.

    It takes the number of parts that are done, one by default.

    Callbacks of scikit-learn are told, where the estimator has any (``root`` is their
    context). Else terminals show a bar, once it is worth it, and other outputs get
    log lines at level INFO; disabling the logger "priormtl" turns both off.
    """
    if root is not None and getattr(estimator, "_skl_callbacks", None):
        with _tell_callbacks(estimator, root, name, total) as advance:
            yield advance
        return
    if HIDDEN.get():
        yield _say_nothing
        return
    show = _open_bar() if sys.stderr.isatty() and not LOGGER.disabled else None
    progress = _Progress(name, total, show or _Lines(parts))
    try:
        yield progress.advance
    finally:
        progress.close()


@contextmanager
def _tell_callbacks(
    estimator: Any, root: Any, name: str, total: int
) -> Iterator[Callable[[], None]]:
    context = root.subcontext(task_name=name, max_subtasks=total)
    context.call_on_fit_task_begin(estimator=estimator)

    def advance() -> None:
        part = context.subcontext(task_name="path")
        part.call_on_fit_task_begin(estimator=estimator)
        part.call_on_fit_task_end(estimator=estimator)

    yield advance
    context.call_on_fit_task_end(estimator=estimator)


class _Progress:
    """Counts parts and says so from time to time."""

    def __init__(self, name: str, total: int, show: Any) -> None:
        self.name, self.total, self.show = name, total, show
        self.done = 0
        self.begin = monotonic()
        self.next_line = self.begin + SHORT

    def advance(self, count: int = 1) -> None:
        """Count one part, or several."""
        self.done += count
        now = monotonic()
        if now < self.next_line:
            return
        left = (now - self.begin) * (self.total / max(1, self.done) - 1.0)
        self.next_line = now + self.show(self.name, self.done, self.total, left)

    def close(self) -> None:
        """Take the bar away."""
        close = getattr(self.show, "close", None)
        if close is not None:
            close()


def _say_nothing(count: int = 1) -> None:
    """Count nothing."""


class _Lines:
    """Log lines that say how many parts are done."""

    def __init__(self, parts: str) -> None:
        self.words = f"%s: %d of %d {parts}, %.0f s left"

    def __call__(self, name: str, done: int, total: int, left: float) -> float:
        """Write a line; returns the seconds until the next one is due."""
        LOGGER.info(self.words, name, done, total, left)
        return BETWEEN_LINES


def _open_bar() -> "_Bar | None":
    """Bar of rich, if that is installed."""
    try:
        from rich.progress import Progress  # noqa: PLC0415
    except ImportError:
        return None
    return _Bar(Progress)


class _Bar:
    """A bar on standard error that begins when it is first shown."""

    def __init__(self, build: Any) -> None:
        self.build = build
        self.bar: Any = None

    def __call__(self, name: str, done: int, total: int, left: float) -> float:
        if self.bar is None:
            from rich.console import Console  # noqa: PLC0415

            self.bar = self.build(console=Console(stderr=True), transient=True)
            self.bar.start()
            self.task = self.bar.add_task(name, total=total)
        self.bar.update(self.task, completed=done)
        return 0.0

    def close(self) -> None:
        """End the bar, if it ever began."""
        if self.bar is not None:
            self.bar.stop()
