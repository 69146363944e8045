"""The data set without random numbers is the one whose optima were published."""

import numpy as np
import pytest

from golden import golden_rows, golden_tasks


def test_sums_are_those_published():
    X, y, _ = golden_rows(4, 5)
    assert X.sum() == pytest.approx(1.564458607299, abs=1e-12)
    assert y.sum() == pytest.approx(-1.028716427751, abs=1e-12)
    assert 0.5 * y @ y == pytest.approx(50.17530648738527, rel=1e-14)


def test_curvatures_are_those_published():
    tables, _ = golden_tasks(4, 5)
    squares = [np.linalg.norm(X, 2) ** 2 for X in tables]
    np.testing.assert_allclose(squares, [6.370883, 5.044638, 6.352466, 4.797348], 1e-6)
