"""TaskSet: rows on demand, splits of originals, both layouts; a Bunch in every way."""

from dataclasses import dataclass

import numpy as np
import pytest

from priormtl import MultiTaskClassifier, one_vs_one
from priormtl.datasets import TaskSet, make_related_tasks
from priormtl.datasets.task_set import Bunch, name_pixels, pair_classes


def make_pairs(group=None):
    rng = np.random.default_rng(0)
    label = np.array([2, 0, 1, 1, 0, 2, 0])
    pairs = [(0, 1), (0, 2), (1, 2)]
    sample, y, code = pair_classes(label, pairs)
    return TaskSet(
        name="toy",
        kind="classification",
        originals=rng.integers(0, 256, (7, 3)).astype(np.uint8),
        sample=sample,
        y=y,
        code=code,
        feature_names=("a", "b", "c"),
        task_names=tuple(f"{a} vs {b}" for a, b in pairs),
        description="",
        quirks=(),
        source="",
        classes=tuple((str(a), str(b)) for a, b in pairs),
        label=label,
        group=group,
    )


def make_shared():
    rng = np.random.default_rng(1)
    return TaskSet(
        name="toy",
        kind="regression",
        originals=rng.standard_normal((5, 2)),
        sample=np.arange(5),
        y=rng.standard_normal((5, 3)),
        code=None,
        feature_names=("a", "b"),
        task_names=("u", "v", "w"),
        description="",
        quirks=(),
        source="",
    )


def test_pairs_are_those_of_one_vs_one():
    data = make_pairs()
    X, y, task = one_vs_one(data.originals.astype(float), data.label)
    assert np.array_equal(data.X, X)
    assert np.array_equal(data.task, task)
    assert np.array_equal(data.label[data.sample], y)


def test_the_second_class_named_is_positive():
    data = make_pairs()
    named = np.array(data.classes)[data.code, (data.y > 0).astype(int)]
    assert np.array_equal(named, data.label[data.sample].astype(str))


def test_the_positive_class_is_the_one_that_the_classifier_scores():
    data = make_pairs()
    X, y, task = data
    by_sign = MultiTaskClassifier(0.1).fit(X, y, task=task)
    by_label = MultiTaskClassifier(0.1).fit(X, data.label[data.sample], task=task)
    assert np.array_equal(by_sign.coef_, by_label.coef_)


@pytest.mark.parametrize("data", [make_pairs(), make_shared()])
@pytest.mark.parametrize("index", [[3, 0], slice(1, 4), np.arange(5) > 2])
def test_rows_are_rows_of_the_whole(data, index):
    if isinstance(index, np.ndarray):
        index = np.resize(index, len(data.sample))
    X, y, task = data
    part = data.rows(index)
    assert part.X.dtype == np.float64
    assert np.array_equal(part.X, X[index])
    assert np.array_equal(part.y, y[index])
    assert (part.task is None) == (task is None)
    if task is not None:
        assert np.array_equal(part.task, task[index])


def test_a_split_of_originals_splits_every_task_alike():
    data = make_pairs()
    train, test = data.find([0, 2, 4]), data.find([1, 3, 5, 6])
    assert sorted([*train, *test]) == list(range(len(data.y)))
    assert set(data.sample[train]) == {0, 2, 4}
    mask = np.isin(np.arange(7), [0, 2, 4])
    assert np.array_equal(data.find(mask), train)


def test_groups_are_originals_unless_something_larger_is_known():
    assert np.array_equal(make_pairs().groups, make_pairs().sample)
    words = np.array([0, 0, 0, 1, 1, 2, 2])
    data = make_pairs(group=words)
    assert np.array_equal(data.groups, words[data.sample])


def test_stacked_rows_say_the_same():
    data = make_shared()
    stacked = data.stacked()
    assert stacked.X.shape == (15, 2)
    for code, name in enumerate(data.task_names):
        rows = stacked.task == name
        assert np.array_equal(stacked.y[rows], data.y[:, code])
        assert np.array_equal(stacked.X[rows], data.X)
    assert stacked.stacked() is stacked


def test_a_set_says_what_it_is():
    assert repr(make_pairs()) == (
        "TaskSet(toy: 3 classification tasks, 14 rows, 3 features)"
    )


def test_pixels_are_named_by_row_and_column():
    assert name_pixels(2, 3) == ("0,0", "0,1", "0,2", "1,0", "1,1", "1,2")


# Bunch.


@dataclass(frozen=True)
class ToyBunch(Bunch):
    name: str
    y: tuple[int, ...]
    task: None = None

    @property
    def X(self):  # noqa: N802
        return tuple(10 * value for value in self.y)


def test_every_way_leads_to_the_same_value():
    data = ToyBunch("toy", (1, 2))
    X, y, task = data
    assert (X, y, task) == ((10, 20), (1, 2), None)
    assert (data[0], data[1], data[2], data[-1]) == (X, y, task, task)
    assert data[:2] == (X, y)
    assert data["X"] == data.X == X
    assert data["name"] == "toy"


def test_keys_make_a_dictionary():
    data = ToyBunch("toy", (1, 2))
    assert data.keys() == ("X", "y", "task", "name")
    assert dict(data) == {"X": (10, 20), "y": (1, 2), "task": None, "name": "toy"}
    assert "X" in data
    assert "rows" not in data
    assert (1, 2) not in data


def test_what_is_not_there_is_named():
    data = ToyBunch("toy", (1, 2))
    with pytest.raises(KeyError, match=r"'nane'; known: 'X', .*Did you mean 'name'"):
        data["nane"]
    with pytest.raises(KeyError, match="'keys'"):
        data["keys"]  # a method is no value
    with pytest.raises(IndexError):
        data[3]


def test_data_with_known_truth_is_a_bunch():
    data = make_related_tasks(n_tasks=2, n_features=4, random_state=0)
    assert data["coef"] is data.coef
    assert np.array_equal(data[1], data.y)
    assert "task_prior" in data.keys()  # noqa: SIM118
