"""Partials merge exactly, in any order, and survive serialisation."""

from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_tables import (
    MOMENTS,
    assert_same_columns,
    mixed_frame,
    summarize_naively,
    to_arrow,
)
from priormtl import archive
from priormtl.engines import Schema, from_bytes, summarize_batch, to_bytes
from priormtl.exceptions import ModelFileError

FEATURES = ("size", "colour", "count")


def schema(**others):
    return Schema("school", "score", "w", FEATURES, **others)


def pieces(table, cuts):
    ends = [0, *sorted(cuts), table.num_rows]
    return [table.slice(a, b - a) for a, b in pairwise(ends)]


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(
    seed=st.integers(0, 5),
    cuts=st.lists(st.integers(0, 120), min_size=1, max_size=8),
    missing=st.sampled_from(["drop", "mean"]),
    random=st.randoms(use_true_random=False),
)
def test_any_batches_in_any_order_give_the_whole(seed, cuts, missing, random):
    frame = mixed_frame(120, seed, gaps=0.15)
    parts = [
        summarize_batch(schema(missing=missing), piece)
        for piece in pieces(to_arrow(frame), cuts)
    ]
    random.shuffle(parts)
    found = reduce(add, parts).finish()
    assert_same_columns(found.whole, summarize_naively(frame, missing))
    assert found.rows == 120


def test_row_by_row():
    frame = mixed_frame(60, gaps=0.3)
    table = to_arrow(frame)
    parts = [
        summarize_batch(schema(missing="mean"), table.slice(i, 1)) for i in range(60)
    ]
    assert_same_columns(
        reduce(add, parts).finish().whole, summarize_naively(frame, "mean")
    )


@pytest.mark.parametrize("missing", ["drop", "mean"])
def test_sums_are_associative_and_commute(missing):
    table = to_arrow(mixed_frame(90, gaps=0.2))
    a, b, c = (
        summarize_batch(schema(missing=missing, folds=3), piece)
        for piece in pieces(table, [20, 50])
    )
    one, other, third = (a + b) + c, a + (b + c), (c + a) + b
    for part, twin, third_part in zip(
        one.finish().parts, other.finish().parts, third.finish().parts, strict=True
    ):
        assert_same_columns(part, twin, rtol=1e-12)
        assert_same_columns(part, third_part, rtol=1e-12)
    assert one.finish().counts == other.finish().counts


@pytest.mark.parametrize("missing", ["drop", "mean"])
@pytest.mark.parametrize("key", [None, "id"])
def test_folds_add_up_to_the_whole_and_do_not_depend_on_batches(missing, key):
    frame = mixed_frame(gaps=0.1)
    folded = schema(missing=missing, folds=4, key=key)
    table = to_arrow(frame)
    once = summarize_batch(folded, table).finish()
    cut = reduce(add, [summarize_batch(folded, p) for p in pieces(table, [7, 90])])
    shuffled = to_arrow(frame.sample(frac=1.0, random_state=1))
    assert len(once.parts) == 4
    assert_same_columns(once.whole, summarize_naively(frame, missing))
    other = summarize_batch(folded, shuffled).finish()
    for k, part in enumerate(once.parts):
        assert_same_columns(part, cut.finish().parts[k])
        assert_same_columns(part, other.parts[k])


def test_means_far_from_zero_keep_their_digits():
    rng = np.random.default_rng(0)
    x = 1e8 + rng.standard_normal(300)
    gaps = rng.uniform(size=300) < 0.3
    filled = np.where(gaps, x[~gaps].mean(), x)
    table = pa.table(
        {"x": pa.array(x, mask=gaps), "y": rng.standard_normal(300), "t": [0] * 300}
    )
    parts = [
        summarize_batch(Schema("t", "y", missing="mean"), piece)
        for piece in pieces(table, range(10, 300, 10))
    ]
    found = reduce(add, parts).finish().whole
    expected = ((filled - filled.mean()) ** 2).sum()
    assert found.xx[0, 0, 0] == pytest.approx(expected, rel=1e-7)


def test_a_column_all_gaps_on_one_side():
    rows = {"x": [None, None, 2.0, 4.0], "y": [1.0, 2.0, 3.0, 5.0], "t": [1, 1, 1, 2]}
    table = pa.table(rows)
    filling = Schema("t", "y", missing="mean")
    parts = [summarize_batch(filling, piece) for piece in pieces(table, [2])]
    found = (parts[0] + parts[1]).finish().whole
    np.testing.assert_allclose(found.x_mean, [[8.0 / 3.0], [4.0]])


@pytest.mark.parametrize("values", [[1.0, 3.0], ["u", "v"]])
def test_a_column_of_no_type_may_be_of_any(values):
    y, t = [1.0, 2.0], [1, 1]
    known = pa.table({"x": values, "y": y, "t": t})
    gaps = pa.table({"x": pa.nulls(2), "y": y, "t": t})
    a, b = (
        summarize_batch(Schema("t", "y", missing="mean"), table)
        for table in (known, gaps)
    )
    expected = a.finish().whole.x_mean
    np.testing.assert_allclose((a + b).finish().whole.x_mean, expected)
    np.testing.assert_allclose((b + a).finish().whole.x_mean, expected)


