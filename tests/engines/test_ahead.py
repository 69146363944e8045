"""Reading ahead: the same items, one beforehand, and errors where they belong."""

import threading

import pytest

from priormtl.engines.ahead import read_ahead


def test_items_come_in_order():
    assert list(read_ahead(iter(range(1, 50)))) == list(range(1, 50))
    assert list(read_ahead(iter([]))) == []


def test_only_one_is_made_beforehand():
    made = []

    def items():
        for i in range(1, 9):
            made.append(i)
            yield i

    for i in read_ahead(items()):
        assert len(made) <= i + 1


def test_another_thread_makes_them():
    here = threading.get_ident()
    threads = (threading.get_ident() for _ in range(3))
    assert here not in read_ahead(threads)


def test_errors_come_after_what_was_before_them():
    def items():
        yield 1
        raise OSError("gone")

    got = []
    with pytest.raises(OSError, match="gone"):
        got.extend(read_ahead(items()))
    assert got in ([], [1])


def test_leaving_early_leaves_no_thread():
    before = threading.active_count()
    items = read_ahead(iter(range(1, 100)))
    assert next(items) == 1
    items.close()
    assert threading.active_count() == before
