"""The page and the files of each part: whole, linked, the same for the same rows."""

import re
from itertools import pairwise

import pytest

from paper_data import (
    LABELS,
    convergence_rows,
    gather,
    measure,
    planned_cells,
    roc_rows,
    row,
    score_rows,
    surface_rows,
    to_table,
)
from priormtl.experiments import PLANS
from priormtl.experiments.rendering.measurements import CAPTIONS, Measurements
from priormtl.experiments.rendering.page import (
    FIGURES,
    Facts,
    render,
    render_page,
    results_page,
)


def facts(**changes):
    settings = {
        "command": "priormtl reproduce all",
        "seconds": 3000.0,
        "machine": "2 cores",
        "versions": {"priormtl": "0.1.0", "numpy": "2.0"},
        "n_repeats": 10,
        "n_jobs": 2,
        "protocol": "Repeats are paired.",
        "school_in_sample": (0.34, 0.387, 0.47),
        "grids": {"yale": {"lam": (0.1,), "theta": (0.0, 1.0), "epsilon": (1.0,)}},
        "links": {name: f"results/{name}.svg" for name in CAPTIONS},
    }
    return Facts(**{**settings, **changes})


@pytest.fixture(scope="module")
def page():
    return results_page(full_results(), facts())


def full_results():
    cells = measure(planned=planned_cells())
    return gather(cells, convergence_rows(), roc_rows(), surface_rows())


def test_the_run_is_described(page):
    assert "10 repeats of every split; up to 2 jobs at a time; 50 minutes" in page
    assert "Versions: priormtl 0.1.0, numpy 2.0." in page
    assert "Repeats are paired." in page


@pytest.mark.parametrize("name", CAPTIONS)
def test_figures_are_linked_with_words_and_caption(page, name):
    assert re.search(rf"!\[[^\]]+\]\(results/{name}\.svg\)\n\n", page)
    assert CAPTIONS[name].caption in page


def test_tables_and_account_are_there(page):
    for head in ("Table 1. Regression", "Table 2.", "Grids", "Claims and verdicts"):
        assert f"**{head}" in page
    for part in ("### Where we agree", "### What a linear", "### When priors helped"):
        assert part in page
    assert page.count("difference against") == 1
    assert page.count("most along") == 4
    assert "Incomplete" not in page


def test_the_same_rows_give_the_same_page(page):
    assert page == results_page(full_results(), facts())


def test_an_incomplete_run_says_so():
    rows = [row("yale", "natural", 0, "auc", 0.9)]
    text = results_page(gather(measure(rows, planned_cells())), facts(links={}))
    assert "Incomplete: 1 of" in text
    assert "## Figures" not in text


def test_a_data_set_that_is_left_out_is_not_asked_for_its_split(tmp_path):
    made = [one for one in score_rows(2) if one["dataset"] == "yale"]
    ratios = {"yale": 0.5}
    found = Measurements.of(
        to_table(made), test_to_train=lambda name, _: ratios[name], labels=LABELS
    )
    for what in ("table1", "table2"):
        assert render(what, gather(found), tmp_path)
    assert "Yale" in results_page(gather(found), facts(school_in_sample=None))


def test_an_empty_run_gives_a_page():
    bare = facts(links={}, school_in_sample=None)
    text = results_page(gather(measure([])), bare)
    assert "None of the paper's figures has been measured yet." in text
    assert "### When priors helped" not in text
    assert "### What a linear" not in text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(42, "42 seconds"), (600, "10 minutes"), (9000, "2.5 hours")],
)
def test_time_is_told_in_units_that_fit(seconds, words):
    assert words in results_page(gather(measure([])), facts(seconds=seconds))


def test_paragraphs_are_apart(page):
    for above, line in pairwise(page.splitlines()):
        if line.startswith(("#", "![")):
            assert not above


# Files.

TABLES = {f"table{k}.{kind}" for k in (1, 2) for kind in ("md", "tex", "html")}
DRAWN = {f"{name}.{kind}" for name in FIGURES for kind in ("svg", "png")}
CURVES = ("learning", "learning-differences", "robustness")
PARTS = {
    **{f"table{k}": {n for n in TABLES if n.startswith(f"table{k}")} for k in (1, 2)},
    **{f"figure{k}": {f"figure{k}.svg", f"figure{k}.png"} for k in (1, 2, 3)},
    "curves": {f"{name}.{kind}" for name in CURVES for kind in ("svg", "png")},
    "all": TABLES | DRAWN,
}


@pytest.fixture(scope="module")
def results():
    return full_results()


@pytest.fixture(scope="module")
def nothing():
    return gather(measure([], planned_cells()))


def names(folder):
    return {path.name for path in folder.iterdir()}


@pytest.mark.usefixtures("unsaved")
@pytest.mark.parametrize("what", PARTS)
def test_a_part_is_its_files_and_nothing_else(nothing, tmp_path, what):
    out = tmp_path / "new" / "folder"
    files = render(what, nothing, out)
    assert {path.name for path in files} == names(out) == PARTS[what]
    assert all(path.parent == out for path in files)
    assert set(PARTS) == {*PLANS, "all"}


@pytest.mark.parametrize("what", ["table1", "table2"])
def test_a_table_comes_with_differences_and_their_count(results, tmp_path, what):
    contents = {path: path.read_bytes() for path in render(what, results, tmp_path)}
    text = (tmp_path / f"{what}.md").read_text()
    assert text.count("difference against") == 1
    assert text.startswith("**Table")
    assert ("School" in text) == (what == "table1")
    assert "\\begin{tabular" in (tmp_path / f"{what}.tex").read_text()
    html = (tmp_path / f"{what}.html").read_text()
    assert html.lower().startswith("<!doctype html>")
    # The same results are the same bytes.
    for path in render(what, results, tmp_path):
        assert path.read_bytes() == contents[path]


@pytest.mark.slow
def test_figures_of_full_and_empty_results_are_written(results, nothing, tmp_path):
    for name, found in (("full", results), ("empty", nothing)):
        svg, png = render("figure2", found, tmp_path / name)
        assert svg.read_bytes().startswith(b"<?xml")
        assert png.read_bytes().startswith(b"\x89PNG")


def test_links_of_the_page_are_relative_and_lead_to_files(nothing, tmp_path):
    (tmp_path / "out").mkdir()
    for name in FIGURES:
        (tmp_path / "out" / f"{name}.svg").touch()
    page = render_page(nothing, facts(), tmp_path / "out", tmp_path / "docs/page.md")
    assert "Incomplete: 0 of" in page.read_text()
    links = re.findall(r"\]\(([^)]+)\)", page.read_text())
    assert len(links) == len(FIGURES)
    for link in links:
        assert not link.startswith("/")
        assert (page.parent / link).resolve().is_file()
