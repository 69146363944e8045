"""Engine by what is kept, and whether tasks share it."""

from dataclasses import replace

import numpy as np
import pytest

from instances import random_blocks
from priormtl.problem import SampleForm
from priormtl.solvers.engines import (
    SharedBlock,
    SharedSamples,
    TaskBlocks,
    TaskSamples,
    choose_engine,
)


@pytest.mark.parametrize("m", [1, 4])
def test_gram_matrices(m):
    blocks, _ = random_blocks(m, 3, tie=0.0)
    assert isinstance(choose_engine(blocks), TaskBlocks)
    one = replace(blocks, form=blocks.form._replace(gram=blocks.form.gram[:1]))
    assert isinstance(choose_engine(one), SharedBlock if m > 1 else TaskBlocks)


def test_samples():
    blocks, _ = random_blocks(2, 3, tie=0.0)
    rows, none = np.ones((3, 4)), np.zeros(0)
    own = SampleForm(rows, np.ones(4), np.array([0, 2, 4]), none)
    shared = SampleForm(rows, np.ones((2, 4)), np.zeros(0, np.intp), none)
    assert isinstance(choose_engine(replace(blocks, form=own)), TaskSamples)
    assert isinstance(choose_engine(replace(blocks, form=shared)), SharedSamples)
