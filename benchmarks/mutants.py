"""Mutation test: change the core a little, and see whether a test notices.

Picks random places in the core's source and changes one at a time (an operator, a
comparison, a constant, a dropped ``not``). Then it runs the tests that enter the
changed function, until the first failure. A mutant that no test notices has survived:
it is printed with its file, line and change::

    python -m benchmarks.mutants --count 200 --seed 0 [--room solvers] [--seconds 20]

Which test enters which function is recorded first, by running the quick tests of the
core once under a trace function; ``--record FILE`` keeps that for the next run.

Work is done in a temporary copy of the tree. Every mutant is tried in a fork of one
process that has loaded the large libraries. Compiled loops are cached beside their
source by its time stamp, but not by that of functions they call: where a mutated
module is compiled, all caches of the copy are put aside meanwhile.
"""

import argparse
import ast
import contextlib
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

HOME = Path(__file__).parent.parent
PACKAGE = "src/priormtl"
COPIED = ("src", "tests", "benchmarks", "docs", "examples", "pyproject.toml")
IGNORED = shutil.ignore_patterns(
    ".hypothesis", "_build", "generated", ".pytest_cache", ".mypy_cache", "*.pyc"
)
# One thread, and no bytecode that could be older than a mutant.
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "SCIPY_ARRAY_API": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
# Loaded once, before the first fork. None of them starts threads when it is imported.
LIBRARIES = (
    "cvxpy",
    "hypothesis",
    "joblib",
    "matplotlib.figure",
    "narwhals.stable.v2",
    "numba",
    "pandas",
    "pyarrow",
    "scipy.optimize",
    "scipy.stats",
    "sklearn.linear_model",
    "sklearn.model_selection",
    "sklearn.utils.estimator_checks",
    "statsmodels.api",
)

# What is mutated: folders and modules of the package.
ROOMS = (
    "problem",
    "losses",
    "penalties",
    "solvers",
    "selection",
    "priors",
    "data",
    "audits",
    "estimators",
    "graphs.py",
    "reml.py",
    "model.py",
    "metrics.py",
)
# Tests that are run for them: those of the command, of pages and of data sets do not
# look at numbers of the core.
TESTS = (
    "problem",
    "losses",
    "penalties",
    "solvers",
    "selection",
    "priors",
    "data",
    "estimators",
    "audits",
    "baselines/test_two_parts.py",
    "test_agreement.py",
    "test_degenerate.py",
    "test_graphs.py",
    "test_laws.py",
    "test_metrics.py",
    "test_model.py",
    "test_rank_deficient.py",
    "test_reml.py",
)

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


