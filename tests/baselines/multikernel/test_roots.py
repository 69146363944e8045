"""falling_root, from good, bad and missing guesses."""

from math import log

import pytest

from priormtl.baselines.multikernel.roots import falling_root


@pytest.mark.parametrize("guess", [0.0, 1e-9, 0.2999, 0.3, 0.9, 1.0, 5.0])
@pytest.mark.parametrize("power", [1.0, 1.5, 30.0])
def test_root_is_found(guess, power):
    found = falling_root(lambda x: power * log(0.3 / x), 1.0, guess)
    assert found == pytest.approx(0.3, rel=1e-10)


def test_kinks_do_not_matter():
    def bent(x):
        return log((max(0.5 - 3 * x, 0.0) + max(0.1 - x, 0.0) + 1e-300) / x)

    found = falling_root(bent, 1.0, 0.0)
    assert bent(found) == pytest.approx(0.0, abs=1e-9)


def test_a_root_at_the_top_is_found():
    assert falling_root(lambda x: -log(x), 1.0, 0.0) == 1.0
    assert falling_root(lambda x: 1e-14 - log(x), 1.0, 0.5) == pytest.approx(1.0)
