import numpy as np
import pytest
from scipy.sparse import csr_array

from priormtl.priors import measure_violations

D = csr_array(np.array([[1.0, -1.0, 0.0], [0.0, 2.0, 2.0], [1.0, 1.0, -1.0]]))


def test_relations_that_hold_are_not_violated():
    p = np.array([1.0, -2.0])
    np.testing.assert_allclose(
        measure_violations(D[:2], np.array([p, p, -p])), 0.0, atol=1e-15
    )


def test_contrary_relations_are_violated_fully():
    p = np.array([1.0, 3.0])
    assert measure_violations(D, np.array([p, -p, -p])) == pytest.approx([1, 1, 1 / 3])


def test_one_of_two_at_zero_is_in_between():
    P = np.array([[0.0], [2.0], [0.0]])
    assert measure_violations(D[:2], P) == pytest.approx([np.sqrt(0.5)] * 2)


def test_measures_lie_between_zero_and_one_and_do_not_depend_on_units():
    rng = np.random.default_rng(0)
    for _ in range(50):
        P = rng.standard_normal((3, 4)) * 10.0 ** rng.integers(-9, 9)
        found = measure_violations(D, P)
        assert (found >= 0).all()
        assert (found <= 1 + 1e-12).all()
        np.testing.assert_allclose(measure_violations(5.0 * D, 3.0 * P), found)


def test_nothing_is_violated_where_all_is_zero():
    assert measure_violations(D, np.zeros((3, 2))).tolist() == [0, 0, 0]
