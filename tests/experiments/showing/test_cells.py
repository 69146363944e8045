"""Cells say what they hold."""

import pytest

from priormtl.experiments.showing.cells import (
    CountCell,
    DifferenceCell,
    ScoreCell,
    Table,
)
from priormtl.experiments.showing.comparisons import (
    Counts,
    Interval,
    PairedDifference,
    Verdict,
)
from priormtl.experiments.showing.measurements import Progress
from priormtl.experiments.showing.paper import Estimate
from priormtl.tables import NOTHING

ALL = Progress(10, 10)


def difference(n_common=10, n_left_out=0):
    return PairedDifference(-0.0123, Interval(-0.02, 0.001, 0.1), n_common, n_left_out)


def test_ours_stands_beside_the_papers():
    cell = ScoreCell(Estimate(33.94, 0.61), Estimate(39.8, 2.2), ALL)
    assert (cell.text, list(cell.asides)) == ("33.9 ± 0.6", ["paper 39.8 ± 2.2"])


def test_a_single_repeat_has_no_deviation():
    assert ScoreCell(Estimate(-3.25, float("nan")), None, ALL).text == "−3.2"


def test_what_is_missing_is_told():
    cell = ScoreCell(None, None, Progress(0, 10))
    assert (cell.text, list(cell.asides)) == (NOTHING, ["0 of 10"])
    assert not ScoreCell(None, None, Progress(0, 0)).asides


def test_the_best_needs_no_dagger():
    both = {"best": True, "close": True}
    assert not ScoreCell(Estimate(1.0, 1.0), None, ALL, **both).mark
    assert ScoreCell(Estimate(1.0, 1.0), None, ALL, close=True).mark == "†"


@pytest.mark.parametrize(
    ("verdict", "mark"),
    [(Verdict.BETTER, "▲"), (Verdict.EVEN, ""), (Verdict.WORSE, "▼")],
)
def test_differences_are_points_with_interval_and_sign(verdict, mark):
    cell = DifferenceCell(difference(), verdict, ALL)
    assert cell.text == "−1.23 [−2.00, 0.10]"
    assert (cell.mark, cell.bold, cell.asides) == (mark, False, ())


def test_a_difference_on_some_repeats_says_so():
    cell = DifferenceCell(difference(7, 3), Verdict.EVEN, ALL)
    assert cell.asides == ("7 of 10",)


def test_counts_are_three_numbers():
    assert CountCell(Counts(1, 2, 3)).text == "1 / 2 / 3"


def test_an_incomplete_table_says_so_first():
    table = Table("t", ("Method",), (), ("note",), Progress(17, 60))
    assert "17 of 60" in table.notes[0]
    assert table.notes[1:] == ("note",)
    assert Table("t", ("Method",), (), ("note",), ALL).notes == ("note",)
