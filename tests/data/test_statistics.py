"""TaskStatistics: sums, files, notebooks, and tasks of a few rows."""

from datetime import date, datetime
from functools import reduce
from operator import add

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_tables import (
    MOMENTS,
    assert_same_bits,
    assert_same_statistics,
    exact_moments,
    part_of,
    random_rows,
)
from priormtl.archive import write_archive
from priormtl.data import (
    TaskOrder,
    TaskStatistics,
    check_min_rows,
    check_statistics,
    from_columns,
    from_labels,
    large_tasks,
    summarize,
    summarize_tasks,
)
from priormtl.data import statistics as statistics_module
from priormtl.data.labels import declared_order
from priormtl.design import Design
from priormtl.exceptions import ModelFileError


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
    assert loaded.features.names == ("u", "v", "w")
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
    settings_ = {"tasks": list(found.tasks), "features": names(["u", "v", "w"])}
    return settings_, {name: getattr(found, name) for name in MOMENTS}


def names(some):
    return Design.of_names(some).to_plain()


def without(table, name):
    return {key: value for key, value in table.items() if key != name}


STRANGE = {
    "no tasks": lambda s, a: (without(s, "tasks"), a),
    "tasks as text": lambda s, a: (s | {"tasks": "ab"}, a),
    "tasks as lists": lambda s, a: (s | {"tasks": [[], []]}, a),
    "too few tasks": lambda s, a: (s | {"tasks": ["a"]}, a),
    "no features": lambda s, a: (without(s, "features"), a),
    "too few features": lambda s, a: (s | {"features": names(["u"])}, a),
    "features as a number": lambda s, a: (s | {"features": 3}, a),
    "an array missing": lambda s, a: (s, without(a, "xy")),
    "an array too many": lambda s, a: (s, a | {"more": np.ones(2)}),
    "a flat mean": lambda s, a: (s, a | {"x_mean": np.ones(2)}),
    "a short mean": lambda s, a: (s, a | {"y_mean": np.ones(1)}),
    "three Grams": lambda s, a: (s, a | {"xx": np.ones((3, 3, 3))}),
    "no Gram": lambda s, a: (s, a | {"xx": np.ones((0, 3, 3))}),
}


@pytest.mark.parametrize("change", STRANGE.values(), ids=STRANGE)
def test_files_with_other_content_are_refused(tmp_path, change):
    write_archive(tmp_path / "strange", "task statistics", *change(*plain_parts()))
    with pytest.raises(ModelFileError, match="does not hold task statistics"):
        TaskStatistics.load(tmp_path / "strange")


def made_of(**changes):
    """Statistics of three tasks with other numbers in some fields."""
    X, y, task, _ = random_rows(30)
    found = summarize(X, y, np.array(["a", "b", "c"])[task])
    parts = {name: getattr(found, name).copy() for name in MOMENTS}
    for name, change in changes.items():
        change(parts[name])
    return parts, found.tasks


def put(value, *place):
    return lambda array: array.__setitem__(place, value)


def set_both(value):
    def change(xx):
        xx[1, 0, 1] = xx[1, 1, 0] = value

    return change


def triangle(xx):
    """Every pair of features is possible, but not all three."""
    root = np.sqrt(np.diagonal(xx[1]))
    signs = np.array([[1.0, 0.9, 0.9], [0.9, 1.0, -0.9], [0.9, -0.9, 1.0]])
    xx[1, :3, :3] = signs * np.outer(root, root)[:3, :3]


