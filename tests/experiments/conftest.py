"""Small data sets in the place of the real ones, and the real ones where they are."""

from dataclasses import replace

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
        # Its features are measures of an image, not pixels.
        "letter_uci": lambda: replace(small_pairs("letter_uci"), image_shape=None),
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