class Recorder:
    """Plugin of pytest: which functions of the package each test enters, and its time.

    What a module enters when it is imported, or in a fixture, belongs to all its tests.
    """

    def __init__(self, tree: Path) -> None:
        self._root = str(tree) + os.sep
        self._package = str(tree / PACKAGE)
        self._seen: set[Any] = set()  # code objects since the last test
        self.entered: dict[str, list[str]] = {}
        self.shared: dict[str, set[str]] = defaultdict(set)
        self.seconds: dict[str, float] = {}

    def _trace(self, frame: Any, event: str, argument: Any) -> None:
        self._seen.add(frame.f_code)

    def _taken(self) -> set[str]:
        seen, self._seen = self._seen, set()
        return {
            f"{code.co_filename.removeprefix(self._root)}:{code.co_firstlineno}"
            for code in seen
            if code.co_filename.startswith(self._package)
        }

    @contextlib.contextmanager
    def _watch(self) -> Iterator[None]:
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: Any) -> Iterator[None]:
        """Functions that importing a test module enters."""
        with self._watch():
            report = yield
        self.shared[collector.nodeid.split("::")[0]] |= self._taken()
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: Any) -> Iterator[None]:
        """Functions that fixtures enter."""
        with self._watch():
            result = yield
        self.shared[item.nodeid.split("::")[0]] |= self._taken()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        """Functions that a test enters."""
        begin = time.process_time()
        try:
            with self._watch():
                result = yield
        finally:
            self.seconds[item.nodeid] = time.process_time() - begin
            self.entered[item.nodeid] = sorted(self._taken())
        return result

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Leave out a test that fails without any mutant."""
        if report.failed:
            self.entered.pop(report.nodeid, None)

    def tests_by_function(self) -> dict[str, list[str]]:
        """Tests that enter a function; tests of a module also enter what it shares."""
        found = defaultdict(list)
        for test, entered in self.entered.items():
            for name in self.shared[test.split("::")[0]].union(entered):
                found[name].append(test)
        return found


class Chosen:
    """Plugin of pytest: run these tests, in this order, and keep the first failure."""

    def __init__(self, tests: list[str]) -> None:
        self._rank = {test: k for k, test in enumerate(tests)}
        self.failed: str | None = None

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Leave out other tests."""
        items[:] = [item for item in items if item.nodeid in self._rank]
        items.sort(key=lambda item: self._rank[item.nodeid])

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep a failure."""
        if report.failed and self.failed is None:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        """A module that cannot be imported fails, too."""
        if report.failed and self.failed is None:
            self.failed = f"{report.nodeid} cannot be imported"


def run_pytest(tree: Path, words: Iterable[str], plugin: object, log: Path) -> int:
    """Run pytest in this process, on the copy; meant for a fork."""
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree / "src")
    sys.path.insert(0, str(tree / "src"))
    with log.open("w") as stream:
        for number in (1, 2):
            os.dup2(stream.fileno(), number)
    options = "-q -n0 --assert=plain --tb=short -p no:cacheprovider"
    only = ["-m", "not slow"]
    return int(pytest.main([*options.split(), *only, *words], plugins=[plugin]))


def record(tree: Path, paths: list[str], target: Path) -> None:
    """Run all tests under a trace function, and write down what they enter."""
    child = os.fork()
    if child == 0:
        try:
            recorder = Recorder(tree)
            words = ["-rfE", *paths]
            run_pytest(tree, words, recorder, tree.parent / "record.log")
            found = recorder.tests_by_function()
            content = {"tests": found, "seconds": recorder.seconds}
            target.write_text(json.dumps(content), encoding="utf-8")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    log = (tree.parent / "record.log").read_text(encoding="utf-8")
    for line in log.splitlines():
        if line.startswith(("FAILED", "ERROR")):
            print(f"left out: {line}")
    if not target.exists():
        sys.exit(f"tests could not be recorded:\n{log[-3000:]}")


def sources(tree: Path, room: str) -> list[Path]:
    """Files of a room: a folder or a single module."""
    place = tree / PACKAGE / room
    return sorted(place.rglob("*.py")) if place.is_dir() else [place]


def choose_mutants(tree: Path, rooms: Iterable[str], given: Any) -> list[Mutant]:
    """Random mutants, each room by its number of changes."""
    found = []
    for room in rooms:
        for path in sources(tree, room):
            source = path.read_text(encoding="utf-8")
            found += find_mutants(str(path.relative_to(tree)), source)
    return random.Random(given.seed).sample(found, min(given.count, len(found)))


def functions_around(source: str, line: int) -> list[int]:
    """First lines of the functions that contain a line, the innermost first."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first <= line <= node.end_lineno:
                found.append(first)
    return sorted(found, reverse=True)


def importers(tree: Path, file: str) -> set[str]:
    """Files of the package that import a module, directly or through others."""
    imports: dict[str, set[str]] = {}
    for path in (tree / PACKAGE).rglob("*.py"):
        names = imports[str(path.relative_to(tree))] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
    found, new = set(), {file}
    while new:
        modules = {
            name.removeprefix("src/").removesuffix(".py").replace("/", ".")
            for name in new
            if "kernels" in name  # only compiled code is looked through
        }
        new = {name for name, seen in imports.items() if seen & modules} - found
        found |= new
    return {name for name in found if "kernels" not in name}


def tests_of(tree: Path, mutant: Mutant, known: Any, seconds: float) -> list[str]:
    """Tests that enter the changed function: its room's first, then the quickest.

    Compiled loops and lines outside of functions leave no trace: for them, tests that
    enter any function of the module, or of those that call the loops.
    """
    source = (tree / mutant.file).read_text(encoding="utf-8")
    tests: set[str] = set()
    for first in functions_around(source, mutant.line):
        tests = tests or set(known["tests"].get(f"{mutant.file}:{first}", ()))
    if not tests:
        for file in {mutant.file} | importers(tree, mutant.file):
            for name, entering in known["tests"].items():
                if name.startswith(f"{file}:"):
                    tests |= set(entering)
    cost, room = known["seconds"], Path(mutant.file).parts[2].removesuffix(".py")
    own = (f"tests/{room}/", f"tests/test_{room}", f"{PACKAGE}/{room}")
    chosen, total = [], 0.0
    for test in sorted(tests, key=lambda t: (not t.startswith(own), cost[t], t)):
        # At least a few: one long test may be the only one of its function.
        if total + cost[test] > seconds and len(chosen) > 3:
            continue
        chosen.append(test)
        total += cost[test]
    # Tests of one file stay together, for fixtures that they share.
    rank = {file_of(test): k for k, test in reversed(list(enumerate(chosen)))}
    return sorted(chosen, key=lambda test: rank[file_of(test)])


