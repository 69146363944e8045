"""leaving_interrupts: processes that begin inside leave Ctrl-C to the one above."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def leaving_interrupts() -> Iterator[None]:
    """Let threads and processes that begin inside never hear of Ctrl-C.

    A terminal tells all processes at once. Those that help would each end with a
    traceback, if they still load modules; this one ends them in order instead.
    """
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    # It would end the mask if it began inside.
    resource_tracker.ensure_running()
    # Inherited by what begins; for us it comes a moment later.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
