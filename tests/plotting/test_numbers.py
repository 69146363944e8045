"""Arrays of figures: numbers of the right shape, or one sentence that says which."""

import numpy as np
import pytest

from priormtl.plotting.numbers import read_numbers


def test_lists_and_integers_are_numbers():
    found = read_numbers("values", [[1, 2], [3, 4]], "b", "a")
    assert found.dtype == np.float64
    assert found.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize("wrong", ["abc", ["a", "b"], object(), [[1.0], [1.0, 2.0]]])
def test_other_things_are_refused(wrong):
    with pytest.raises(TypeError, match=r"^sizes must be numbers \(k,\): got \w+\.$"):
        read_numbers("sizes", wrong, "k")


@pytest.mark.parametrize("wrong", [3.0, None, np.ones(2), np.ones((2, 2, 2))])
def test_other_shapes_are_refused(wrong):
    with pytest.raises(ValueError, match=r"^values must have shape \(b, a\): got \("):
        read_numbers("values", wrong, "b", "a")