IMPOSSIBLE = {
    "NaN in xy": ({"xy": put(np.nan, 1, 0)}, "xy of task 'b' must be finite: got nan"),
    "inf in xy": (
        {"xy": put(-np.inf, 1, 0)},
        "xy of task 'b' must be finite",
    ),
    "NaN in a mean": ({"x_mean": put(np.nan, 1, 0)}, "x_mean of task 'b'"),
    "inf in a mean of y": ({"y_mean": put(np.inf, 1)}, "y_mean of task 'b'"),
    "NaN in xx": ({"xx": put(np.nan, 1, 0, 1)}, "xx of task 'b' must be finite and sy"),
    "inf in both": ({"xx": set_both(np.inf)}, "xx of task 'b' must be finite and sy"),
    "inf on the diagonal": ({"xx": put(np.inf, 1, 0, 0)}, "xx of task 'b' .*diagonal"),
    "negative diagonal": ({"xx": put(-1.0, 1, 0, 0)}, "xx of task 'b' .*at least 0"),
    "asymmetric": ({"xx": put(0.123, 1, 0, 1)}, "xx of task 'b' must be .*symmetric"),
    "large pair": ({"xx": set_both(1e9)}, "xx of task 'b' must be at most the root"),
    "indefinite": ({"xx": triangle}, "xx of task 'b' must be positive semidefinite"),
    "xy too large": ({"xy": put(1e9, 1, 0)}, "xy of task 'b' must be at most the root"),
    "yy zero": ({"yy": put(0.0, 1)}, "xy of task 'b' must be at most .*yy 0"),
    "negative yy": ({"yy": put(-1.0, 1)}, "yy of task 'b' must be finite and at least"),
    "negative weight": (
        {"weight": put(-3.0, 1)},
        "weight of task 'b' must be finite",
    ),
    "NaN weight": ({"weight": put(np.nan, 1)}, "weight of task 'b' must be finite and"),
    "no weight": ({"weight": put(0.0, 1)}, "weight of task 'b' must be positive"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_statistics_of_no_rows_are_refused(tmp_path, name):
    changes, message = IMPOSSIBLE[name]
    parts, tasks = made_of(**changes)
    with pytest.raises(ValueError, match=message):
        TaskStatistics(**parts, tasks=tasks)
    path = tmp_path / "forged"
    write_archive(path, "task statistics", {"tasks": [*tasks], "features": None}, parts)
    with pytest.raises(ModelFileError, match=f"forged does not hold .*: {message}"):
        TaskStatistics.load(path)


@pytest.mark.parametrize("shared", [False, True])
def test_products_beyond_the_range_of_features_are_refused(shared):
    """Two features that are the same have the same products with y."""
    X = np.repeat(np.random.default_rng(0).normal(size=(20, 1)), 2, axis=1)
    held = summarize(X, np.column_stack([X[:, 0]] * 2 + [X[:, 0] ** 2]))
    xy = held.xy.copy()
    xy[1, 1] *= 0.9
    parts = {name: getattr(held, name) for name in MOMENTS} | {"xy": xy}
    if not shared:
        parts["xx"] = np.repeat(held.xx, 3, axis=0)
    with pytest.raises(ValueError, match="xy of task 1 must be possible with xx and"):
        TaskStatistics(**parts, tasks=held.tasks)


def test_numbers_may_be_lists_or_whole():
    found = TaskStatistics([2], [[0]], [1], [[[2]]], [[2]], [2.0], ["a"])
    assert found.xx.dtype == float
    assert found.tasks == ("a",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight": [1.0, 1.0]}, r"weight must be an array of doubles of shape \(1,\)"),
        ({"xy": ["x"]}, "xy must hold numbers"),
        ({"x_mean": [0.0]}, r"x_mean must have a row for each task .*shape \(1,\)"),
        ({"features": ("u", "v")}, "one name for each of 1 columns: got 2"),
        (
            {"x_mean": [[0.0] * 2], "xy": [[0.0] * 2], "xx": [np.eye(2)]}
            | {"features": ("u", "u")},
            "features must differ: 'u' comes twice",
        ),
    ],
)
def test_fields_that_do_not_fit_are_named(changes, message):
    parts = {"weight": [2.0], "x_mean": [[0.0]], "y_mean": [1.0], "xx": [[[2.0]]]}
    parts |= {"xy": [[2.0]], "yy": [2.0], "tasks": ("a",)}
    with pytest.raises(ValueError, match=message):
        TaskStatistics(**parts | changes)


def test_statistics_cannot_be_changed_in_place():
    found = summarize(np.eye(4), np.arange(4.0))
    for name in MOMENTS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(found, name)[0] = np.nan


def hostile_rows(seed):
    """Rows of any scale and offset: dependent, constant, single, with any weights."""
    rng = np.random.default_rng(seed)
    n, d, m = (int(rng.integers(1, high)) for high in (60, 9, 5))
    X = rng.normal(size=(n, d))
    X[:, 0] = X[:, -1] if seed % 2 else rng.choice([0.0, 0.1, 1e8 + 0.3])
    if seed % 3:
        X += 10.0 ** rng.integers(-2, 11, size=d)
    X *= 10.0 ** rng.integers(-10, 11, size=d)
    y = X @ rng.normal(size=d) / (np.abs(X).max() or 1.0) * rng.integers(2)
    y += rng.choice([0.0, 1e-13, 1.0]) * rng.normal(size=n) + rng.choice([0.0, 1e8])
    y *= 10.0 ** rng.integers(-10, 11)
    task = rng.integers(m, size=n)
    weight = rng.choice([0.0, 1.0, 2.5, 1e-6, 1e9], size=n) if seed % 4 else np.ones(n)
    kept = np.isin(task, task[weight > 0])  # tasks need some weight
    if not kept.any():
        kept, weight = np.ones(n, dtype=bool), np.ones(n)
    return X[kept], y[kept], task[kept], weight[kept]


@pytest.mark.parametrize(
    "count", [range(60), pytest.param(range(60, 1000), marks=pytest.mark.slow)]
)
def test_statistics_of_rows_are_never_refused(tmp_path, count):
    for seed in count:
        X, y, task, weight = hostile_rows(seed)
        first = task == task[0]
        halves = (first,) if first.all() else (first, ~first)
        parts = [
            summarize(X[rows], y[rows], task[rows], weight[rows]) for rows in halves
        ]
        some = np.arange(len(y)) % 2 == 0
        parts.append(summarize(X[some], y[some], task[some]))
        parts.append(summarize(X, np.column_stack([y, y[::-1]]), sample_weight=weight))
        for found in (*parts, parts[0] + sum(parts[:-1])):
            check_statistics(found)
    found.save(tmp_path / "file")
    assert_same_bits(TaskStatistics.load(tmp_path / "file"), found)


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
        check_statistics(found)
        assert found.tasks == whole.tasks
        for name in ("weight", "x_mean", "y_mean", "xy", "yy"):
            array = getattr(found, name)
            assert not array[~tasks].any()
            np.testing.assert_array_equal(array[tasks], getattr(whole, name)[tasks])
        each, before = (np.broadcast_to(s.xx, (2, 4, 4)) for s in (found, whole))
        assert not each[~tasks].any()
        np.testing.assert_array_equal(each[tasks], before[tasks])


LAW = settings(max_examples=30, deadline=None, derandomize=True, database=None)

SEEDS = st.integers(0, 10**6)


@LAW
@given(SEEDS, st.integers(2, 6), st.randoms(use_true_random=False))
def test_merged_parts_equal_the_whole(seed, count, random):
    rows = random_rows(seed)
    owner = np.random.default_rng(seed).integers(0, count, len(rows[1]))
    parts = [part_of(rows, owner == k) for k in range(count) if np.any(owner == k)]
    random.shuffle(parts)
    assert_same_statistics(reduce(add, parts), summarize(*rows))


@LAW
@given(SEEDS, st.randoms(use_true_random=False))
def test_any_grouping_of_the_sums_gives_the_whole(seed, random):
    rows = random_rows(seed)
    parts = [part_of(rows, np.arange(k, 40, 8)) for k in range(8)]
    while len(parts) > 1:
        a = parts.pop(random.randrange(len(parts)))
        b = parts.pop(random.randrange(len(parts)))
        parts.append(a + b)
    assert_same_statistics(parts[0], summarize(*rows))


@LAW
@given(SEEDS)
def test_rows_one_by_one_give_the_whole(seed):
    rows = random_rows(seed, n=12)
    parts = [part_of(rows, [i]) for i in range(12)]
    assert_same_statistics(reduce(add, parts), summarize(*rows))


@LAW
@given(SEEDS, st.integers(5, 35))
def test_sums_commute_to_the_bit(seed, cut):
    rows = random_rows(seed)
    a, b = part_of(rows, slice(None, cut)), part_of(rows, slice(cut, None))
    assert_same_bits(a + b, b + a)


@LAW
@given(SEEDS)
def test_sums_of_shared_rows_commute_and_stay_shared(seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(30, 4)), rng.normal(size=(30, 3))
    a, b = summarize(X[:11], Y[:11]), summarize(X[11:], Y[11:])
    assert (a + b).xx.shape == (1, 4, 4)
    assert_same_bits(a + b, b + a)
    assert_same_statistics(a + b, summarize(X, Y))


def test_shared_and_other_rows_add_up():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 2)), rng.normal(size=(20, 3))
    holes = Y.copy()
    holes[0, 1] = np.nan
    shared, other = summarize(X, Y), summarize(X + 1, holes)
    total = summarize(np.concatenate([X, X + 1]), np.concatenate([Y, holes]))
    assert_same_statistics(shared + other, total)
    assert_same_bits(shared + other, other + shared)


