"""Rivals: sentences count verdicts, and name every data set they rest on."""

from priormtl.experiments.showing.rivals import describe_rivals
from result_rows import measure, row


def rows_of(method, dataset, level, metric="auc"):
    return [row(dataset, method, k, metric, level + 0.001 * (k % 3)) for k in range(8)]


def test_nothing_measured_is_nothing_said():
    assert describe_rivals(measure([])) == []


def test_wins_and_losses_are_named():
    found = describe_rivals(
        measure(
            [
                *rows_of("natural", "yale", 0.90),
                *rows_of("natural", "orl", 0.90),
                *rows_of("dmtl", "yale", 0.95),
                *rows_of("dmtl", "orl", 0.80),
                *rows_of("rmtl", "orl", 0.90),
            ]
        )
    )
    assert "Of 3 comparisons" in found[0]
    assert "1 are significantly better, 1 significantly worse and 1 neither" in found[0]
    assert found[1].splitlines() == [
        "- DMTL: better on Yale, worse on ORL.",
        "- RMTL: better on none, worse on none.",
    ]


def test_methods_that_lack_a_partner_are_left_out():
    found = measure([*rows_of("natural", "yale", 0.9), *rows_of("dmtl", "orl", 0.9)])
    assert describe_rivals(found) == []
