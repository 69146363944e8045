"""Where the real data sets are, and what many tests do without."""

import os
from pathlib import Path

import pytest

from priormtl.estimators import stacked
from priormtl.estimators.stacked import Booster

NEARBY = Path(__file__).parents[2] / "shared/data"


@pytest.fixture(scope="session")
def data_home():
    folder = Path(os.environ.get("PRIORMTL_DATA", NEARBY))
    if not (folder / "school.npz").is_file():
        pytest.skip(f"no data sets in {folder}; set PRIORMTL_DATA to their folder")
    return folder


@pytest.fixture(scope="module")
def few_trees():
    """A tenth of the trees of the default model, where their number does not matter."""
    with pytest.MonkeyPatch.context() as patch:
        sizes = Booster(20, 6, 0.3, 255), Booster(40, 12, 0.3, 63)
        patch.setattr(stacked, "SIZES", sizes)
        yield


def pytest_collection_modifyitems(items):
    """Tests of solvers come first: they compile most loops, each in one worker."""
    items.sort(key=lambda item: "solvers" not in item.path.parts)


def pytest_make_parametrize_id(val, argname):
    """Bytes are no names: two workers may compress them a second apart."""
    return argname if isinstance(val, bytes) else None