def test_shared_rows_of_other_tasks_add_up_by_name():
    X, Y = np.arange(6.0).reshape(3, 2), np.arange(9.0).reshape(3, 3) ** 2
    a = summarize_tasks(from_columns(X, Y[:, :2], tasks=("a", "b")))
    b = summarize_tasks(from_columns(X + 1, Y[:, 1:], tasks=("b", "c")))
    labels = ["a"] * 3 + ["b"] * 6 + ["c"] * 3
    rows = np.concatenate([X, X, X + 1, X + 1])
    targets = np.concatenate([Y[:, 0], Y[:, 1], Y[:, 1], Y[:, 2]])
    assert_same_statistics(a + b, summarize(rows, targets, labels))


def test_tasks_are_matched_by_name():
    X, y, task, weight = random_rows(1)
    names = np.array(["x", "y", "z"])
    ours = summarize(X[:20], y[:20], names[task[:20]], weight[:20])
    theirs = summarize(X[20:], y[20:], names[::-1][task[20:]], weight[20:])
    joined = np.concatenate([names[task[:20]], names[::-1][task[20:]]])
    assert_same_statistics(ours + theirs, summarize(X, y, joined, weight))


def test_a_task_that_one_side_lacks_is_kept_to_the_bit():
    a = summarize([[1.0], [2.5]], [1.0, 2.0], ["a", "a"])
    b = summarize([[7.1], [9.3]], [0.1, 0.7], ["b", "b"])
    both = a + b
    for name in MOMENTS:
        assert getattr(both, name)[0].tobytes() == getattr(a, name)[0].tobytes()
        assert getattr(both, name)[1].tobytes() == getattr(b, name)[0].tobytes()


