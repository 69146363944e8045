"""The machine: how much memory there is, and how helper processes start.

Memory is the machine's, or a container's if that is less. Linux counts the latter in
control groups, of version 2 (``memory.max``) or 1 (``memory.limit_in_bytes``). Pages of
files that it may drop count as free.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path
from typing import NamedTuple

UNKNOWN = 2**30  # bytes that are taken to be free where nothing tells
ROOT = Path("/")


class _Group(NamedTuple):
    """A control group, and the names of its files."""

    folder: Path
    limit: str
    use: str
    dropped: str  # line of memory.stat: pages that may be dropped


def memory_limit(root: Path = ROOT) -> int | None:
    """Bytes of memory that this process may use; None if the system does not say."""
    limits = [_number(group.folder / group.limit) for group in _groups(root)]
    with suppress(AttributeError, OSError, ValueError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min((limit for limit in limits if limit is not None), default=None)


def free_bytes(root: Path = ROOT) -> int:
    """Bytes that can be taken without swapping or being killed."""
    found = []
    for folder, most, used, dropped in _groups(root):
        limit, use = _number(folder / most), _number(folder / used)
        if limit is not None and use is not None:
            found.append(limit - use + (_field(folder / "memory.stat", dropped) or 0))
    available = _field(root / "proc/meminfo", "MemAvailable:")
    if available is not None:
        found.append(1024 * available)
    elif not found and root == ROOT and "SC_AVPHYS_PAGES" in os.sysconf_names:
        found.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return max(0, min(found, default=UNKNOWN))


def _groups(root: Path) -> Iterator[_Group]:
    """Control groups of this process that count memory, and those around them."""
    mount = root / "sys/fs/cgroup"
    versions = (
        _Group(mount, "memory.max", "memory.current", "inactive_file"),
        _Group(
            mount / "memory",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        ),
    )
    lines = ["0::/", "1:memory:/"]
    with suppress(OSError, UnicodeError):
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    for line in lines:
        # hierarchy:controllers:path; version 2 has no controllers.
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "memory" not in controllers.split(","):
            continue
        group = versions[bool(controllers)]
        # Inside a container the path may be that of the host, which is not mounted:
        # then only the root of the mount exists.
        for name in ("", *path.strip("/").split("/")):
            group = group._replace(folder=group.folder / name)
            yield group


def _number(path: Path) -> int | None:
    """The number in a file; None without one, or where it says that there is none."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _field(path: Path, name: str) -> int | None:
    with suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            key, value, *_ = line.split()
            if key == name:
                return int(value)
    return None


# Processes.


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
