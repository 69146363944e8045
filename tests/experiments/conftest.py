"""Small data sets in the place of the real ones, and the real ones where they are."""

from dataclasses import replace

import pytest

from paper_data import MAKERS, small_pairs
from priormtl.datasets.loaders import LOADERS
from priormtl.experiments.protocol import load_rows
from priormtl.experiments.reproduction import split_ratio
from priormtl.experiments.units import fit_unit


@pytest.fixture
def fresh_sets():
    """Nothing that was read in other tests is used here, nor the other way."""
    for cached in (load_rows, split_ratio, fit_unit):
        cached.cache_clear()
    yield
    for cached in (load_rows, split_ratio, fit_unit):
        cached.cache_clear()


@pytest.fixture
def small_sets(monkeypatch, fresh_sets):
    """All data sets are small ones."""
    makers = {
        **MAKERS,
        "mnist": lambda: small_pairs("mnist"),
        # Its features are measures of an image, not pixels.
        "letter_uci": lambda: replace(small_pairs("letter_uci"), image_shape=None),
    }
    for name, make in makers.items():
        monkeypatch.setitem(LOADERS, name, make)


@pytest.fixture
def real_sets(monkeypatch, data_home, fresh_sets):
    """All data sets are the real ones."""
    monkeypatch.setenv("PRIORMTL_DATA", str(data_home))


@pytest.fixture
def unsaved(monkeypatch):
    """Figures are made, but their files are empty: drawing them takes long."""

    def save(figure, path):
        paths = [path.with_name(f"{path.name}.{kind}") for kind in ("svg", "png")]
        for one in paths:
            one.touch()
        return paths

    monkeypatch.setattr("priormtl.experiments.rendering.page.save_figure", save)
