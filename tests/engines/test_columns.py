"""Hashes of rows decide the folds: by value, not by storage; even; stable."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from priormtl.engines.columns import assign_folds, hash_rows


def hash_values(column):
    return hash_rows({"": column})


TEXTS = ["", "a", "b", "ab", "ba", "ü", "a\0", None, "a"]


def test_whole_numbers_are_alike_in_any_type():
    expected = hash_values(pa.array([0, 1, -3, 100], pa.int64()))
    for kind in (pa.int8(), pa.int32(), pa.float32(), pa.float64(), pa.float16()):
        other = hash_values(pa.array([0, 1, -3, 100]).cast(kind))
        assert other.tolist() == expected.tolist()
    assert hash_values(pa.array([-0.0])) == hash_values(pa.array([0]))
    assert hash_values(pa.array([True])) == hash_values(pa.array([1]))


def test_texts_are_alike_in_any_type_and_chunks():
    expected = hash_values(pa.array(TEXTS)).tolist()
    assert len(set(expected)) == len(TEXTS) - 1
    for kind in (pa.large_string(), pa.string_view()):
        assert hash_values(pa.array(TEXTS).cast(kind)).tolist() == expected
    assert hash_values(pa.array(TEXTS).dictionary_encode()).tolist() == expected
    chunks = pa.chunked_array([TEXTS[:3], TEXTS[3:3], TEXTS[3:]], pa.string())
    assert hash_values(chunks).tolist() == expected
    assert hash_values(pa.array(["x", *TEXTS]).slice(1)).tolist() == expected


def test_gaps_are_alike():
    gaps = [pa.array([None], kind) for kind in (pa.null(), pa.int8(), pa.string())]
    found = {int(hash_values(gap)[0]) for gap in [*gaps, pa.array([float("nan")])]}
    assert len(found) == 1


def test_moments_are_alike_in_any_unit():
    day = datetime.date(2024, 2, 29)
    dates = pa.array([day], pa.date32())
    for kind in (pa.date64(), pa.timestamp("s"), pa.timestamp("ns")):
        assert hash_values(dates.cast(kind)) == hash_values(dates)


def test_the_order_of_columns_does_not_matter_but_their_names_do():
    a, b = pa.array([1, 2]), pa.array([2, 1])
    one = hash_rows({"a": a, "b": b})
    assert one.tolist() == hash_rows({"b": b, "a": a}).tolist()
    assert one.tolist() != hash_rows({"b": a, "a": b}).tolist()
    assert one.tolist() != hash_rows({"a": a, "b": b}, seed=1).tolist()


@pytest.mark.parametrize(
    "values",
    [
        np.arange(20_000),
        np.arange(20_000) * 0.1,
        np.arange(20_000) * 2**40,
        [f"user-{i}" for i in range(20_000)],
    ],
)
@pytest.mark.parametrize("folds", [2, 5, 8])
def test_folds_are_even(values, folds):
    counts = np.bincount(assign_folds({"id": pa.array(values)}, folds))
    assert len(counts) == folds
    assert np.abs(counts - 20_000 / folds).max() < 5 * np.sqrt(20_000 / folds)


def test_folds_stay_as_they_were():
    # Other numbers would deal the rows of saved statistics in another way.
    table = {"id": pa.array([1, 2, 3, 4]), "name": pa.array(["u", "v", "", None])}
    assert assign_folds(table, 1000).tolist() == [319, 396, 351, 989]


def test_values_without_an_order_of_bits_are_refused():
    with pytest.raises(ValueError, match="column 'x' must hold numbers, text or dates"):
        assign_folds({"x": pa.array([[1]])}, 2)
