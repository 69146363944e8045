"""How much memory is free: the machine's, or a container's limit if that is less.

Linux counts a container's memory in control groups, of version 2 (``memory.max``) or 1
(``memory.limit_in_bytes``). Pages of files that it may drop count as free.
"""

import os
from collections.abc import Iterator
from pathlib import Path

UNKNOWN = 2**30  # bytes that are taken to be free where nothing tells
ROOT = Path("/")
VERSIONS = (  # folder, limit, use, and what could be dropped
    ("", "memory.max", "memory.current", "inactive_file"),
    (
        "memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
)


def free_bytes(root: Path = ROOT) -> int:
    """Bytes that can be taken without swapping or being killed."""
    found = [*_group_limits(root)]
    available = _field(root / "proc/meminfo", "MemAvailable:")
    if available is not None:
        found.append(1024 * available)
    elif not found and root == ROOT and "SC_AVPHYS_PAGES" in os.sysconf_names:
        found.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return max(0, min(found, default=UNKNOWN))


def _group_limits(root: Path) -> Iterator[int]:
    """What each control group of this process still allows."""
    names = {""}  # inside a container its own group is the root
    try:
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, name = line.split(":", 2)
            if controllers in ("", "memory"):
                # Limits of the groups around it count, too.
                parts = name.strip("/").split("/")
                names |= {"/".join(parts[:k]) for k in range(1, len(parts) + 1)}
    except (OSError, ValueError):
        pass
    for folder, most, used, dropped in VERSIONS:
        for name in names:
            group = root / "sys/fs/cgroup" / folder / name
            limit, use = _number(group / most), _number(group / used)
            if limit is not None and use is not None:
                yield limit - use + (_field(group / "memory.stat", dropped) or 0)


def _number(path: Path) -> int | None:
    """The number in a file; None without one, or where it says that there is none."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _field(path: Path, name: str) -> int | None:
    try:
        for line in path.read_text().splitlines():
            key, value, *_ = line.split()
            if key == name:
                return int(value)
    except (OSError, ValueError):
        pass
    return None
