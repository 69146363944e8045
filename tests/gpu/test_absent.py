"""Without PyTorch, one sentence says what is missing."""

import sys

import numpy as np
import pytest

from priormtl import MultiTaskClassifierCV, MultiTaskRegressor, summarize
from priormtl.data import host_array, lives_on_device

X, Y = np.eye(6), np.arange(6.0)


@pytest.mark.parametrize("name", ["cuda", "cpu"])
def test_without_pytorch_devices_are_refused(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=rf"device='{name}' needs PyTorch: pip"):
        MultiTaskRegressor(device=name).fit(X, Y)
    with pytest.raises(ImportError, match="needs PyTorch"):
        MultiTaskClassifierCV(device=name).fit(X, Y > 2)
    with pytest.raises(ImportError, match="needs PyTorch"):
        summarize(X, Y, device=name)


class Elsewhere:
    """An array that says it lives on a device."""

    def __dlpack_device__(self):
        return (2, 0)


def test_arrays_tell_where_they_live():
    assert lives_on_device(Elsewhere())
    for here in (X, [1.0], "a", None):
        assert not lives_on_device(here)
        assert host_array(here) is here
