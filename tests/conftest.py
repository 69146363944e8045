"""Where the real data sets are, and what many tests do without."""

import os
from collections import defaultdict
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
        large = Booster(40, 12, 0.3, 63)
        sizes = Booster(20, 6, 0.3, 255), large, large._replace(sees_scores=True)
        patch.setattr(stacked, "SIZES", sizes)
        patch.setattr(stacked, "CLASS_SIZES", sizes)
        yield


def pytest_addoption(parser):
    parser.addoption(
        "--every-combination",
        action="store_true",
        help="run parameters of tests in every combination, not by turns",
    )


def pytest_collection_modifyitems(config, items):
    """Tests of solvers come first: they compile most loops, each in one worker."""
    items.sort(key=lambda item: "solvers" not in item.path.parts)
    if not config.getoption("--every-combination", default=False):
        kept = find_turns(items)
        dropped = [item for item in items if item not in kept]
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item in kept]


def find_turns(items):
    """Tests whose parameters take turns: every value is met, not every combination.

    Where parameters are combined, about one combination in three is kept; in an earlier
    state of the tests, these found 105 of 107 mutants.
    """
    kept, functions = set(), defaultdict(list)
    for item in items:
        marks = list(item.iter_markers("parametrize"))
        if len(marks) > 1:
            name = item.nodeid.split("[")[0]
            functions[name].append((item, [find_value(item, mark) for mark in marks]))
        else:
            kept.add(item)
    for group in functions.values():
        axes = [
            list(dict.fromkeys(axis))
            for axis in zip(*(v for _, v in group), strict=True)
        ]
        longest, *others = sorted(range(len(axes)), key=lambda j: -len(axes[j]))
        rounds = -(-len(group) // (3 * len(axes[longest])))
        for item, values in group:
            i, *at = (axes[j].index(values[j]) for j in (longest, *others))
            turns = [(i + k) % len(axes[j]) for k in range(rounds) for j in others]
            if any(at == turns[k : k + len(at)] for k in range(0, len(turns), len(at))):
                kept.add(item)
    return kept


def find_value(item, mark):
    """What a mark gives to a test, as something to compare."""
    names = mark.args[0] if mark.args else mark.kwargs["argnames"]
    names = names.replace(",", " ").split() if isinstance(names, str) else names
    return tuple(id(item.callspec.params[name]) for name in names)


def pytest_make_parametrize_id(val, argname):
    """Bytes are no names: two workers may compress them a second apart."""
    return argname if isinstance(val, bytes) else None
