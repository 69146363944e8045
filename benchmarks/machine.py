"""What the figures were measured on."""

import ast
import hashlib
import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

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


class Code(NamedTuple):
    """What a page measures: folders and modules of the library, without some."""

    rooms: tuple[str, ...]
    without: tuple[str, ...] = ()


def describe_code(code: Code) -> str:
    """Digest of what these modules do: the same after moves and new explanations."""
    found: list[str] = []
    aside = {SOURCE / f"{name}.py" for name in code.without}
    for room in code.rooms:
        home = SOURCE / room
        files = home.rglob("*.py") if home.is_dir() else [SOURCE / f"{room}.py"]
        for file in sorted({*files} - aside):
            found += _list_statements(file.read_text("utf-8"))
    return hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()[:16]


@cache
def _list_statements(text: str) -> tuple[str, ...]:
    tree = _Meaning().visit(ast.parse(text))
    return tuple(_spell(node) for node in tree.body)


class _Meaning(ast.NodeTransformer):
    """Leave out what changes no figure: texts, types, imports, what errors say."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        match node.value:
            case ast.Constant(value=str()):
                return None
        return node

    def visit_Import(self, node: ast.Import) -> None: ...

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None: ...

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(node.arg)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.Assign | ast.Expr:
        if node.value is None:
            return ast.Expr(node.target)
        return self.generic_visit(ast.Assign([node.target], node.value))

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        match node.exc:
            case ast.Call(func=kind):
                return ast.Raise(kind)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        return self.generic_visit(node)


def _spell(value: object) -> str:
    """Spell a node in the same way in every version of Python."""
    if isinstance(value, list):
        return f"[{','.join(map(_spell, value))}]"
    if not isinstance(value, ast.AST):
        return repr(value)
    parts = ((name, getattr(value, name, None)) for name in value._fields)
    told = (f"{k}={_spell(v)}" for k, v in parts if v is not None and v != [])
    return f"{type(value).__name__}({','.join(told)})"


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
