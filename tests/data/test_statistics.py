"""TaskStatistics: files, declared orders, some tasks only."""

from datetime import date, datetime

import numpy as np
import pandas as pd
import pytest

from priormtl.archive import write_archive
from priormtl.data import TaskStatistics, from_columns, summarize, summarize_tasks
from priormtl.exceptions import ModelFileError
from summarized_rows import ARRAYS, assert_same_bits, random_rows


def test_only_statistics_can_be_added():
    with pytest.raises(TypeError, match="unsupported operand"):
        summarize([[1.0]], [1.0]) + 1


LABELS = {
    "text": ["a", "é<script>", ""],
    "integers": [3, -1, 2**40],
    "floats": [0.1, -np.inf, 1e-300],
    "dates": [date(2024, 2, 29), date(1999, 1, 1), date(2000, 1, 1)],
    "datetimes": [datetime(2024, 2, 29, 1), datetime(1999, 1, 1), datetime(2000, 1, 1)],
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_saved_statistics_come_back_to_the_bit(tmp_path, labels):
    X, y, task, weight = random_rows(9)
    named = [labels[code] for code in task]
    saved = summarize(X, y, named, weight)
    saved.save(tmp_path / "statistics")
    loaded = TaskStatistics.load(tmp_path / "statistics")
    assert_same_bits(loaded, saved)
    assert [type(t) for t in loaded.tasks] == [type(t) for t in saved.tasks]


def test_shared_statistics_and_feature_names_come_back(tmp_path):
    data = from_columns(np.eye(3), np.eye(3)[:, :2], features=["u", "v", "w"])
    saved = summarize_tasks(data)
    saved.save(tmp_path / "statistics")
    loaded = TaskStatistics.load(tmp_path / "statistics")
    assert_same_bits(loaded, saved)
    assert loaded.features == ("u", "v", "w")
    assert loaded.is_shared


def test_labels_that_cannot_be_saved_leave_no_file(tmp_path):
    found = summarize(np.eye(2), np.ones(2), [(1, 2), (3, 4)])
    with pytest.raises(ValueError, match="must be text, numbers or dates to be saved"):
        found.save(tmp_path / "statistics")
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_file_is_refused(tmp_path):
    (tmp_path / "foreign").write_text("weight,x_mean\n1,2\n" * 10)
    with pytest.raises(ModelFileError, match="not a priormtl file"):
        TaskStatistics.load(tmp_path / "foreign")


def test_a_file_of_another_kind_is_refused(tmp_path):
    write_archive(tmp_path / "model", "model", {}, {})
    with pytest.raises(ModelFileError, match="holds 'model', not 'task statistics'"):
        TaskStatistics.load(tmp_path / "model")


def plain_parts():
    """Settings and arrays of a valid file."""
    found = summarize(np.eye(3), np.arange(3.0), ["a", "a", "b"])
    settings_ = {"tasks": list(found.tasks), "features": ["u", "v", "w"]}
    return settings_, {name: getattr(found, name) for name in ARRAYS}


def without(table, name):
    return {key: value for key, value in table.items() if key != name}


STRANGE = {
    "no tasks": lambda s, a: (without(s, "tasks"), a),
    "tasks as text": lambda s, a: (s | {"tasks": "ab"}, a),
    "tasks as lists": lambda s, a: (s | {"tasks": [[], []]}, a),
    "too few tasks": lambda s, a: (s | {"tasks": ["a"]}, a),
    "no features": lambda s, a: (without(s, "features"), a),
    "too few features": lambda s, a: (s | {"features": ["u"]}, a),
    "features as a number": lambda s, a: (s | {"features": 3}, a),
    "an array missing": lambda s, a: (s, without(a, "xy")),
    "an array too many": lambda s, a: (s, a | {"more": np.ones(2)}),
    "a flat mean": lambda s, a: (s, a | {"x_mean": np.ones(2)}),
    "a short mean": lambda s, a: (s, a | {"y_mean": np.ones(1)}),
    "three Grams": lambda s, a: (s, a | {"xx": np.ones((3, 3, 3))}),
    "no Gram": lambda s, a: (s, a | {"xx": np.ones((0, 3, 3))}),
    "whole numbers": lambda s, a: (s, a | {"yy": np.ones(2, np.int64)}),
}


@pytest.mark.parametrize("change", STRANGE.values(), ids=STRANGE)
def test_files_with_other_content_are_refused(tmp_path, change):
    write_archive(tmp_path / "strange", "task statistics", *change(*plain_parts()))
    with pytest.raises(ModelFileError, match="does not hold task statistics"):
        TaskStatistics.load(tmp_path / "strange")


def test_the_unchanged_content_loads(tmp_path):
    write_archive(tmp_path / "plain", "task statistics", *plain_parts())
    assert TaskStatistics.load(tmp_path / "plain").tasks == ("a", "b")


def test_declared_orders_outlive_parts_and_files(tmp_path):
    months = pd.Categorical(["jan", "feb", "mar"] * 4, categories=["jan", "feb", "mar"])
    X, y = np.arange(24.0).reshape(12, 2), np.arange(12.0)
    rows = np.argsort(months.codes, kind="stable")
    first, second = rows[:6], rows[6:]  # January and February; February and March
    parts = [summarize(X[part], y[part], task=months[part]) for part in (first, second)]
    whole = sum(parts)
    assert whole.tasks == ("jan", "feb", "mar")
    parts[1].save(tmp_path / "late")
    again = TaskStatistics.load(tmp_path / "late")
    assert (again + parts[0]).tasks == ("jan", "feb", "mar")


@pytest.mark.parametrize("kept", [[1, 0], [0, 0], [1, 1]])
def test_tasks_without_their_rows(kept):
    tasks = np.array(kept, dtype=bool)
    for whole in (
        summarize(np.eye(4), np.arange(4.0), task=["u", "v"] * 2),
        summarize(np.eye(4), np.arange(8.0).reshape(4, 2)),
    ):
        found = whole.only(tasks)
        found.check_shapes()
        assert found.tasks == whole.tasks
        for name in ("weight", "x_mean", "y_mean", "xy", "yy"):
            array = getattr(found, name)
            assert not array[~tasks].any()
            np.testing.assert_array_equal(array[tasks], getattr(whole, name)[tasks])
        each, before = (np.broadcast_to(s.xx, (2, 4, 4)) for s in (found, whole))
        assert not each[~tasks].any()
        np.testing.assert_array_equal(each[tasks], before[tasks])