def file_of(test: str) -> str:
    """File of a test."""
    return test.split("::", maxsplit=1)[0]


def notice(tree: Path, tests: list[str], timeout: float) -> str | None:
    """Test that fails, or "timeout"; None if all pass."""
    verdict = tree.parent / "verdict"
    verdict.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        try:
            os.setsid()  # so that a timeout ends what tests have started, too
            plugin = Chosen(tests)
            files = dict.fromkeys(file_of(test) for test in tests)
            code = run_pytest(tree, ["-x", *files], plugin, tree.parent / "mutant.log")
            words = plugin.failed or ("" if code == 0 else f"exit code {code}")
            verdict.write_text(words, encoding="utf-8")
        finally:
            os._exit(0)
    until = time.monotonic() + timeout
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > until:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "timeout"
        time.sleep(0.05)
    if not verdict.exists():
        return "the process ended early"
    return verdict.read_text(encoding="utf-8") or None


def try_mutant(
    tree: Path, mutant: Mutant, tests: list[str], timeout: float
) -> str | None:
    """Change the copy, run the tests, and change it back."""
    path = tree / mutant.file
    source, before = path.read_text(encoding="utf-8"), path.stat()
    compiled = "import compiled" in source or "kernels" in mutant.file
    path.write_text(mutant.apply(source), encoding="utf-8")
    kept = tree.parent / "caches"
    if compiled:
        keep_caches(tree, kept)
    try:
        return notice(tree, tests, timeout)
    finally:
        path.write_text(source, encoding="utf-8")
        if compiled:
            bring_back(tree, kept)
        # Caches of compiled loops hold the time stamp of their source.
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def forget_compiled(tree: Path) -> None:
    """Remove caches of compiled loops."""
    for pattern in ("*.nbi", "*.nbc"):
        for file in (tree / "src").rglob(pattern):
            file.unlink()


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


def copy_tree(folder: Path) -> Path:
    """Copy what tests need; data sets stand beside the repository."""
    tree = folder / "tree"
    tree.mkdir()
    for name in COPIED:
        origin = HOME / name
        if origin.is_dir():
            shutil.copytree(origin, tree / name, ignore=IGNORED)
        elif origin.exists():
            shutil.copy2(origin, tree / name)
    if (HOME.parent / "shared").exists():
        (folder / "shared").symlink_to(HOME.parent / "shared")
    return tree


def main() -> int:
    """Try mutants, and print those that survive."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--room", choices=ROOMS, action="append", help="may be repeated"
    )
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="of tests for each mutant"
    )
    parser.add_argument("--skip", type=int, default=0, help="leave out the first")
    parser.add_argument("--record", type=Path, help="where to keep what tests enter")
    parser.add_argument(
        "--only", help="try the mutants whose description contains this text"
    )
    given = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    survivors: list[str] = []
    tried: dict[str, Counter[bool]] = defaultdict(Counter)
    with tempfile.TemporaryDirectory() as folder:
        tree = copy_tree(Path(folder))
        for name in LIBRARIES:
            importlib.import_module(name)
        known_at = given.record or tree.parent / "record.json"
        if not known_at.exists():
            paths = [f"tests/{name}" for name in TESTS]
            paths += [f"{PACKAGE}/{room}" for room in ROOMS]  # doctests
            record(tree, paths, known_at.absolute())
        known = json.loads(known_at.read_text(encoding="utf-8"))
        print(f"{len(known['seconds'])} tests are recorded", flush=True)
        mutants = choose_mutants(tree, given.room or ROOMS, given)
        for k, mutant in enumerate(mutants, 1):
            words = describe(tree, mutant)
            if k <= given.skip or (given.only and given.only not in words):
                continue
            begin = time.monotonic()
            tests = tests_of(tree, mutant, known, given.seconds)
            # Compiling all loops takes about a minute.
            timeout = 120.0 + 20.0 * given.seconds
            noticed = try_mutant(tree, mutant, tests, timeout) if tests else None
            tried[Path(mutant.file).parts[2]][noticed is not None] += 1
            word = "SURVIVED" if noticed is None else "killed"
            seconds = time.monotonic() - begin
            print(f"{k:3} {word:8} {seconds:4.0f} s  {words}", flush=True)
            print(f"    {noticed or f'{len(tests)} tests pass'}", flush=True)
            if noticed is None:
                survivors.append(words)
    print()
    for room, count in tried.items():
        print(f"{room:12} {count[True]} of {count.total()} killed")
    total = sum(count.total() for count in tried.values())
    print(f"{'all':12} {total - len(survivors)} of {total} killed")
    for words in survivors:
        print(f"survived: {words}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
