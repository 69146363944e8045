"""TaskStatistics: exact merging, large offsets, weights, chunks, sparsity, files."""

from datetime import date, datetime
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from instances import LAYOUTS, plain_rows, random_tasks
from priormtl.archive import write_archive
from priormtl.data import (
    TaskStatistics,
    from_columns,
    from_labels,
    merge_tasks,
    products,
    statistics,
    summarize,
    summarize_tasks,
)
from priormtl.exceptions import ModelFileError

LAW = settings(max_examples=30, deadline=None, derandomize=True, database=None)
SEEDS = st.integers(0, 10**6)
ARRAYS = ("weight", "x_mean", "y_mean", "xx", "xy", "yy")


def random_rows(seed, n=40, d=3, m=3):
    """X, y, task labels and weights; every task has rows."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)) + 3.0, rng.normal(size=n) - 2.0
    task = np.concatenate([np.arange(m), rng.integers(0, m, n - m)])
    return X, y, task, rng.uniform(0.5, 2.0, n)


def part_of(rows, kept):
    X, y, task, weight = (values[kept] for values in rows)
    return summarize(X, y, task, weight)


def assert_same(a, b, rtol=1e-12):
    assert a.tasks == b.tasks
    assert a.features == b.features
    for name in ARRAYS:
        mine, other = getattr(a, name), getattr(b, name)
        mine, other = np.broadcast_arrays(mine, other)
        scale = np.abs(other).max(initial=0.0)
        np.testing.assert_allclose(mine, other, rtol=rtol, atol=rtol * scale)


def assert_same_bits(a, b):
    assert a.tasks == b.tasks
    assert a.features == b.features
    for name in ARRAYS:
        mine, other = getattr(a, name), getattr(b, name)
        assert mine.shape == other.shape
        assert mine.tobytes() == other.tobytes()


def exact_moments(X, y):
    """Means and centred moments in rational numbers."""
    columns = [[Fraction(v) for v in column] for column in (*X.T, y)]
    means = [sum(column) / len(y) for column in columns]
    centred = [
        [value - mean for value in column]
        for column, mean in zip(columns, means, strict=True)
    ]
    moments = [
        [float(sum(u * v for u, v in zip(a, b, strict=True))) for b in centred]
        for a in centred
    ]
    return np.array([float(mean) for mean in means]), np.array(moments)


def naive_moments(X, y, weight):
    """Weight, means and centred moments straight from the definition."""
    x_mean = np.average(X, axis=0, weights=weight)
    y_mean = np.average(y, weights=weight)
    A, b = X - x_mean, y - y_mean
    W = weight[:, np.newaxis]
    return (
        weight.sum(),
        x_mean,
        y_mean,
        A.T @ (W * A),
        A.T @ (weight * b),
        b @ (weight * b),
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_statistics_are_what_their_names_say(layout):
    data = random_tasks(layout)
    found = summarize_tasks(data)
    for i, rows in enumerate(plain_rows(data)):
        for name, expected in zip(ARRAYS, naive_moments(*rows), strict=True):
            values = getattr(found, name)
            mine = values[min(i, len(values) - 1)]
            np.testing.assert_allclose(mine, expected, rtol=1e-10, atol=1e-10)


@LAW
@given(SEEDS, st.integers(2, 6), st.randoms(use_true_random=False))
def test_merged_parts_equal_the_whole(seed, count, random):
    rows = random_rows(seed)
    owner = np.random.default_rng(seed).integers(0, count, len(rows[1]))
    parts = [part_of(rows, owner == k) for k in range(count) if np.any(owner == k)]
    random.shuffle(parts)
    assert_same(reduce(add, parts), summarize(*rows))


@LAW
@given(SEEDS, st.randoms(use_true_random=False))
def test_any_grouping_of_the_sums_gives_the_whole(seed, random):
    rows = random_rows(seed)
    parts = [part_of(rows, np.arange(k, 40, 8)) for k in range(8)]
    while len(parts) > 1:
        a = parts.pop(random.randrange(len(parts)))
        b = parts.pop(random.randrange(len(parts)))
        parts.append(a + b)
    assert_same(parts[0], summarize(*rows))


@LAW
@given(SEEDS)
def test_rows_one_by_one_give_the_whole(seed):
    rows = random_rows(seed, n=12)
    parts = [part_of(rows, [i]) for i in range(12)]
    assert_same(reduce(add, parts), summarize(*rows))


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
    assert_same(a + b, summarize(X, Y))


def test_shared_and_other_rows_add_up():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 2)), rng.normal(size=(20, 3))
    holes = Y.copy()
    holes[0, 1] = np.nan
    shared, other = summarize(X, Y), summarize(X + 1, holes)
    total = summarize(np.concatenate([X, X + 1]), np.concatenate([Y, holes]))
    assert_same(shared + other, total)
    assert_same_bits(shared + other, other + shared)


def test_shared_rows_of_other_tasks_add_up_by_name():
    X, Y = np.arange(6.0).reshape(3, 2), np.arange(9.0).reshape(3, 3) ** 2
    a = summarize_tasks(from_columns(X, Y[:, :2], tasks=("a", "b")))
    b = summarize_tasks(from_columns(X + 1, Y[:, 1:], tasks=("b", "c")))
    labels = ["a"] * 3 + ["b"] * 6 + ["c"] * 3
    rows = np.concatenate([X, X, X + 1, X + 1])
    targets = np.concatenate([Y[:, 0], Y[:, 1], Y[:, 1], Y[:, 2]])
    assert_same(a + b, summarize(rows, targets, labels))


@pytest.mark.parametrize(
    ("a", "b", "union"),
    [
        (("a", "b"), ("a", "b"), ("a", "b")),
        (("b", "a"), ("b", "a"), ("b", "a")),
        (("b", "a"), ("a", "b"), ("a", "b")),
        (("c", "a", "b"), ("b", "a"), ("c", "a", "b")),
        (("c", "a"), ("b",), ("a", "b", "c")),
        ((3, 1), (2, 10), (1, 2, 3, 10)),
        (("a",), (), ("a",)),
    ],
)
def test_the_longer_order_of_tasks_wins_where_it_holds_all(a, b, union):
    assert merge_tasks(a, b) == merge_tasks(b, a) == union


def test_tasks_are_matched_by_name():
    X, y, task, weight = random_rows(1)
    names = np.array(["x", "y", "z"])
    ours = summarize(X[:20], y[:20], names[task[:20]], weight[:20])
    theirs = summarize(X[20:], y[20:], names[::-1][task[20:]], weight[20:])
    joined = np.concatenate([names[task[:20]], names[::-1][task[20:]]])
    assert_same(ours + theirs, summarize(X, y, joined, weight))


def test_a_task_that_one_side_lacks_is_kept_to_the_bit():
    a = summarize([[1.0], [2.5]], [1.0, 2.0], ["a", "a"])
    b = summarize([[7.1], [9.3]], [0.1, 0.7], ["b", "b"])
    both = a + b
    for name in ARRAYS:
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


def test_only_statistics_can_be_added():
    with pytest.raises(TypeError, match="unsupported operand"):
        summarize([[1.0]], [1.0]) + 1


@pytest.mark.parametrize("offset", [0.0, 1e8, -1e8, 1e12])
def test_large_offsets_keep_all_digits(offset):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(50, 3)) + offset, rng.normal(size=50) - offset
    means, moments = exact_moments(X, y)
    found = summarize(X, y)
    np.testing.assert_allclose(found.x_mean[0], means[:3], rtol=1e-15, atol=1e-16)
    np.testing.assert_allclose(found.y_mean[0], means[3], rtol=1e-15)
    np.testing.assert_allclose(found.xx[0], moments[:3, :3], rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(found.xy[0], moments[:3, 3], rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(found.yy[0], moments[3, 3], rtol=1e-12)


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


@pytest.mark.parametrize("scale", [1e-140, 1e-100, 1e50, 1e99])
def test_moments_of_extreme_scales_are_finite_and_scale(scale):
    X, y, task, weight = random_rows(2)
    found = summarize(X * scale, y, task, weight)
    plain = summarize(X, y, task, weight)
    np.testing.assert_allclose(found.xx / scale / scale, plain.xx, rtol=1e-10)
    np.testing.assert_allclose(found.xy / scale, plain.xy, rtol=1e-10, atol=1e-12)


@LAW
@given(SEEDS)
def test_weight_two_is_a_row_twice(seed):
    X, y, task, _ = random_rows(seed)
    times = np.random.default_rng(seed).integers(1, 4, len(y))
    repeated = [np.repeat(values, times, axis=0) for values in (X, y, task)]
    assert_same(summarize(X, y, task, times), summarize(*repeated))


@LAW
@given(SEEDS)
def test_weight_zero_is_no_row(seed):
    X, y, task, weight = random_rows(seed)
    kept = np.random.default_rng(seed).random(len(y)) < 0.6
    kept[:3] = True
    zeroed = summarize(X, y, task, np.where(kept, weight, 0.0))
    assert_same_bits(zeroed, part_of((X, y, task, weight), kept))


def test_weight_zero_is_no_row_of_a_shared_table():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(9, 2)), rng.normal(size=(9, 3))
    weight = np.array([1.0, 0.0, 2.0] * 3)
    kept = weight > 0
    found = summarize(X, Y, sample_weight=weight)
    assert_same_bits(found, summarize(X[kept], Y[kept], sample_weight=weight[kept]))


@pytest.mark.parametrize("factor", [1e-300, 1e-10, 1e10, 1e99])
def test_weights_of_any_size_scale_the_moments(factor):
    X, y, task, weight = random_rows(6)
    found, plain = summarize(X, y, task, factor * weight), summarize(X, y, task, weight)
    np.testing.assert_allclose(found.x_mean, plain.x_mean, rtol=1e-12)
    np.testing.assert_allclose(found.xx / factor, plain.xx, rtol=1e-11)


@LAW
@given(SEEDS)
def test_the_order_of_rows_does_not_matter(seed):
    rows = random_rows(seed)
    order = np.random.default_rng(seed).permutation(len(rows[1]))
    assert_same(part_of(rows, order), summarize(*rows))


@pytest.mark.parametrize("cells", [1, 7, 10, 64])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_chunks_do_not_matter(layout, cells, monkeypatch):
    data = random_tasks(layout, n=20)
    whole = summarize_tasks(data)
    for module in (products, statistics):
        monkeypatch.setattr(module, "CHUNK_CELLS", cells)
    assert_same(summarize_tasks(data), whole, rtol=1e-11)


def test_one_row_has_no_spread():
    found = summarize([[3.0, 4.0]], [5.0])
    assert found.weight.tolist() == [1.0]
    assert found.x_mean.tolist() == [[3.0, 4.0]]
    assert not found.xx.any()
    assert not found.xy.any()
    assert not found.yy.any()


@pytest.mark.parametrize("value", [0.1, 1e8 + 0.1, -1e100])
def test_a_constant_column_has_no_spread(value):
    X, y = np.full((1000, 1), value), np.arange(1000.0)
    found = summarize(X, y)
    assert np.sqrt(found.xx[0, 0, 0] / 1000) <= 1e-15 * abs(value)


def test_the_same_row_many_times_has_no_spread():
    found = summarize(np.tile([[0.1, 0.7]], (10**5, 1)), np.full(10**5, 0.3))
    np.testing.assert_allclose(found.xx, 0.0, atol=1e-25)
    np.testing.assert_allclose(found.yy, 0.0, atol=1e-25)


def test_a_shared_table_has_one_gram_matrix_equal_to_each_tasks():
    rng = np.random.default_rng(7)
    X, Y = rng.normal(size=(20, 4)), rng.normal(size=(20, 3))
    weight = rng.uniform(0.5, 2.0, 20)
    shared = summarize(X, Y, sample_weight=weight)
    assert shared.xx.shape == (1, 4, 4)
    assert shared.is_shared
    stacked = summarize(
        np.tile(X, (3, 1)), Y.T.ravel(), np.repeat([0, 1, 2], 20), np.tile(weight, 3)
    )
    assert stacked.xx.shape == (3, 4, 4)
    assert not stacked.is_shared
    assert_same(shared, stacked)


def test_gaps_and_weights_per_cell_need_a_gram_matrix_per_task():
    data = random_tasks("gaps")
    assert summarize_tasks(data).xx.shape == (3, 4, 4)


def test_targets_not_measured_are_absent_rows():
    rng = np.random.default_rng(8)
    X, Y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    Y[rng.random(Y.shape) < 0.4] = np.nan
    rows, tasks = np.nonzero(~np.isnan(Y))
    assert_same(summarize(X, Y), summarize(X[rows], Y[rows, tasks], tasks))


@pytest.mark.parametrize("seed", range(3))
def test_sparse_rows_give_the_statistics_of_dense_ones(seed):
    X, y, task, weight = random_rows(seed)
    X = np.where(np.random.default_rng(seed).random(X.shape) < 0.5, X, 0.0)
    sparse = summarize(csr_array(X), y, task, weight)
    assert_same(sparse, summarize(X, y, task, weight))


def test_sparse_rows_are_made_dense_a_chunk_at_a_time(monkeypatch):
    sizes = []
    to_dense = csr_array.toarray

    def toarray(self, *args, **kwargs):
        sizes.append(np.prod(self.shape))
        return to_dense(self, *args, **kwargs)

    for module in (products, statistics):
        monkeypatch.setattr(module, "CHUNK_CELLS", 50)
    monkeypatch.setattr(csr_array, "toarray", toarray)
    X = csr_array(np.eye(200)[:, :5])
    summarize(X, np.arange(200.0))
    assert max(sizes) == 50


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
