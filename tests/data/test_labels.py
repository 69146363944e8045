"""Task labels: their order, their kinds, their names in files, and what is refused."""

import copy
import json
import pickle
import tracemalloc
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from priormtl.data import (
    declares_order,
    encode_labels,
    find_labels,
    from_plain,
    name_features,
    split_task_column,
    to_plain,
    unnamed_feature,
)
from priormtl.data.labels import (
    TaskOrder,
    declared_order,
    join_orders,
    keep_tasks,
    merge_tasks,
)

LAW = settings(max_examples=40, deadline=None, derandomize=True, database=None)

LABELS = st.one_of(
    st.lists(st.text(max_size=3), min_size=1),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1),
    st.lists(st.integers(0, 2**64 - 1), min_size=1),
    st.lists(st.floats(allow_nan=False), min_size=1),
    st.lists(st.dates(), min_size=1),
    st.lists(st.datetimes(), min_size=1),
    st.lists(st.tuples(st.integers(0, 2), st.text(max_size=1)), min_size=1),
)

CATEGORIES = ["unused", "low", "mid", "high"]

ROWS = ["high", "low", "low", "mid"]

CATEGORICALS = {
    "pandas": pd.Series(ROWS, dtype=pd.CategoricalDtype(CATEGORIES)),
    "pandas ordered": pd.Series(ROWS, dtype=pd.CategoricalDtype(CATEGORIES, True)),
    "pandas index": pd.CategoricalIndex(ROWS, categories=CATEGORIES),
    "pandas array": pd.Categorical(ROWS, categories=CATEGORIES),
    "polars enum": pl.Series(ROWS, dtype=pl.Enum(CATEGORIES)),
    "pyarrow": pa.chunked_array(
        [pa.DictionaryArray.from_arrays([3, 1, 1, 2], CATEGORIES, ordered=True)]
    ),
    "pyarrow array": pa.DictionaryArray.from_arrays(
        [3, 1, 1, 2], CATEGORIES, ordered=True
    ),
}

CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "numpy": np.array,
    "objects": lambda items: np.array(items, dtype=object),
    "pandas": pd.Series,
    "pandas objects": lambda items: pd.Series(items, dtype=object),
    "pandas index": pd.Index,
    "polars": pl.Series,
    "pyarrow": lambda items: pa.chunked_array([items]),
    "pyarrow array": pa.array,
}


def decode(codes, tasks):
    return [tasks[code] for code in codes]


@LAW
@given(LABELS)
def test_codes_point_at_each_rows_label_among_the_sorted_ones(labels):
    codes, tasks = encode_labels(labels, len(labels))
    assert list(tasks) == sorted(set(labels))
    assert decode(codes, tasks) == labels
    assert codes.dtype == np.intp


