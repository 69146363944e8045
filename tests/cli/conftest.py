"""A machine without pyarrow."""

import sys

import pytest


@pytest.fixture
def without_pyarrow(monkeypatch):
    """Files that need it must be imported anew."""
    ours = ("priormtl.engines", "priormtl.cli.reading", "priormtl.cli.demonstration")
    heavy = [name for name in sys.modules if name.startswith(ours)]
    for name in heavy:
        monkeypatch.delitem(sys.modules, name)
    for name in ("reading", "demonstration"):
        monkeypatch.delattr(f"priormtl.cli.{name}", raising=False)
    monkeypatch.delattr("priormtl.engines", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
