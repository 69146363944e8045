"""What the figures were measured on."""

import ast
import hashlib
import os
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from threadpoolctl import threadpool_info

SOURCE = Path(__file__).parents[1] / "src" / "priormtl"
PACKAGES = (
    "priormtl",
    "numpy",
    "scipy",
    "numba",
    "scikit-learn",
    "statsmodels",
    "pyarrow",
)


def describe_machine() -> dict[str, str]:
    """Names and values, without anything that tells whose machine it is."""
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": _memory(),
        "system": _system(),
        "Python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "BLAS": _blas(),
    }


def describe_commit() -> str:
    """Commit of the code that is measured; a plus where files differ from it."""
    asked = ["rev-parse --short=10 HEAD", "status --porcelain -- src benchmarks"]
    try:
        commit, changed = (
            subprocess.run(
                ["git", *words.split()],
                cwd=Path(__file__).parent.parent,
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()
            for words in asked
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit}{'+' if changed else ''}"


def describe_code(rooms: Iterable[str]) -> str:
    """Digest of the lines of these folders and modules, without what only explains."""
    found = hashlib.sha256()
    for room in rooms:
        home = SOURCE / room
        files = sorted(home.rglob("*.py")) if home.is_dir() else [SOURCE / f"{room}.py"]
        for file in files:
            text = file.read_text("utf-8")
            lines = [line.strip() for line in text.splitlines()]
            for node in ast.walk(ast.parse(text)):
                match node:
                    case ast.Expr(value=ast.Constant(value=str())):
                        docstring = slice(node.lineno - 1, node.end_lineno)
                        lines[docstring] = [""] * len(lines[docstring])
            code = [line for line in lines if line and not line.startswith("#")]
            found.update("\n".join([file.name, *code]).encode())
    return found.hexdigest()[:16]


def load_average() -> str:
    """Processes that wanted to run in the last minute; one is the benchmark's own."""
    return f"{os.getloadavg()[0]:.1f}"


def process_memory(field: str) -> int:
    """Bytes of this process, now (VmRSS) or at its peak (VmHWM); zero: not known."""
    for line in _lines("/proc/self/status"):
        if line.startswith(field):
            return 1024 * int(line.split()[1])
    return 0


def _processor() -> str:
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _memory() -> str:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemTotal"):
            return f"{int(line.split()[1]) / 2**20:.0f} GiB"
    return "unknown"


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.system()


def _blas() -> str:
    found = [row for row in threadpool_info() if row.get("user_api") == "blas"]
    words = {f"{row['internal_api']} {row.get('version', '')}".strip() for row in found}
    return f"{', '.join(sorted(words)) or 'unknown'}, one thread"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
