"""Statistics in notebooks: counts, targets by task, no markup from names."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from priormtl import summarize


def page(m, d=3, names=None):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(4 * m, d)), columns=names)
    labels = np.repeat([f"t{i}" for i in range(m)], 4)
    return summarize(X, rng.normal(size=4 * m), labels)._repr_html_()


@pytest.mark.parametrize("m", [1, 10, 11, 300])
def test_many_tasks_are_cut_and_counted(m):
    text = page(m)
    assert f"TaskStatistics({m} tasks, 3 features, weight {4 * m})" in text
    assert (f"… and {m - 10} more tasks." in text) == (m > 10)


def test_names_are_shown_as_text_and_cut():
    text = page(2, 12, ["<b>", *(f"f{j}" for j in range(11))])
    assert "&lt;b&gt;, f0" in text
    assert "(12 in all)" in text
    assert "<b>" not in text


def test_shared_tables_say_so():
    X = np.arange(8.0).reshape(4, 2)
    shared = summarize(X, np.column_stack([X[:, 0], X[:, 1] ** 2]))
    assert "one for all tasks" in shared._repr_html_()


def test_a_task_without_rows_has_no_spread():
    statistics = summarize([[1.0], [2.0]], [1.0, 2.0], task=["a", "a"])
    other = summarize([[1.0]], [1.0], task=["b"], sample_weight=[1.0])
    assert "nan" not in (statistics + other)._repr_html_()


def test_what_lies_on_disk_is_not_called_memory(tmp_path):
    held = summarize(np.eye(4), np.arange(4.0), task=["a", "b"] * 2)
    mapped = np.lib.format.open_memmap(tmp_path / "xx.npy", "w+", float, (2, 4, 4))
    stored = replace(held, xx=mapped)
    assert "on disk" not in held._repr_html_()
    once, twice = (s._repr_html_() for s in (stored, stored + stored))
    assert f"{mapped.nbytes / 2**20:.3g} MB" in once[once.index("on disk") :]
    assert f"{2 * mapped.nbytes / 2**20:.3g} MB" in twice[twice.index("on disk") :]
