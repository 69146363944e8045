"""How much memory of its own a piece of work takes, on Linux."""

import os
from pathlib import Path
from threading import Event, Thread


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