@LAW
@given(LABELS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(labels, random):
    shuffled = random.sample(labels, len(labels))
    assert (
        encode_labels(labels, len(labels))[1] == encode_labels(shuffled, len(labels))[1]
    )


@LAW
@given(LABELS)
def test_known_labels_are_found_where_they_stand(labels):
    codes, tasks = encode_labels(labels, len(labels))
    np.testing.assert_array_equal(find_labels(labels, tasks, len(labels)), codes)
    backwards = find_labels(labels, tasks[::-1], len(labels))
    np.testing.assert_array_equal(backwards, len(tasks) - 1 - codes)


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
@pytest.mark.parametrize(
    ("labels", "tasks"),
    [
        (["b", "a", "b"], ("a", "b")),
        ([10, 9, 10], (9, 10)),
        ([0.5, -1.0, 0.5], (-1, 0.5)),
    ],
    ids=["text", "integers", "floats"],
)
def test_every_container_gives_the_same_tasks(container, labels, tasks):
    codes, found = encode_labels(container(labels), 3)
    assert found == tasks
    assert [type(task) for task in found] == [type(labels[0])] * 2
    assert codes.tolist() == [1, 0, 1]


@pytest.mark.parametrize("labels", CATEGORICALS.values(), ids=CATEGORICALS)
def test_categories_keep_their_order_and_unused_ones_are_dropped(labels):
    codes, tasks = encode_labels(labels, 4)
    assert tasks == ("low", "mid", "high")
    assert codes.tolist() == [2, 0, 0, 1]


STORED = {
    "polars": lambda rows: pl.Series(rows, dtype=pl.Categorical),
    "pyarrow": lambda rows: pa.array(rows).dictionary_encode(),
    "pyarrow chunks": lambda rows: pa.chunked_array([rows]).dictionary_encode(),
}


@pytest.mark.parametrize("store", STORED.values(), ids=STORED)
def test_a_way_to_store_texts_is_no_order(store):
    for rows in (ROWS, ROWS[::-1]):
        codes, tasks = encode_labels(store(rows), 4)
        assert tasks == ("high", "low", "mid")
        assert decode(codes, tasks) == rows


@pytest.mark.parametrize("ordered", [False, True])
def test_chunks_of_one_column_may_have_other_dictionaries(ordered):
    parts = [([1, 1, 0], ["b", "c"]), ([0, 1], ["a", "b"])]
    chunks = [pa.DictionaryArray.from_arrays(*part, ordered=ordered) for part in parts]
    codes, tasks = encode_labels(pa.chunked_array(chunks), 5)
    assert tasks == ("a", "b", "c")
    assert codes.tolist() == [2, 2, 1, 0, 1]


def test_arrow_tables_made_by_pandas_have_its_order():
    month = pd.Categorical(["feb", "jan"], categories=["jan", "feb"])
    table = pa.Table.from_pandas(pd.DataFrame({"month": month, "x": [1.0, 2.0]}))
    assert declares_order(table.schema, "month")
    assert not declares_order(table.schema, "x")
    _, labels = split_task_column(table, "month")
    assert encode_labels(labels, 2)[1] == ("jan", "feb")


def test_missing_labels_are_counted_among_all():
    with pytest.raises(ValueError, match="1 of 3 are"):
        encode_labels(np.array([1.0, np.nan, 2.0]), 3)


def test_categories_may_be_numbers():
    labels = pd.Series([1, 3, 1], dtype=pd.CategoricalDtype([3, 2, 1]))
    codes, tasks = encode_labels(labels, 3)
    assert tasks == (3, 1)
    assert codes.tolist() == [1, 0, 1]


def test_categories_may_be_of_several_kinds_since_they_have_an_order():
    labels = pd.Series([1, "a", 1], dtype=pd.CategoricalDtype(["a", 1]))
    codes, tasks = encode_labels(labels, 3)
    assert tasks == ("a", 1)
    assert codes.tolist() == [1, 0, 1]


@pytest.mark.parametrize("labels", CATEGORICALS.values(), ids=CATEGORICALS)
def test_categories_are_found_among_known_tasks(labels):
    codes = find_labels(labels, ("high", "low", "mid"), 4)
    assert codes.tolist() == [0, 1, 1, 2]


DATES = {
    "dates": [date(2024, 2, 1), date(2023, 5, 1)],
    "datetimes": [datetime(2024, 2, 1, 3), datetime(2023, 5, 1)],
    "time zones": [datetime(2024, 2, 1, tzinfo=UTC), datetime(2023, 5, 1, tzinfo=UTC)],
    "numpy": np.array(["2024-02-01", "2023-05-01"], dtype="M8[D]"),
    "pandas": pd.Series(pd.to_datetime(["2024-02-01", "2023-05-01"])),
    "pandas utc": pd.Series(pd.to_datetime(["2024-02-01", "2023-05-01"], utc=True)),
    "polars": pl.Series([date(2024, 2, 1), date(2023, 5, 1)]),
    "pyarrow": pa.chunked_array([[date(2024, 2, 1), date(2023, 5, 1)]]),
}


@pytest.mark.parametrize("labels", DATES.values(), ids=DATES)
def test_dates_are_in_order_of_time(labels):
    codes, tasks = encode_labels(labels, 2)
    assert codes.tolist() == [1, 0]
    assert [task.year for task in tasks] == [2023, 2024]
    assert find_labels(labels, tasks, 2).tolist() == [1, 0]


def test_numbers_sort_as_numbers_and_text_as_text():
    assert encode_labels([10, 9, 2], 3)[1] == (2, 9, 10)
    assert encode_labels(["10", "9", "2"], 3)[1] == ("10", "2", "9")


def test_whole_numbers_and_floats_are_one_kind():
    assert encode_labels([1, 1.0, 0.5], 3)[1] == (0.5, 1.0)


@pytest.mark.parametrize(
    "labels",
    [[2**63, 2**63 + 1, -1], [2**53, 2**53 + 1, 0.5], [2**70, 2**70 + 1, 1]],
    ids=["unsigned", "float", "long"],
)
def test_different_large_numbers_stay_different(labels):
    assert len(encode_labels(labels, 3)[1]) == 3


def test_labels_that_differ_by_a_null_character_stay_different():
    assert encode_labels(["a\0", "a", "a\0"], 3)[1] == ("a", "a\0")


def test_one_long_label_does_not_make_all_rows_long():
    labels = ["x" * 100_000] + ["a"] * 499
    tracemalloc.start()
    tasks = encode_labels(labels, 500)[1]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(tasks) == 2
    assert peak < 20e6


def test_decimals_are_labels():
    assert encode_labels([Decimal("2.5"), Decimal(1)], 2)[1] == (1, Decimal("2.5"))


@pytest.mark.parametrize(
    "labels", [[1, "1"], ["a", 1.5], [(1,), "a"], [date(2020, 1, 1), 3]], ids=repr
)
def test_labels_of_several_kinds_are_refused(labels):
    with pytest.raises(ValueError, match="one kind to be sorted: got"):
        encode_labels(labels, 2)


MISSING = {
    "none": ["a", None],
    "nan": ["a", float("nan")],
    "numbers": [1.0, float("nan")],
    "numpy": np.array([1.0, np.nan]),
    "dates": np.array(["2020-01-01", "NaT"], dtype="M8[us]"),
    "pandas": pd.Series(["a", None]),
    "pandas objects": pd.Series(["a", np.nan], dtype=object),
    "pandas NA": ["a", pd.NA],
    "pandas Int64": pd.Series([1, None], dtype="Int64"),
    "pandas dates": pd.Series(pd.to_datetime(["2020-01-01", None])),
    "pandas categorical": pd.Series(pd.Categorical(["a", None])),
    "polars": pl.Series(["a", None]),
    "polars numbers": pl.Series([1, None]),
    "polars categorical": pl.Series(["a", None], dtype=pl.Categorical),
    "polars enum": pl.Series(["a", None], dtype=pl.Enum(["a"])),
    "pyarrow": pa.chunked_array([["a", None]]),
    "pyarrow nulls": pa.nulls(2),
    "pyarrow NaN": pa.array([1.0, float("nan")]),
    "pyarrow index": pa.DictionaryArray.from_arrays(
        pa.array([0, None]), ["a"], ordered=True
    ),
    "pyarrow category": pa.DictionaryArray.from_arrays([0, 1], ["a", None]),
}


@pytest.mark.parametrize("labels", MISSING.values(), ids=MISSING)
def test_missing_labels_are_refused(labels):
    with pytest.raises(ValueError, match="must not hold missing labels"):
        encode_labels(labels, 2)


@pytest.mark.parametrize(
    "labels", [["a"], ["a"] * 3, np.zeros(5), CATEGORICALS["pandas"]]
)
def test_one_label_per_row_is_needed(labels):
    with pytest.raises(ValueError, match=f"got {len(labels)} labels for 2 rows"):
        encode_labels(labels, 2)
    with pytest.raises(ValueError, match=f"got {len(labels)} labels for 2 rows"):
        find_labels(labels, ("a",), 2)


@pytest.mark.parametrize("labels", ["school", 5, None, np.array(3)], ids=repr)
def test_one_label_for_all_rows_is_refused(labels):
    with pytest.raises(ValueError, match=r"task must be one label per row .* column"):
        encode_labels(labels, 1)


@pytest.mark.parametrize(
    ("label", "tasks"),
    [
        ("b", ("a", "b")),
        (np.str_("b"), ("a", "b")),
        ("b\0", ("b", "b\0")),
        (2, (1, 2)),
        (np.int64(2), (1, 2)),
        (2.0, (1, 2)),
        (True, (False, True)),
        (date(2020, 2, 1), (date(2020, 1, 1), date(2020, 2, 1))),
        (np.datetime64("2020-02-01"), (datetime(2020, 1, 1), datetime(2020, 2, 1))),
    ],
    ids=repr,
)
def test_one_known_label_is_that_of_all_rows(label, tasks):
    assert find_labels(label, tasks, 3).tolist() == [1, 1, 1]
    assert find_labels(label, tasks, 1).tolist() == [1]


def test_one_label_must_be_known_and_there():
    with pytest.raises(ValueError, match=r"unknown task 'c'; known: 'a', 'b'\."):
        find_labels("c", ("a", "b"), 3)
    with pytest.raises(ValueError, match="must not hold missing labels"):
        find_labels(float("nan"), (1.0, 2.0), 3)
    with pytest.raises(ValueError, match="got 2 labels for 3 rows"):
        find_labels(("a", 1), (("a", 1), ("b", 2)), 3)  # a label of parts is labels


@pytest.mark.parametrize("labels", [np.zeros((2, 2)), np.array([["a"], ["b"]])])
def test_tables_of_labels_are_refused(labels):
    with pytest.raises(ValueError, match="must be one-dimensional: got shape"):
        encode_labels(labels, 2)


def test_labels_that_cannot_be_names_are_refused():
    with pytest.raises(ValueError, match="task"):
        encode_labels([[1], [2]], 2)


def test_an_unknown_label_is_named_with_the_known_ones():
    message = r"unknown task 'nort'; known: 'north', 'south'. Did you mean 'north'\?"
    with pytest.raises(ValueError, match=message):
        find_labels(["north", "nort"], ("north", "south"), 2)


def test_a_label_of_another_type_is_unknown():
    with pytest.raises(
        ValueError, match=r"unknown task '1'; known: 1, 2. Did you mean 1"
    ):
        find_labels(["1"], (1, 2), 1)


def test_no_rows_have_no_labels():
    codes, tasks = encode_labels([], 0)
    assert tasks == ()
    assert len(codes) == len(find_labels([], ("a",), 0)) == 0


MONTHS = ("jan", "feb", "mar", "apr", "may")


@st.composite
def parts_of_a_year(draw):
    """Tasks of some parts, each with the categories of the whole."""
    chosen = draw(st.lists(st.sets(st.sampled_from(MONTHS)), min_size=1, max_size=4))
    return [TaskOrder([m for m in MONTHS if m in some], MONTHS) for some in chosen]


@LAW
@given(parts_of_a_year())
def test_parts_of_one_categorical_keep_its_order(parts):
    merged = reduce(merge_tasks, parts)
    used = set().union(*parts)
    assert merged == tuple(month for month in MONTHS if month in used)
    assert declared_order(merged) == MONTHS
    assert reduce(merge_tasks, reversed(parts)) == merged


@LAW
@given(st.lists(st.sets(st.integers(0, 9)), min_size=1, max_size=4))
def test_sorted_labels_merge_into_sorted_labels(parts):
    merged = reduce(merge_tasks, [tuple(sorted(part)) for part in parts])
    assert merged == tuple(sorted(set().union(*parts)))
    joined = join_orders(*(tuple(sorted(part)) for part in parts))
    assert joined == merged


@LAW
@given(
    st.permutations(range(6)), st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5))
)
def test_joined_orders_keep_both(order, some, others):
    a = tuple(i for i in order if i in some)
    b = tuple(i for i in order if i in others)
    joined = join_orders(a, b)
    assert tuple(i for i in joined if i in some) == a
    assert tuple(i for i in joined if i in others) == b
    assert join_orders(b, a) == joined


