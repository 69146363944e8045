"""Mutation test: change the core a little, and see whether a test notices.

Picks random places in the core's source, changes one of each (an operator, a
comparison, a constant, a dropped ``not``, swapped arguments), and runs the tests of
its room until the first failure. A mutant that no test notices has survived: it is
printed with its file, line and change::

    python -m benchmarks.mutants --count 200 --seed 0 [--room solvers] [--timeout 300]

Work is done in a temporary copy of the tree. Compiled loops are cached beside their
source by its time stamp, but not by that of functions they call: where a mutated
module is compiled, all caches of the copy are removed before and after.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HOME = Path(__file__).parent.parent
PACKAGE = "src/priormtl"
COPIED = ("src", "tests", "benchmarks", "docs", "examples", "pyproject.toml")
IGNORED = shutil.ignore_patterns(
    ".hypothesis", "_build", "generated", ".pytest_cache", ".mypy_cache"
)

# Tests that matter for a room, the quickest and sharpest first. Folders that are not
# there are left out.
TESTS = {
    "problem": ("tests/problem", "tests/solvers", "tests/test_laws.py"),
    "losses": ("tests/losses", "tests/problem", "tests/estimators"),
    "penalties": ("tests/penalties", "tests/solvers", "tests/baselines"),
    "solvers": ("tests/solvers", "tests/test_laws.py", "tests/test_agreement.py"),
    "selection": ("tests/selection", "tests/estimators", "tests/test_laws.py"),
    "priors": ("tests/priors", "tests/estimators", "tests/audits"),
    "data": ("tests/data", "tests/estimators", "tests/engines"),
    "audits": ("tests/audits", "tests/reports"),
    "estimators": ("tests/estimators", "tests/test_sklearn.py", "tests/test_laws.py"),
}

OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.MatMult: None,  # shapes would not fit
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
REVERSED = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}
TWINS = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "any": "all",
    "all": "any",
    "argmin": "argmax",
    "argmax": "argmin",
}


class Mutant(NamedTuple):
    """One change of the source: a piece of text replaced by another."""

    file: str  # within the tree
    line: int
    start: int  # in characters of the file
    end: int
    text: str

    def apply(self, source: str) -> str:
        """The file with the change."""
        return source[: self.start] + self.text + source[self.end :]


def find_mutants(file: str, source: str) -> Iterator[Mutant]:
    """All changes of one file that this tester knows."""
    begins = [0]
    for line in source.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    lines = source.splitlines(keepends=True)

    def place(line: int, column: int) -> int:
        # Columns of the syntax tree count bytes.
        head = lines[line - 1].encode()[:column].decode()
        return begins[line - 1] + len(head)

    def change(old: ast.expr, new: ast.expr) -> Mutant:
        start = place(old.lineno, old.col_offset)
        assert old.end_lineno is not None
        assert old.end_col_offset is not None
        end = place(old.end_lineno, old.end_col_offset)
        text = ast.unparse(ast.fix_missing_locations(new))
        return Mutant(file, old.lineno, start, end, f"({text})")

    for node in walk_code(ast.parse(source)):
        for new in changes_of(node):
            yield change(node, new)


def walk_code(tree: ast.AST) -> Iterator[ast.expr]:
    """Expressions that run: no annotations, no texts, no exported names."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        if isinstance(tree, ast.JoinedStr | ast.Raise):
            continue  # wording of messages
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.expr):
                yield child
            if isinstance(child, ast.AST):
                yield from walk_code(child)


