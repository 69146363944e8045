"""Files of each part of the paper: all layouts, whole, and linked."""

import re

import pytest

from priormtl.experiments.plans import PLANS
from priormtl.experiments.rows import KINDS
from priormtl.experiments.showing import Facts, Results, show, show_page
from priormtl.experiments.showing.files import FIGURES
from result_rows import (
    convergence_rows,
    measure,
    planned_cells,
    roc_rows,
    surface_rows,
)

TABLES = {f"table{k}.{kind}" for k in (1, 2) for kind in ("md", "tex", "html")}
DRAWN = {f"{name}.{kind}" for name in FIGURES for kind in ("svg", "png")}
CURVES = ("learning", "learning-differences", "robustness")
PARTS = {
    **{f"table{k}": {n for n in TABLES if n.startswith(f"table{k}")} for k in (1, 2)},
    **{f"figure{k}": {f"figure{k}.svg", f"figure{k}.png"} for k in (1, 2, 3)},
    "curves": {f"{name}.{kind}" for name in CURVES for kind in ("svg", "png")},
    "all": TABLES | DRAWN,
}
FACTS = Facts(
    command="priormtl reproduce all",
    seconds=60.0,
    machine="2 cores",
    versions={"numpy": "2"},
    n_repeats=10,
    n_jobs=2,
    protocol="The same splits for every method.",
)


@pytest.fixture(scope="module")
def results():
    return Results(
        measure(planned=planned_cells()), convergence_rows(), roc_rows(), surface_rows()
    )


@pytest.fixture(scope="module")
def nothing():
    empty = (KINDS[kind].empty_table() for kind in ("convergence", "roc", "surfaces"))
    return Results(measure([], planned_cells()), *empty)


@pytest.fixture(scope="module")
def shown(results, tmp_path_factory):
    """Folder in which everything is shown."""
    out = tmp_path_factory.mktemp("results") / "new" / "folder"
    show("all", results, out)
    return out


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_every_part_of_the_paper_can_be_shown():
    assert set(PARTS) == {*PLANS, "all"}


@pytest.mark.parametrize("what", ["table1", "table2", "figure3", "curves"])
def test_a_part_is_its_files_and_nothing_else(results, tmp_path, what):
    files = show(what, results, tmp_path)
    assert {path.name for path in files} == names(tmp_path) == PARTS[what]
    assert all(path.parent == tmp_path for path in files)


def test_all_is_every_part(shown):
    assert names(shown) == PARTS["all"] == set().union(*PARTS.values())
    assert all(path.stat().st_size for path in shown.iterdir())


@pytest.mark.parametrize("what", ["table1", "table2"])
def test_a_table_comes_with_differences_and_their_count(shown, what):
    text = (shown / f"{what}.md").read_text()
    sets = 2 if what == "table1" else 4
    assert text.count("difference against") == sets + 1
    assert text.startswith("**Table")
    assert "School" in text if what == "table1" else "School" not in text


def test_layouts_are_of_their_language(shown):
    assert "\\begin{tabular" in (shown / "table1.tex").read_text()
    assert (shown / "table1.html").read_text().lower().startswith("<!doctype html>")
    assert (shown / "figure1.svg").read_bytes().startswith(b"<?xml")
    assert (shown / "figure1.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_results_are_the_same_bytes(results, shown, tmp_path):
    for path in show("table1", results, tmp_path):
        assert path.read_bytes() == (shown / path.name).read_bytes()


@pytest.mark.parametrize("place", ["page.md", "docs/deep/page.md"])
def test_links_of_the_page_are_relative_and_lead_to_files(results, shown, place):
    page = show_page(results, FACTS, shown, shown.parent / place)
    links = re.findall(r"\]\(([^)]+)\)", page.read_text())
    assert len(links) == len(FIGURES)
    for link in links:
        assert not link.startswith("/")
        assert (page.parent / link).resolve().is_file()


@pytest.mark.parametrize("what", PLANS)
def test_a_run_without_results_is_shown_too(nothing, tmp_path, what):
    files = show(what, nothing, tmp_path)
    assert {path.name for path in files} == PARTS[what]


def test_the_page_of_a_run_without_results_says_so(nothing, tmp_path):
    page = show_page(nothing, FACTS, tmp_path, tmp_path / "page.md")
    assert "Incomplete: 0 of" in page.read_text()
