"""Claims of the paper are judged by the rows, and by nothing where there are none."""

import numpy as np
import pyarrow as pa
import pytest

from priormtl.experiments.rendering.claims import (
    CLAIMS,
    FAILED,
    HELD,
    MIXED,
    OPEN,
    Evidence,
    claims_table,
)
from result_rows import convergence_rows, measure, row, surface_rows

BEST = next(claim for claim in CLAIMS if claim.startswith("Best"))
NATURAL = next(claim for claim in CLAIMS if claim.startswith("A natural"))
RATE = next(claim for claim in CLAIMS if claim.startswith("The same theorem"))
FASTER = next(claim for claim in CLAIMS if "faster than FISTA" in claim)
LAM = next(claim for claim in CLAIMS if "above all to lam" in claim)
CALM = next(claim for claim in CLAIMS if "insensitive" in claim)


def judge(claim, rows=(), convergence=None, surfaces=None):
    return CLAIMS[claim](Evidence(measure(list(rows)), convergence, surfaces))


def steady(method, level, dataset="yale", **place):
    return [
        row(dataset, method, k, "auc", level + 0.001 * (k % 3), **place)
        for k in range(6)
    ]


def test_without_rows_nothing_is_judged_but_what_cannot_be():
    table = claims_table(Evidence(measure([]), None, None))
    verdicts = [line.cells[0].text for line in table.rows]
    assert verdicts.count("not measured") == len(CLAIMS) - 1
    assert verdicts.count(OPEN) == 1


def test_every_claim_is_judged_where_all_was_measured():
    found = Evidence(measure(), convergence_rows(), surface_rows())
    verdicts = [line.cells[0].text for line in claims_table(found).rows]
    assert set(verdicts) <= {HELD, MIXED, FAILED, OPEN, "not measured"}
    for line in claims_table(found).rows:
        assert line.cells[1].text or line.cells[0].text == "not measured"


def test_the_best_method_is_that_of_the_means():
    rows = steady("natural", 0.9) + steady("mtrl", 0.8)
    assert judge(BEST, rows).verdict == HELD
    verdict, evidence = judge(BEST, rows + steady("rmtl", 0.95))
    assert verdict == FAILED
    assert "RMTL on Yale" in evidence


@pytest.mark.parametrize(("gain", "verdict"), [(0.05, HELD), (0.0, FAILED)])
def test_a_prior_helps_where_it_is_significantly_better(gain, verdict):
    rows = steady("none", 0.9) + steady("natural", 0.9 + gain)
    assert judge(NATURAL, rows).verdict == verdict


def descent(algorithm, rate, first=1.0, steps=60):
    k = np.arange(1, steps + 1)
    columns = {
        "problem": ["school"] * steps,
        "algorithm": [algorithm] * steps,
        "iteration": k,
        "seconds": 0.1 * k,
        "excess": first * rate**k,
        "start": np.ones(steps),
        "sigma": np.full(steps, 0.5),
        "smoothness": np.full(steps, 2.0),
    }
    return pa.table(columns)


@pytest.mark.parametrize(("rate", "verdict"), [(0.5, HELD), (0.9, FAILED)])
def test_a_rate_holds_below_its_bound(rate, verdict):
    runs = pa.concat_tables([descent("linear", rate), descent("theorem", 0.7)])
    assert judge(RATE, convergence=runs).verdict == verdict


@pytest.mark.parametrize(("rate", "verdict"), [(0.5, HELD), (0.9, FAILED)])
def test_the_faster_method_needs_fewer_iterations(rate, verdict):
    runs = pa.concat_tables([descent("linear", rate), descent("fista", 0.7)])
    found = judge(FASTER, convergence=runs)
    assert found.verdict == verdict
    assert f"fista {np.ceil(np.log(1e-6) / np.log(0.7)):.0f}" in found.evidence


def test_sensitivity_is_read_from_the_surfaces():
    for claim in (LAM, CALM):
        assert judge(claim, surfaces=surface_rows()).verdict in {HELD, MIXED, FAILED}
        assert judge(claim) is None
