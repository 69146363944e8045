"""A machine without pyarrow."""

import sys

import pytest


@pytest.fixture
def without_pyarrow(monkeypatch):
    """Files that need it must be imported anew."""
    ours = ("priormtl.engines", "priormtl.cli.demonstration")
    heavy = [name for name in sys.modules if name.startswith(ours)]
    for name in heavy:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("priormtl.cli.demonstration", raising=False)
    # By its dict: asking the package for an attribute would import it again.
    monkeypatch.delitem(vars(sys.modules["priormtl"]), "engines", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
