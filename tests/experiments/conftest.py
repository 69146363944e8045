"""Small data sets in the place of the real ones, and the real ones where they are."""

import pytest

from priormtl import datasets
from priormtl.experiments.protocol import load_rows
from small_tasks import MAKERS, small_pairs


@pytest.fixture
def small_sets(monkeypatch):
    """All data sets are small ones."""
    makers = {
        **MAKERS,
        "mnist": lambda: small_pairs("mnist"),
        "letter_uci": lambda: small_pairs("letter_uci"),
    }
    for name, make in makers.items():
        monkeypatch.setattr(datasets, f"load_{name}", make)
    load_rows.cache_clear()
    yield
    load_rows.cache_clear()


@pytest.fixture
def real_sets(monkeypatch, data_home):
    """All data sets are the real ones."""
    monkeypatch.setenv("PRIORMTL_DATA", str(data_home))
    load_rows.cache_clear()
    yield
    load_rows.cache_clear()
