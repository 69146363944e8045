"""leaving_interrupts: start helper processes that leave Ctrl-C to their parent."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def leaving_interrupts() -> Iterator[None]:
    """Block Ctrl-C in threads and processes that are started inside.

    A terminal sends SIGINT to all processes at once. Helpers would each end with a
    traceback if they still load modules; their parent ends them in order instead.
    """
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    # If the tracker started inside, it would unblock the signal.
    resource_tracker.ensure_running()
    # New threads and processes inherit the mask; here the signal is only delayed.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
