"""How a long search shows where it is: callbacks, a bar, or log lines.

``show_stages`` says what is being estimated, and ``show_progress`` how many of equal
parts are done; inside of stages both share one bar.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import RLock, Timer
from time import monotonic
from typing import Any

__all__ = [
    "CallbackSupport",
    "hide_progress",
    "show_progress",
    "show_stages",
    "with_callbacks",
]

LOGGER = logging.getLogger("priormtl")
SHORT = 2.0  # seconds below which nothing is shown
BETWEEN_LINES = 5.0  # seconds from log line to log line
HIDDEN: ContextVar[bool] = ContextVar("HIDDEN", default=False)
STAGES: ContextVar["_Stages | None"] = ContextVar("STAGES", default=None)

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupport
    from sklearn.callback import with_callbacks
except ImportError:  # before scikit-learn 1.9

    class CallbackSupport:  # type: ignore[no-redef]
        """No callbacks."""

    def with_callbacks(method: object) -> Any:
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
    estimator: object, root: object, name: str, total: int, parts: str = "paths"
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
        yield lambda count=1: None
        return
    stages = STAGES.get()
    if stages is not None and stages.bar is not None:
        yield _Progress(stages.title, total, parts, stages.bar, monotonic()).advance
        return
    bar = _open_bar() if sys.stderr.isatty() and not LOGGER.disabled else None
    try:
        yield _Progress(name, total, parts, bar, monotonic()).advance
    finally:
        if bar is not None:
            bar.close()


@contextmanager
def show_stages(estimator: object, name: str) -> Iterator[Callable[[str], None]]:
    """Yield a function to be called with words about what begins.

    What runs is shown once the whole takes longer than two seconds, also while a stage
    goes on. Callbacks of scikit-learn hear of paths only.
    """
    if HIDDEN.get() or getattr(estimator, "_skl_callbacks", None):
        yield lambda words: None
        return
    bar = _open_bar() if sys.stderr.isatty() and not LOGGER.disabled else None
    stages = _Stages(name, bar)
    before = STAGES.set(stages)
    timer = Timer(SHORT, stages.begin)
    timer.daemon = True  # an interrupt ends the program at once
    timer.start()
    try:
        yield stages.announce
    finally:
        timer.cancel()
        STAGES.reset(before)
        stages.close()


@dataclass
class _Stages:
    """What is being estimated, shown from a moment on by a timer's thread."""

    name: str
    bar: "_Bar | None"
    words: str = ""
    is_shown: bool = False
    is_closed: bool = False
    lock: Any = field(default_factory=RLock)

    @property
    def title(self) -> str:
        return f"{self.name}, {self.words}" if self.words else self.name

    def announce(self, words: str) -> None:
        with self.lock:
            self.words = words
            if self.is_shown:
                self.show()

    def begin(self) -> None:
        with self.lock:
            if not (self.is_shown or self.is_closed):
                self.is_shown = True
                self.show()

    def show(self) -> None:
        if self.bar is not None:
            self.bar.show(self.title, 0, None)
        else:
            LOGGER.info("%s", self.title)

    def close(self) -> None:
        with self.lock:
            self.is_closed = True
            if self.bar is not None:
                self.bar.close()


@contextmanager
def _tell_callbacks(
    estimator: object, root: Any, name: str, total: int
) -> Iterator[Callable[[], None]]:
    context = root.subcontext(task_name=name, max_subtasks=total)
    context.call_on_fit_task_begin(estimator=estimator)

    def advance() -> None:
        part = context.subcontext(task_name="path")
        part.call_on_fit_task_begin(estimator=estimator)
        part.call_on_fit_task_end(estimator=estimator)

    yield advance
    context.call_on_fit_task_end(estimator=estimator)


@dataclass
class _Progress:
    """Counts parts and says so from time to time, by a bar or by log lines."""

    name: str
    total: int
    parts: str
    bar: "_Bar | None"
    begin: float
    done: int = 0
    next_line: float = 0.0  # seconds from the beginning

    def advance(self, count: int = 1) -> None:
        self.done += count
        spent = monotonic() - self.begin
        if spent < max(SHORT, self.next_line):
            return
        if self.bar is not None:
            self.bar.show(self.name, self.done, self.total)
            return
        self.next_line = spent + BETWEEN_LINES
        left = spent * (self.total / max(1, self.done) - 1.0)
        words = f"%s: %d of %d {self.parts}, %.0f s left"
        LOGGER.info(words, self.name, self.done, self.total, left)


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
        self.lock = RLock()

    def show(self, name: str, done: int, total: int | None) -> None:
        """Show how much of a total is done; without one, that something is."""
        with self.lock:
            if self.bar is None:
                from rich.console import Console  # noqa: PLC0415

                self.bar = self.build(console=Console(stderr=True), transient=True)
                self.bar.start()
                self.task = self.bar.add_task(name, total=total)
            self.bar.update(self.task, description=name, completed=done, total=total)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