def test_one_side_may_not_know_the_order():
    known = TaskOrder(["feb"], MONTHS)
    assert merge_tasks(known, ("jan", "mar")) == ("jan", "feb", "mar")
    assert merge_tasks(("jan", "mar"), known) == ("jan", "feb", "mar")
    assert set(merge_tasks(known, ("dec",))) == {"dec", "feb"}


def test_orders_that_contradict_each_other_are_refused():
    with pytest.raises(ValueError, match=r"\['a', 'b', 'c'\] and \['b', 'a'\]"):
        join_orders(("a", "b", "c"), ("b", "a"))
    with pytest.raises(ValueError, match="labels of one kind"):
        join_orders(("a", "b"), (1, 2))


def test_copies_remember():
    order = TaskOrder(["feb"], MONTHS)
    for twin in (copy.deepcopy(order), pickle.loads(pickle.dumps(order))):
        assert twin == ("feb",)
        assert declared_order(twin) == MONTHS
    assert declared_order(keep_tasks(order, [])) == MONTHS
    assert declared_order(keep_tasks(("feb",), ["feb"])) is None


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


LABELS_NAMES = st.one_of(
    st.text(),
    st.integers(),
    st.floats(allow_nan=False),
    st.booleans(),
    st.dates(),
    st.datetimes(),
    st.just(datetime(2024, 2, 29, 12, tzinfo=UTC)),
)


