"""Blocks hold each feature once, by position or name."""

import numpy as np
import pytest

from priormtl.baselines.lattice.feature_blocks import read_blocks
from priormtl.data import from_columns


def data(features=None):
    return from_columns(np.eye(3), np.eye(3)[:, :2], features=features)


def plain(blocks):
    return [block.tolist() for block in blocks]


def test_none_is_one_block():
    assert plain(read_blocks(None, data())) == [[0, 1, 2]]


def test_positions_and_names_may_be_mixed():
    named = data(["u", "v", "w"])
    assert plain(read_blocks([["w", 0], ["v"]], named)) == [[2, 0], [1]]


@pytest.mark.parametrize("blocks", [[[0, 1]], [[0, 1, 2], []], [[0, 0, 1, 2]], [["u"]]])
def test_other_blocks_are_refused(blocks):
    with pytest.raises(ValueError, match="each of the 3 features exactly once"):
        read_blocks(blocks, data())