def test_tasks_of_several_kinds_are_refused():
    a, b = summarize([[1.0]], [1.0], ["a"]), summarize([[1.0]], [1.0], [1])
    with pytest.raises(ValueError, match=r"labels of one kind: got \['int', 'str'\]"):
        a + b


def test_only_the_same_features_can_be_added():
    a, b = summarize([[1.0]], [1.0]), summarize([[1.0, 2.0]], [1.0])
    with pytest.raises(ValueError, match="over the same features: got 1  and 2"):
        a + b


def test_features_of_other_names_cannot_be_added():
    a = summarize_tasks(from_labels(np.eye(2), np.ones(2), [0, 0], features=["u", "v"]))
    b = summarize_tasks(from_labels(np.eye(2), np.ones(2), [0, 0], features=["v", "u"]))
    with pytest.raises(ValueError, match=r"\('u', 'v'\) and 2 \('v', 'u'\)"):
        a + b


@pytest.mark.parametrize("offset", [1e4, 1e8, 1e12])
@pytest.mark.parametrize("count", [2, 10])
def test_merging_loses_no_more_than_the_means_do(offset, count):
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(50, 3)) + offset, rng.normal(size=50) - offset
    parts = [summarize(X[k::count], y[k::count]) for k in range(count)]
    found = reduce(add, parts)
    moments = exact_moments(X, y)[1]
    # A mean near the offset is known to offset · 2⁻⁵³; moments of spread 1 inherit it.
    digits = 1e-13 + 20 * offset * np.finfo(float).eps
    np.testing.assert_allclose(found.xx[0], moments[:3, :3], atol=50 * digits)
    np.testing.assert_allclose(found.xy[0], moments[:3, 3], atol=50 * digits)


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
    stored = held.derive(xx=mapped)
    assert "on disk" not in held._repr_html_()
    once, twice = (s._repr_html_() for s in (stored, stored + stored))
    assert f"{mapped.nbytes / 2**20:.3g} MB" in once[once.index("on disk") :]
    assert f"{2 * mapped.nbytes / 2**20:.3g} MB" in twice[twice.index("on disk") :]


def test_tasks_keep_their_order_and_its_declaration():
    tasks = TaskOrder(["mar", "jan", "feb"], declared=["mar", "apr", "jan", "feb"])
    kept = large_tasks(tasks, [5, 1, 2], 2)
    assert kept == ("mar", "feb")
    assert declared_order(kept) == ("mar", "apr", "jan", "feb")


def test_one_row_is_always_enough():
    assert large_tasks(("b", "a"), np.array([1.0, 2.0]), 1) == ("b", "a")


def test_nothing_left_is_an_error():
    with pytest.raises(ValueError, match="min_rows=9 must leave some tasks: none of 2"):
        large_tasks(("a", "b"), [8, 3], 9)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "3", None])
def test_other_than_counts_are_refused(wrong):
    with pytest.raises(ValueError, match="min_rows must be a whole number from 1 on"):
        check_min_rows(wrong)


def test_numbers_of_numpy_count():
    assert check_min_rows(np.int64(3)) == 3


@pytest.mark.parametrize("used", [0, 1, 2, 6])
def test_products_read_only_rows_that_count(monkeypatch, used):
    monkeypatch.setattr(statistics_module, "LARGE", 0)
    rng = np.random.default_rng(used)
    X, y = rng.normal(size=(40, 6)), rng.normal(size=40)
    held = summarize(X, y, np.arange(40) % 3)
    P = np.zeros((6, 3))
    P[:used] = rng.normal(size=(used, 3))
    expected = np.einsum("ijk,ki->ji", held.xx, P)
    np.testing.assert_allclose(held.gram_product(P), expected, atol=1e-12)
