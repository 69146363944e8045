"""Engines on samples: the same mathematics as Gram matrices, never formed."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array

from instances import random_blocks
from priormtl.problem import NormalForm, SampleForm
from priormtl.solvers.engines import (
    ActiveRows,
    SharedBlock,
    SharedSamples,
    TaskBlocks,
    TaskSamples,
)
from priormtl.solvers.engines.samples import invert
from priormtl.solvers.kernels import samples as kernels

K, M, N = 40, 3, 7  # more rows than a block of the kernel, more than samples


def both_forms(shared, tie):
    """Blocks on samples and on their Gram matrices, and rows Q."""
    rng = np.random.default_rng(0)
    blocks, Q = random_blocks(M, K, tie=tie)
    relation = csr_array(np.diag(rng.random(K)) + 0.1 * np.eye(K, k=1))
    relation = csr_array(relation + relation.T)
    if shared:
        rows, target = rng.standard_normal((K, N)), rng.standard_normal((M, N))
        starts = np.zeros(0, np.intp)
        gram, linear = (rows @ rows.T)[None], rows @ target.T
    else:
        starts = np.array([0, 2, 9, 14])
        rows, target = rng.standard_normal((K, 14)), rng.standard_normal(14)
        parts = [slice(a, b) for a, b in pairwise(starts)]
        gram = np.array([rows[:, p] @ rows[:, p].T for p in parts])
        linear = np.array([rows[:, p] @ target[p] for p in parts]).T
    kept = replace(
        blocks, form=SampleForm(rows, target, starts, np.zeros(0)), relation=relation
    )
    formed = replace(kept, form=NormalForm(gram, linear, np.zeros(0)))
    engines = (SharedSamples, SharedBlock) if shared else (TaskSamples, TaskBlocks)
    return *(e(b, b.form) for e, b in zip(engines, (kept, formed), strict=True)), Q


def active(engine, Q):
    norms = np.linalg.norm(Q, axis=1)
    place = np.flatnonzero(norms)
    lam, tie = engine.system.lam[place], engine.system.tie[place]
    unit = Q[place] / norms[place, None]
    return ActiveRows(place, lam / norms[place], unit, tie)


CASES = pytest.mark.parametrize(
    ("shared", "tie"), [(False, 0.0), (False, 2.0), (True, 0.0), (True, 2.0)]
)


@CASES
def test_gradients_and_products_agree(shared, tie):
    samples, gram, Q = both_forms(shared, tie)
    assert samples.gradient(Q) == pytest.approx(gram.gradient(Q), abs=1e-9)
    rows = active(samples, Q)
    x = np.random.default_rng(1).standard_normal(rows.unit.shape)
    assert samples.multiply(rows, x) == pytest.approx(gram.multiply(rows, x), abs=1e-9)


@CASES
def test_directions_agree(shared, tie):
    samples, gram, Q = both_forms(shared, tie)
    rows = active(samples, Q)
    rows = rows._replace(unit=0.9 * rows.unit)
    x = np.random.default_rng(2).standard_normal(rows.unit.shape)
    ours, other = (e.direction(rows, x, 1e-12) for e in (samples, gram))
    assert ours == pytest.approx(other, rel=1e-5, abs=1e-7)


@CASES
def test_sweeps_agree_and_values_differ_by_a_constant(shared, tie):
    samples, gram, Q = both_forms(shared, tie)
    results, values = [], []
    for engine in (samples, gram):
        rows, mu = Q.copy(), np.full(len(Q), -1.0)
        descent = engine.descend(rows, engine.gradient(rows), mu)
        values.append([])
        for _ in range(3):
            values[-1].append(descent.value())
            moved = descent.sweep()
        results.append((rows, moved, descent.gradient()))
    for ours, other in zip(*results, strict=True):
        assert ours == pytest.approx(other, rel=1e-8, abs=1e-8)
    differences = np.subtract(*values)
    assert differences == pytest.approx(differences[0], rel=1e-9)


def test_inverse_by_the_samples():
    rng = np.random.default_rng(3)
    rows, weight, r = rng.random((6, 2)), rng.random(6), rng.random((6, 3))
    full = rows @ rows.T + np.diag(weight)
    assert invert(rows, weight)(r) == pytest.approx(np.linalg.solve(full, r))


def test_rows_without_weight_of_their_own_are_solved_too():
    samples, _, Q = both_forms(shared=False, tie=1.0)
    rows = active(samples, Q)
    rows = rows._replace(bend=np.where(rows.place == 0, 0.0, rows.bend))
    x = np.random.default_rng(4).standard_normal(rows.unit.shape)
    found = samples.direction(rows, x, 1e-12)
    product = samples.multiply(rows, found) - rows.straighten(found)
    product += rows.bend[:, None] * found
    assert product == pytest.approx(x, abs=1e-6)


def test_neighbours_are_products_inside_a_block():
    rows = np.random.default_rng(5).standard_normal((kernels.BLOCK + 3, 4))
    found = kernels.lay_out_neighbours(rows)
    full = rows @ rows.T
    assert found[:5] == pytest.approx(full[:5, : kernels.BLOCK])
    assert found[-3:, :3] == pytest.approx(full[-3:, -3:])
