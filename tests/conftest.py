"""Where the real data sets are, for tests that need them."""

import os
from pathlib import Path

import pytest

NEARBY = Path(__file__).parents[2] / "shared/data"


@pytest.fixture(scope="session")
def data_home():
    folder = Path(os.environ.get("PRIORMTL_DATA", NEARBY))
    if not (folder / "school.npz").is_file():
        pytest.skip(f"no data sets in {folder}; set PRIORMTL_DATA to their folder")
    return folder


def pytest_make_parametrize_id(val, argname):
    """Bytes are no names: two workers may compress them a second apart."""
    return argname if isinstance(val, bytes) else None
