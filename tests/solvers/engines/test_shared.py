"""Engines: one Gram matrix for all tasks, or one each, are the same mathematics."""

from dataclasses import replace

import numpy as np
import pytest

from instances import random_blocks
from priormtl.solvers.engines import ActiveRows, SharedBlock, TaskBlocks, choose_engine


def shared_and_spread(tie):
    """Blocks with one Gram matrix, and the same with a copy for each task."""
    blocks, Q = random_blocks(4, 6, tie=tie)
    gram = blocks.form.gram[:1]
    one = replace(blocks, form=blocks.form._replace(gram=gram))
    each = replace(blocks, form=blocks.form._replace(gram=np.repeat(gram, 4, axis=0)))
    return one, each, Q


@pytest.mark.parametrize("tie", [0.0, 0.5, 1e3])
def test_both_engines_agree(tie):
    one, each, Q = shared_and_spread(tie)
    a, b = SharedBlock(one, one.form), TaskBlocks(each, each.form)
    assert a.gradient(Q) == pytest.approx(b.gradient(Q), abs=1e-10)
    norms = np.linalg.norm(Q, axis=1)
    place = np.flatnonzero(norms)
    unit = Q[place] / norms[place, None]
    rows = ActiveRows(place, one.lam[place] / norms[place], unit, one.tie[place])
    x = np.random.default_rng(0).standard_normal(rows.unit.shape)
    assert a.multiply(rows, x) == pytest.approx(b.multiply(rows, x), abs=1e-9)
    assert a.direction(rows, x, 1e-12) == pytest.approx(
        b.direction(rows, x, 1e-12), rel=1e-6, abs=1e-8
    )


def test_both_sweeps_agree():
    one, each, Q = shared_and_spread(0.5)
    results = []
    for engine in (SharedBlock(one, one.form), TaskBlocks(each, each.form)):
        rows, mu = Q.copy(), np.full(len(Q), -1.0)
        engine.descend(rows, engine.gradient(rows), mu).sweep()
        results.append(rows)
    assert results[0] == pytest.approx(results[1], abs=1e-11)


def test_engine_is_chosen_by_shape():
    one, each, _ = shared_and_spread(0.0)
    assert isinstance(choose_engine(one), SharedBlock)
    assert isinstance(choose_engine(each), TaskBlocks)
