import numpy as np
import pytest

from priormtl.data import from_labels, summarize_tasks
from priormtl.engines import memory
from priormtl.engines.memory import refuse_beyond_memory


def statistics(m=4, d=10):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((40, d)), np.arange(40) % m
    return summarize_tasks(from_labels(X, X[:, 0], task))


def test_machines_say_how_much_they_hold():
    assert memory.physical_memory() > 2**20


def test_statistics_that_fit_are_let_through(monkeypatch):
    monkeypatch.setattr(memory, "physical_memory", lambda: 3 * 8 * 4 * 10 * 10)
    refuse_beyond_memory([statistics()])
    monkeypatch.setattr(memory, "physical_memory", lambda: None)
    refuse_beyond_memory([statistics()] * 100)


@pytest.mark.parametrize(("folds", "words"), [(1, "10 features must"), (2, "2 folds")])
def test_larger_ones_are_refused_with_the_way_out(monkeypatch, folds, words):
    monkeypatch.setattr(memory, "physical_memory", lambda: 9599)
    with pytest.raises(ValueError, match=rf"4 tasks over .*{words}.*shards"):
        refuse_beyond_memory([statistics()] * folds)