@LAW
@given(st.lists(LABELS_NAMES))
def test_labels_come_back_with_their_types(labels):
    found = from_plain(json.loads(json.dumps(to_plain(labels))))
    assert found == tuple(labels)
    assert [type(label) for label in found] == [type(label) for label in labels]


def test_a_date_is_not_a_datetime():
    day = date(2024, 1, 1)
    assert type(from_plain(to_plain([day]))[0]) is date


@pytest.mark.parametrize("label", [(1, 2), None, b"a", 1j, frozenset()], ids=repr)
def test_other_labels_cannot_be_saved(label):
    with pytest.raises(ValueError, match="must be text, numbers or dates to be saved"):
        to_plain(["a", label])


@pytest.mark.parametrize(
    "value", [None, [], {}, {"date": "2024-01-01", "x": 1}, {"code": "1"}], ids=repr
)
def test_values_that_are_no_labels_are_refused(value):
    with pytest.raises(TypeError, match="not a label"):
        from_plain([value])


@pytest.mark.parametrize("value", ["date", "2024-13-01", ""])
def test_dates_that_do_not_exist_are_refused(value):
    with pytest.raises(ValueError, match=r"isoformat|month"):
        from_plain([{"date": value}])


@pytest.mark.parametrize("values", [None, "ab", {"a": 1}, 3], ids=repr)
def test_labels_must_be_a_list(values):
    with pytest.raises(TypeError, match="labels must be a list"):
        from_plain(values)


def test_features_without_names_are_numbered_as_by_scikit_learn():
    scaler = StandardScaler().fit([[0.0, 1.0], [1.0, 0.0]])
    assert name_features(None, 2) == tuple(scaler.get_feature_names_out())
    assert unnamed_feature(7) == "x7"
    assert name_features(None, 0) == ()


def test_names_that_are_known_stay():
    assert name_features(("é", "b"), 2) == ("é", "b")
