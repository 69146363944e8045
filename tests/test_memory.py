"""How much memory is free, read from files of a made-up machine."""

import pytest

from priormtl._machine import UNKNOWN, free_bytes

MEMINFO = "MemTotal: 9000 kB\nMemAvailable: 8000 kB\n"


def machine(tmp_path, files):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, UNKNOWN),
        ({"proc/meminfo": MEMINFO}, 8000 * 1024),
        # Version 2, without and with a limit, files that can be dropped, and none left.
        (
            {
                "proc/meminfo": MEMINFO,
                "sys/fs/cgroup/memory.max": "max\n",
                "sys/fs/cgroup/memory.current": "7\n",
            },
            8000 * 1024,
        ),
        (
            {
                "proc/meminfo": MEMINFO,
                "sys/fs/cgroup/memory.max": "5000\n",
                "sys/fs/cgroup/memory.current": "3000\n",
                "sys/fs/cgroup/memory.stat": "anon 1\ninactive_file 600\n",
            },
            2600,
        ),
        (
            {
                "sys/fs/cgroup/memory.max": "5000",
                "sys/fs/cgroup/memory.current": "6000",
            },
            0,
        ),
        # Version 1, in a group of its own inside another with less.
        (
            {
                "proc/meminfo": MEMINFO,
                "proc/self/cgroup": "4:memory:/outer/own\n3:cpu:/\n",
                "sys/fs/cgroup/memory/outer/memory.limit_in_bytes": "900",
                "sys/fs/cgroup/memory/outer/memory.usage_in_bytes": "500",
                "sys/fs/cgroup/memory/outer/own/memory.limit_in_bytes": "800",
                "sys/fs/cgroup/memory/outer/own/memory.usage_in_bytes": "300",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "500",
            },
            400,
        ),
    ],
)
def test_the_tightest_limit_counts(tmp_path, files, expected):
    assert free_bytes(machine(tmp_path, files)) == expected


def test_this_machine_has_some():
    assert free_bytes() > 0
