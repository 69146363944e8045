"""A machine without pyarrow."""

import sys

import pytest


@pytest.fixture
def without_pyarrow(monkeypatch):
    """Files that need it must be imported anew."""
    ours = ("priormtl.engines", "priormtl.cli.")
    heavy = [name for name in sys.modules if name.startswith(ours)]
    for name in heavy:
        monkeypatch.delitem(sys.modules, name)
    for name in ("fitting", "prediction", "writing", "account"):
        monkeypatch.delattr(f"priormtl.cli.{name}", raising=False)
    # By its dict: asking the package for an attribute would import it again.
    monkeypatch.delitem(vars(sys.modules["priormtl"]), "engines", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
