"""The page: whole, linked, and the same for the same rows."""

import re
from itertools import pairwise

import pytest

from priormtl.experiments.showing.figures import CAPTIONS
from priormtl.experiments.showing.page import Facts, results_page
from result_rows import measure, planned_cells, row, surface_rows


def facts(**changes):
    settings = {
        "command": "priormtl reproduce all",
        "seconds": 3000.0,
        "machine": "2 cores",
        "versions": {"priormtl": "0.1.0", "numpy": "2.0"},
        "n_repeats": 10,
        "n_jobs": 2,
        "protocol": "Repeats are paired.",
        "in_sample_pooled": 0.34,
        "in_sample_effects": 0.387,
        "figures": {name: f"results/{name}.svg" for name in CAPTIONS},
    }
    return Facts(**{**settings, **changes})


@pytest.fixture(scope="module")
def page():
    return results_page(measure(planned=planned_cells()), surface_rows(), facts())


def test_the_run_is_described(page):
    assert "10 repeats of every split; up to 2 jobs at a time; 50 minutes" in page
    assert "Versions: priormtl 0.1.0, numpy 2.0." in page
    assert "Repeats are paired." in page


@pytest.mark.parametrize("name", CAPTIONS)
def test_figures_are_linked_with_words_and_caption(page, name):
    assert re.search(rf"!\[[^\]]+\]\(results/{name}\.svg\)\n\n", page)
    assert CAPTIONS[name] in page


def test_tables_and_account_are_there(page):
    for head in ("Table 1. Regression, pooled", "Table 1. Regression, by", "Table 2."):
        assert f"**{head}" in page
    for part in ("### Where we agree", "### What a linear", "### When priors helped"):
        assert part in page
    assert page.count("difference against") == 7
    assert page.count("most along") == 4
    assert "Incomplete" not in page


def test_the_same_rows_give_the_same_page(page):
    assert page == results_page(
        measure(planned=planned_cells()), surface_rows(), facts()
    )


def test_an_incomplete_run_says_so():
    rows = [row("yale", "natural", 0, "auc", 0.9)]
    text = results_page(measure(rows, planned_cells()), None, facts(figures={}))
    assert "Incomplete: 1 of" in text
    assert "## Figures" not in text


def test_an_empty_run_gives_a_page():
    bare = facts(figures={}, in_sample_pooled=None)
    text = results_page(measure([]), None, bare)
    assert "None of the paper's figures has been measured yet." in text
    assert "### When priors helped" not in text
    assert "### What a linear" not in text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(42, "42 seconds"), (600, "10 minutes"), (9000, "2.5 hours")],
)
def test_time_is_told_in_units_that_fit(seconds, words):
    assert words in results_page(measure([]), None, facts(seconds=seconds))


def test_paragraphs_are_apart(page):
    for above, line in pairwise(page.splitlines()):
        if line.startswith(("#", "![", "</details>")):
            assert not above
