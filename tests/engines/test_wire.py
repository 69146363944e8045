"""Partials as bytes: they come back, and whatever was changed does not."""

import numpy as np
import pytest

from mixed_rows import FIELDS, mixed_frame, to_arrow
from priormtl import archive
from priormtl.engines import Recipe, from_bytes, summarize_batch, to_bytes
from priormtl.exceptions import ModelFileError


def partial(n=60, **settings):
    recipe = Recipe(
        "school", "score", "w", ("size", "colour", "count"), missing="mean", **settings
    )
    return summarize_batch(recipe, to_arrow(mixed_frame(n, gaps=0.2)))


@pytest.mark.parametrize("folds", [None, 3])
@pytest.mark.parametrize("n", [0, 60])
def test_round_trip(folds, n):
    sent = partial(n, folds=folds)
    got = from_bytes(to_bytes(sent))
    assert got.layout == sent.layout
    assert got.tasks == sent.tasks
    assert (got.rows, got.dropped) == (sent.rows, sent.dropped)
    for name in ("centre", "observed", "counts"):
        assert np.array_equal(getattr(got, name), getattr(sent, name))
    for one, other in zip(got.parts, sent.parts, strict=True):
        for name in FIELDS:
            np.testing.assert_allclose(
                getattr(one, name), getattr(other, name), rtol=1e-14, atol=1e-14
            )


def test_what_arrived_adds_up():
    a, b = partial(60), partial(61)
    there = from_bytes(to_bytes(a)) + from_bytes(to_bytes(b))
    np.testing.assert_allclose(
        there.finish().whole.xx, (a + b).finish().whole.xx, rtol=1e-12, atol=1e-9
    )


def test_every_changed_byte_is_refused():
    content = bytearray(to_bytes(partial(6)))
    for i in range(len(content)):
        content[i] ^= 1
        with pytest.raises(ModelFileError, match="did not arrive as sent"):
            from_bytes(bytes(content))
        content[i] ^= 1
    from_bytes(bytes(content))


def test_every_missing_end_is_refused():
    content = to_bytes(partial(6))
    for i in range(0, len(content), 31):
        with pytest.raises(ModelFileError, match="did not arrive as sent"):
            from_bytes(content[:i])


def test_other_versions_and_kinds_are_refused(monkeypatch):
    other = archive.pack_archive("task statistics", {}, {})
    with pytest.raises(ModelFileError, match="holds 'task statistics', not 'partial"):
        from_bytes(other)
    monkeypatch.setattr(archive, "FORMAT_VERSION", 2)
    later = to_bytes(partial())
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match=r"format 2.*upgrade priormtl"):
        from_bytes(later)


@pytest.mark.parametrize("name", ["xx", "weight", "counts", "centre"])
def test_parts_that_do_not_fit_are_refused(name):
    settings, arrays = archive.unpack_archive(to_bytes(partial()), "partial statistics")
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
    settings, arrays = archive.unpack_archive(to_bytes(partial()), "partial statistics")
    settings["columns"] = columns
    wrong = archive.pack_archive("partial statistics", settings, arrays)
    with pytest.raises(ModelFileError, match="do not fit together"):
        from_bytes(wrong)