def test_only_like_partials_can_be_added():
    table = to_arrow(mixed_frame())
    plain = summarize_batch(schema(), table)
    with pytest.raises(ValueError, match="over the same folds: got 1 and 2"):
        plain + summarize_batch(schema(folds=2), table)
    fewer = summarize_batch(Schema("school", "score", features=["size"]), table)
    with pytest.raises(ValueError, match=r"over the same columns: got \['colour', 'co"):
        plain + fewer
    other = table.set_column(0, "size", pa.array(["big"] * 200))
    with pytest.raises(ValueError, match="column 'size' must hold numbers everywhere"):
        plain + summarize_batch(schema(), other)
    with pytest.raises(TypeError):
        plain + 1


def test_every_fold_needs_rows():
    table = to_arrow(mixed_frame(3))
    with pytest.raises(ValueError, match="folds=50 must leave rows for every fold"):
        summarize_batch(schema(folds=50), table).finish()


def test_small_tasks_are_left_out():
    frame = mixed_frame()
    summary = summarize_batch(schema(folds=2), to_arrow(frame)).finish()
    least = sorted(summary.counts.values())[2]
    large = summary.without_small(least)
    assert min(large.counts.values()) == least
    assert large.whole.tasks == tuple(large.counts)
    place = [summary.whole.tasks.index(task) for task in large.counts]
    np.testing.assert_array_equal(large.whole.xx, summary.whole.xx[place])
    assert summary.without_small(1) is summary
    with pytest.raises(ValueError, match="min_rows=1000 must leave some tasks: none"):
        summary.without_small(1000)
    with pytest.raises(ValueError, match=r"min_rows must be a whole number .* got 0"):
        summary.without_small(0)


# Serialised form.


def sample(n=60, **settings):
    schema = Schema(
        "school", "score", "w", ("size", "colour", "count"), missing="mean", **settings
    )
    return summarize_batch(schema, to_arrow(mixed_frame(n, gaps=0.2)))


@pytest.mark.parametrize("folds", [None, 3])
@pytest.mark.parametrize("n", [0, 60])
def test_round_trip(folds, n):
    sent = sample(n, folds=folds)
    got = from_bytes(to_bytes(sent))
    assert got.layout == sent.layout
    assert got.tasks == sent.tasks
    assert (got.rows, got.dropped) == (sent.rows, sent.dropped)
    for name in ("centre", "observed", "counts"):
        assert np.array_equal(getattr(got, name), getattr(sent, name))
    for one, other in zip(got.parts, sent.parts, strict=True):
        for name in MOMENTS:
            np.testing.assert_allclose(
                getattr(one, name), getattr(other, name), rtol=1e-14, atol=1e-14
            )


def test_what_arrived_adds_up():
    a, b = sample(60), sample(61)
    there = from_bytes(to_bytes(a)) + from_bytes(to_bytes(b))
    np.testing.assert_allclose(
        there.finish().whole.xx, (a + b).finish().whole.xx, rtol=1e-12, atol=1e-9
    )


def test_every_changed_byte_is_refused():
    content = bytearray(to_bytes(sample(6)))
    for i in range(len(content)):
        content[i] ^= 1
        with pytest.raises(ModelFileError, match="did not arrive as sent"):
            from_bytes(bytes(content))
        content[i] ^= 1
    from_bytes(bytes(content))


def test_every_missing_end_is_refused():
    content = to_bytes(sample(6))
    for i in range(0, len(content), 31):
        with pytest.raises(ModelFileError, match="did not arrive as sent"):
            from_bytes(content[:i])


def test_other_versions_and_kinds_are_refused(monkeypatch):
    other = archive.pack_archive("task statistics", {}, {})
    with pytest.raises(ModelFileError, match="holds 'task statistics', not 'partial"):
        from_bytes(other)
    monkeypatch.setattr(archive, "FORMAT_VERSION", 2)
    later = to_bytes(sample())
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match=r"format 2.*upgrade priormtl"):
        from_bytes(later)


@pytest.mark.parametrize("name", ["xx", "weight", "counts", "centre"])
def test_parts_that_do_not_fit_are_refused(name):
    settings, arrays = archive.unpack_archive(to_bytes(sample()), "partial statistics")
    arrays[name] = arrays[name][..., :-1]
    wrong = archive.pack_archive("partial statistics", settings, arrays)
    with pytest.raises(ModelFileError, match="do not fit together"):
        from_bytes(wrong)
    del arrays[name]
    wrong = archive.pack_archive("partial statistics", settings, arrays)
    with pytest.raises(ModelFileError, match="do not fit together"):
        from_bytes(wrong)


@pytest.mark.parametrize("columns", [[["x", None]], [[1, None, False]], 3, [None]])
def test_columns_that_are_none_are_refused(columns):
    settings, arrays = archive.unpack_archive(to_bytes(sample()), "partial statistics")
    settings["columns"] = columns
    wrong = archive.pack_archive("partial statistics", settings, arrays)
    with pytest.raises(ModelFileError, match="do not fit together"):
        from_bytes(wrong)
