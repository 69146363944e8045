"""The strongest correlations: NumPy's, whatever the blocks and representation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from instances import LAYOUTS, plain_rows, random_tasks
from priormtl.data import centre_samples, condense, from_labels, summarize_tasks
from priormtl.priors import FeaturePrior, relations
from priormtl.priors.relations import Correlated, Pairs, part_from_plain

LAW = settings(max_examples=30, deadline=None, derandomize=True, database=None)
KEPT = {"statistics": summarize_tasks, "samples": centre_samples}
kept = pytest.mark.parametrize("keep", KEPT.values(), ids=KEPT)
forms = pytest.mark.parametrize(
    "form", [np.asarray, csr_array], ids=["dense", "sparse"]
)


def table(seed=0, n=60, d=7):
    """Correlated columns, with offsets that differ between three tasks."""
    rng = np.random.default_rng(seed)
    task = np.arange(n) % 3
    X = (
        rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
        + rng.normal(size=(3, d))[task]
    )
    return X, task


def tasks_of(X, task=None, form=np.asarray):
    labels = [0] * len(X) if task is None else task
    return from_labels(form(X), np.zeros(len(X)), labels)


def chosen(moments, strongest):
    pairs = Correlated(strongest, 1.0).resolve(moments)
    return list(zip(pairs.first, pairs.second, pairs.sign, strict=True))


def strongest_by_numpy(X, strongest, weight=None):
    covariance = np.cov(X.T, aweights=weight, ddof=0)
    deviation = np.sqrt(np.diag(covariance))
    C = covariance / np.outer(deviation, deviation)
    j, k = np.triu_indices(len(C), 1)
    order = np.argsort(-np.abs(C[j, k]), kind="stable")[:strongest]
    return [(int(j[i]), int(k[i]), float(np.sign(C[j[i], k[i]]))) for i in order]


@kept
@pytest.mark.parametrize("strongest", [1, 5, 21])
@pytest.mark.parametrize("seed", range(3))
def test_the_strongest_correlations_are_numpys(keep, strongest, seed):
    X, task = table(seed)
    found = chosen(keep(tasks_of(X, task)), strongest)
    assert found == strongest_by_numpy(X, strongest)
    C = np.corrcoef(X.T)
    for j, k, sign in found:
        assert sign == np.sign(C[j, k])


@kept
@pytest.mark.parametrize("layout", LAYOUTS)
def test_weights_and_gaps_count_in_the_correlations(keep, layout):
    data = random_tasks(layout, n=20)
    rows = plain_rows(data)
    X, weight = (
        np.concatenate([r[0] for r in rows]),
        np.concatenate([r[2] for r in rows]),
    )
    assert chosen(keep(data), 4) == strongest_by_numpy(X, 4, weight)


@LAW
@given(st.integers(0, 10**6), st.integers(1, 80), st.integers(1, 25))
def test_blocks_do_not_matter(seed, cells, strongest):
    X, task = table(seed)
    moments = summarize_tasks(tasks_of(X, task))
    whole = chosen(moments, strongest)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relations, "BLOCK_CELLS", cells)
        assert chosen(moments, strongest) == whole


@kept
@forms
def test_duplicates_and_mirrored_columns_come_first(keep, form):
    X, task = table()
    X = np.column_stack([X, X[:, 2], -3.0 * X[:, 5] + 1.0])
    found = chosen(keep(tasks_of(X, task, form)), 2)
    assert found == [(2, 7, 1.0), (5, 8, -1.0)]


@pytest.mark.parametrize("cells", [1, 8, 16, 10**6])
def test_ties_go_to_the_earlier_pair_whatever_the_blocks(cells, monkeypatch):
    x = np.random.default_rng(0).normal(size=(30, 1))
    X = x * np.array([1.0, -2.0, 0.3, 1e5, -7.0, 1e-6, 11.0, 0.1])
    monkeypatch.setattr(relations, "BLOCK_CELLS", cells)
    found = chosen(summarize_tasks(tasks_of(X)), 4)
    assert found == [(0, 1, -1.0), (0, 2, 1.0), (0, 3, 1.0), (0, 4, -1.0)]


@kept
@forms
@pytest.mark.parametrize("value", [0.0, 0.1, 0.3, 1.0, 1e8 + 0.1])
@pytest.mark.parametrize("m", [1, 3])
def test_constant_columns_are_never_chosen(keep, form, value, m):
    X, _ = table(n=600)
    X[:, [1, 4]] = value
    found = chosen(keep(tasks_of(X, np.arange(600) % m, form)), 100)
    assert len(found) == 10
    assert not {1, 4} & {j for pair in found for j in pair[:2]}


@pytest.mark.parametrize("offset", [1e8, 1e12])
def test_large_offsets_do_not_matter(offset):
    X, task = table()
    far = condense(tasks_of(X + offset, task))
    assert chosen(far, 3) == strongest_by_numpy((X + offset) - offset, 3)


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_units_do_not_matter(scale):
    X, task = table()
    units = np.where(np.arange(7) % 2, scale, 1.0)
    found = chosen(summarize_tasks(tasks_of(X * units, task)), 6)
    assert found == strongest_by_numpy(X, 6)


@pytest.mark.parametrize("d", [1, 2])
def test_few_features_have_few_pairs(d):
    X, task = table(d=d)
    assert len(chosen(summarize_tasks(tasks_of(X, task)), 20)) == d - 1


def test_one_row_has_no_correlations():
    assert chosen(summarize_tasks(tasks_of(np.ones((1, 4)))), 20) == []


def test_the_prior_relates_what_was_found():
    X, task = table()
    moments = summarize_tasks(tasks_of(X, task))
    resolved = FeaturePrior.from_correlation(3, weight=4.0).resolve(moments)
    (pairs,) = resolved.parts
    assert isinstance(pairs, Pairs)
    assert pairs.weight == (4.0,) * 3
    first = pairs.matrix(7).toarray()[0]
    j, k, sign = pairs.first[0], pairs.second[0], pairs.sign[0]
    assert first[[j, k]].tolist() == [2.0, -2.0 * sign]


@pytest.mark.parametrize("plain", [{"part": "code"}, {"part": None}, {}])
def test_unknown_parts_are_refused(plain):
    with pytest.raises((KeyError, ValueError), match=r"code|None|part"):
        part_from_plain(plain)
