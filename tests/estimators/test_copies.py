"""CopyFeatures: the artificial prior."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, issparse

from priormtl import CopyFeatures, MultiTaskRegressor


def test_copies_follow_their_originals():
    X = np.random.default_rng(0).standard_normal((5, 40))
    copies = CopyFeatures().fit(X)
    wide = copies.transform(X)
    assert wide.shape == (5, 42)
    assert np.array_equal(wide[:, 40:], X[:, copies.copied_])
    plain = copies.prior_.to_plain()[0]
    assert plain["first"] == copies.copied_.tolist()
    assert plain["second"] == [40, 41]


def test_prior_pulls_copy_and_original_together():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    copies = CopyFeatures(fraction=0.25).fit(X)
    wide = copies.transform(X) + 0.1 * rng.standard_normal((30, 5))
    model = MultiTaskRegressor(0.1, 1e6, feature_prior=copies.prior_)
    coef = model.fit(wide, X[:, copies.copied_[0]]).coef_[0]
    assert coef[copies.copied_[0]] == pytest.approx(coef[4], abs=1e-3)


def test_names_of_copies():
    frame = pd.DataFrame(np.eye(3), columns=["a", "b", "c"])
    copies = CopyFeatures(fraction=0.3).set_output(transform="pandas")
    wide = copies.fit_transform(frame)
    name = "abc"[copies.copied_[0]]
    assert wide.columns.tolist() == ["a", "b", "c", f"{name}_copy"]


def test_sparse_stays_sparse():
    X = csr_array(np.eye(4))
    wide = CopyFeatures(fraction=0.5).fit_transform(X)
    assert issparse(wide)
    assert wide.shape == (4, 6)


def test_seed_decides():
    X = np.zeros((2, 100))
    first = CopyFeatures(random_state=1).fit(X).copied_
    assert np.array_equal(first, CopyFeatures(random_state=1).fit(X).copied_)
    assert not np.array_equal(first, CopyFeatures(random_state=2).fit(X).copied_)


@pytest.mark.parametrize("fraction", [0.0, -1.0, 1.5])
def test_fraction_is_checked(fraction):
    with pytest.raises(ValueError, match="fraction must be above 0 and at most 1"):
        CopyFeatures(fraction=fraction).fit(np.eye(3))