def changes_of(node: ast.expr) -> Iterator[ast.expr]:
    """What an expression may become."""
    if isinstance(node, ast.BinOp):
        kind = OPERATORS.get(type(node.op))
        texts = any(isinstance(s, ast.JoinedStr) for s in (node.left, node.right))
        if kind is not None and not texts:
            yield ast.BinOp(node.left, kind(), node.right)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        for table in (COMPARISONS, REVERSED):
            if type(node.ops[0]) in table:
                kind = table[type(node.ops[0])]
                yield ast.Compare(node.left, [kind()], node.comparators)
    elif isinstance(node, ast.BoolOp):
        kind = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield ast.BoolOp(kind(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(
        node.op, ast.Not | ast.USub | ast.Invert
    ):
        yield node.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield ast.Constant(node.value + 1)
        yield ast.Constant(node.value - 1 if node.value != 0 else -1)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Call):
        name = node.func
        if isinstance(name, ast.Name) and name.id in TWINS:
            other: ast.expr = ast.Name(TWINS[name.id])
            yield ast.Call(other, node.args, node.keywords)
        elif isinstance(name, ast.Attribute) and name.attr in TWINS:
            other = ast.Attribute(name.value, TWINS[name.attr])
            yield ast.Call(other, node.args, node.keywords)
    elif isinstance(node, ast.IfExp):
        yield ast.IfExp(node.test, node.orelse, node.body)


def choose(tree: Path, count: int, seed: int, room: str | None) -> list[Mutant]:
    """Random mutants, each room by its number of changes."""
    rooms = TESTS if room is None else (room,)
    found = []
    for name in rooms:
        for path in sorted((tree / PACKAGE / name).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            found += find_mutants(str(path.relative_to(tree)), source)
    return random.Random(seed).sample(found, min(count, len(found)))


def forget_compiled(tree: Path) -> None:
    """Remove caches of compiled loops."""
    for pattern in ("*.nbi", "*.nbc"):
        for file in (tree / "src").rglob(pattern):
            file.unlink()


def environment(tree: Path) -> dict[str, str]:
    """One thread, the copy's source, no bytecode that could be stale."""
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    found = {**os.environ, **one, "SCIPY_ARRAY_API": "1"}
    found |= {"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    # Random inputs of laws stay the same from mutant to mutant.
    return found | {"PYTHONHASHSEED": "0"}


def notice(tree: Path, room: str, timeout: float) -> str | None:
    """Test that fails, or "timeout"; None if all tests of a room pass."""
    there = [test for test in TESTS[room] if (tree / test).exists()]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "--no-header"]
    command += ["-p", "no:cacheprovider", "--tb=no", "-rfE", "-m", "not slow", *there]
    command += [f"{PACKAGE}/{room}"]  # doctests
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env=environment(tree),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "timeout"
    if done.returncode == 0:
        return None
    lines = done.stdout.splitlines()
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return failed[0][:120] if failed else f"exit code {done.returncode}"


def try_mutant(tree: Path, mutant: Mutant, timeout: float) -> str | None:
    """Change the copy, run the tests of the room, and change it back."""
    path = tree / mutant.file
    source, before = path.read_text(encoding="utf-8"), path.stat()
    compiled = "numba" in source or "kernels" in mutant.file
    path.write_text(mutant.apply(source), encoding="utf-8")
    kept = tree.parent / "caches"
    if compiled:
        keep_caches(tree, kept)
    try:
        return notice(tree, Path(mutant.file).parts[2], timeout)
    finally:
        path.write_text(source, encoding="utf-8")
        if compiled:
            bring_back(tree, kept)
        # Caches of compiled loops hold the time stamp of their source.
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def keep_caches(tree: Path, kept: Path) -> None:
    """Move all caches of compiled loops out of the tree."""
    for file in list((tree / "src").rglob("*.nb[ic]")):
        place = kept / file.relative_to(tree)
        place.parent.mkdir(parents=True, exist_ok=True)
        file.rename(place)


def bring_back(tree: Path, kept: Path) -> None:
    """Replace what a mutant has compiled by what was there before."""
    forget_compiled(tree)
    for file in list(kept.rglob("*.nb[ic]")):
        place = tree / file.relative_to(kept)
        place.parent.mkdir(parents=True, exist_ok=True)
        file.rename(place)


def describe(tree: Path, mutant: Mutant) -> str:
    """File, line and change."""
    source = (tree / mutant.file).read_text(encoding="utf-8")
    before = " ".join(source[mutant.start : mutant.end].split())
    after = " ".join(mutant.text[1:-1].split())
    return f"{mutant.file}:{mutant.line}: {before[:70]}  ->  {after[:70]}"


def main() -> int:
    """Try mutants, and print those that survive."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--room", choices=TESTS)
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds each")
    given = parser.parse_args()
    survivors: list[str] = []
    tried: dict[str, Counter[bool]] = defaultdict(Counter)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        tree.mkdir()
        for name in COPIED:
            origin = HOME / name
            if origin.is_dir():
                shutil.copytree(origin, tree / name, ignore=IGNORED)
            elif origin.exists():
                shutil.copy2(origin, tree / name)
        # Data that tests read stand beside the repository.
        if (HOME.parent / "shared").exists():
            (Path(folder) / "shared").symlink_to(HOME.parent / "shared")
        mutants = choose(tree, given.count, given.seed, given.room)
        for k, mutant in enumerate(mutants, 1):
            begin, words = time.monotonic(), describe(tree, mutant)
            noticed = try_mutant(tree, mutant, given.timeout)
            tried[Path(mutant.file).parts[2]][noticed is not None] += 1
            word = "SURVIVED" if noticed is None else "killed"
            seconds = time.monotonic() - begin
            print(f"{k:3} {word:8} {seconds:4.0f} s  {words}", flush=True)
            print(f"    {noticed or 'no test failed'}", flush=True)
            if noticed is None:
                survivors.append(words)
    print()
    for room, count in tried.items():
        print(f"{room:12} {count[True]} of {count.total()} killed")
    killed = len(mutants) - len(survivors)
    print(f"{'all':12} {killed} of {len(mutants)} killed")
    for words in survivors:
        print(f"survived: {words}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
