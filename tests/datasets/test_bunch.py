"""Data sets are read by attribute, by key, by place and by unpacking, all alike."""

from dataclasses import dataclass

import numpy as np
import pytest

from priormtl.datasets import make_related_tasks
from priormtl.datasets.bunch import Bunch


@dataclass(frozen=True)
class Rows(Bunch):
    name: str
    y: tuple[int, ...]
    task: None = None

    @property
    def X(self):  # noqa: N802
        return tuple(10 * value for value in self.y)


def test_every_way_leads_to_the_same_value():
    data = Rows("toy", (1, 2))
    X, y, task = data
    assert (X, y, task) == ((10, 20), (1, 2), None)
    assert (data[0], data[1], data[2], data[-1]) == (X, y, task, task)
    assert data[:2] == (X, y)
    assert data["X"] == data.X == X
    assert data["name"] == "toy"


def test_keys_make_a_dictionary():
    data = Rows("toy", (1, 2))
    assert data.keys() == ("X", "y", "task", "name")
    assert dict(data) == {"X": (10, 20), "y": (1, 2), "task": None, "name": "toy"}
    assert "X" in data
    assert "rows" not in data
    assert (1, 2) not in data


def test_what_is_not_there_is_named():
    data = Rows("toy", (1, 2))
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
