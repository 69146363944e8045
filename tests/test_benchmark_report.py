"""Reports of benchmarks: what is printed and kept comes from the same repeats."""

import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def report(monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(Path(__file__).parents[1])
    module = import_module("benchmarks.report")
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    return module


def ticking(steps):
    """Clock that a call advances by the next of its steps."""
    now = [0.0]
    left = {name: list(each) for name, each in steps.items()}

    def call(name):
        now[0] += left[name].pop(0)

    return {name: (lambda name=name: call(name)) for name in steps}, lambda: now[0]


def test_calls_take_turns_and_short_ones_repeat_in_each(report):
    timing = import_module("benchmarks.timing")
    actions, clock = ticking({"short": [0.03, 0.01, 0.02] * 2, "long": [3.0, 1.0]})
    found = timing.side_by_side(actions, 2, clock)
    assert found["short"].raw == pytest.approx((0.03, 0.01, 0.02) * 2)
    assert found["long"].raw == pytest.approx((3.0, 1.0))
    assert found["long"] == pytest.approx(2.0)  # median


def test_what_takes_too_long_is_not_repeated(report):
    timing = import_module("benchmarks.timing")
    actions, clock = ticking({"slow": [timing.LONG_ENOUGH + 1.0, 1.0]})
    assert len(timing.side_by_side(actions, 2, clock)["slow"].raw) == 1


def test_page_shows_spread_and_file_keeps_repeats(report, tmp_path):
    Seconds = import_module("benchmarks.timing").Seconds
    seconds = Seconds([0.004, 0.001, 0.002])
    assert report.milliseconds(seconds) == "2.00 (1.00–4.00)"
    assert report.milliseconds(Seconds([1.5])) == "1,500"
    assert report.milliseconds(Seconds([float("inf")])) == report.NEVER
    numbers = {"a": seconds, "b": np.array([1.0, np.inf]), "c": np.bool_(True)}
    table = report.Table(["time"], [[report.milliseconds(seconds)]])
    section = report.Section("Part", "", table)
    run = {"kind": "full run", "commit": "abc", "load": "1", "machine": {}}
    page = report.Report(
        "Title", "", [report.Bar("goal", "1", True)], [section], numbers
    )
    report.write_report("page", page, run)
    kept = json.loads((tmp_path / "page.json").read_text())
    assert kept["numbers"]["a"] == {"median": 0.002, "raw": [0.004, 0.001, 0.002]}
    assert kept["numbers"]["b"] == [1.0, None]
    assert kept["numbers"]["c"] is True
    assert kept["commit"] == "abc"
    assert "| 2.00 (1.00–4.00) |" in (tmp_path / "page.md").read_text()
    index = tmp_path / "README.md"
    machine = import_module("benchmarks.machine")
    losses, trees = machine.Code(("losses",)), machine.Code(("trees",))
    report.note_run("page", losses)
    report.write_index({"page": trees, "absent": trees}, {"page": losses})
    assert "| goal | 1 | yes | abc | changed |" in index.read_text()
    code = machine.describe_code(trees)
    report.write_report("page", page, {**run, "code": code, "kind": "quick run"})
    assert "| [Title](page.md) | " in index.read_text()
    report.write_index({"page": trees}, {"page": trees})
    assert " | changed |\n" in index.read_text()
    assert "| goal | 1 | yes | abc (quick) | the same |" in index.read_text()


CODE = """
import a
def f(x, *, y=1):
    if x:
        raise ValueError("no")
    return g(x, [1, 2], y)
"""
SAME = '''"""Doc."""
from b import c
def f(x: int, *, y: int = 1) -> int:
    """Say."""
    # Why.
    if x:
        raise ValueError(f"not {x}", x)
    return g(
        x, [1, 2], y
    )
'''


@pytest.mark.parametrize(
    ("files", "same"),
    [
        ({"two": SAME}, True),
        ({"one": CODE + "z = 1\n", "aside": "u = 1"}, False),
        ({"one": CODE.replace("y=1", "y=2")}, False),
        ({"one": CODE.replace("g(x", "h(x")}, False),
        ({"one": CODE.replace("if x", "while x")}, False),
    ],
)
def test_digest_of_code_knows_what_only_explains(files, same, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(Path(__file__).parents[1])
    machine = import_module("benchmarks.machine")
    digests = []
    for k, written in enumerate(({"one": CODE, "aside": "v = 1"}, files)):
        monkeypatch.setattr(machine, "SOURCE", tmp_path / str(k))
        for name, text in written.items():
            path = tmp_path / str(k) / "room" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        code = machine.Code(("room",), ("room/aside",))
        digests.append(machine.describe_code(code))
    assert (digests[0] == digests[1]) is same


def test_pages_name_modules_that_are_there(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(Path(__file__).parents[1])
    main, machine = map(import_module, ("benchmarks.main", "benchmarks.machine"))
    for code in (*main.WORKLOADS.values(), *main.PAGES.values()):
        for name in (*code.rooms, *code.without):
            home = machine.SOURCE / name
            assert home.is_dir() or home.with_suffix(".py").is_file(), name


BENCHMARKS = Path(__file__).parents[1] / "docs" / "benchmarks"


@pytest.mark.parametrize(
    "name", [path.stem for path in sorted(BENCHMARKS.glob("*.json"))]
)
def test_a_page_says_what_its_json_keeps(name, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(BENCHMARKS.parents[1])
    kept = json.loads((BENCHMARKS / f"{name}.json").read_text("utf-8"))
    page = BENCHMARKS / f"{name}.md"
    if name == "runs":
        assert kept.keys() == import_module("benchmarks.main").PAGES.keys()
    elif name == "many_tasks":  # a table of the guide
        module = import_module("benchmarks.many_tasks")
        copy = tmp_path / "scale.md"
        copy.write_text(module.PAGE.read_text("utf-8"), "utf-8")
        page = module.PAGE
        monkeypatch.setattr(module, "PAGE", copy)
        module.write_page()
        assert copy.read_text("utf-8") == page.read_text("utf-8")
    elif name == "strangers":
        import_module("benchmarks.strangers").write_page(kept, tmp_path / "made.md")
        assert (tmp_path / "made.md").read_text("utf-8") == page.read_text("utf-8")
    else:
        module, face = {
            "questions": ("questions", "page"),
            "counts": ("counts", "render"),
            "classes": ("classes", "render"),
            "width": ("width", "render"),
        }.get(name, ("report", "render_page"))
        made = getattr(import_module(f"benchmarks.{module}"), face)(kept)
        assert made == page.read_text("utf-8")


def test_index_of_benchmarks_says_which_pages_are_older_than_the_code(monkeypatch):
    pytest.importorskip("matplotlib")
    home = Path(__file__).parents[1]
    monkeypatch.syspath_prepend(home)
    main = import_module("benchmarks.main")
    page = import_module("benchmarks.report").render_index(main.WORKLOADS, main.PAGES)
    kept = (home / "docs" / "benchmarks" / "README.md").read_text("utf-8")
    assert kept == page, "python -m benchmarks.main --index"
