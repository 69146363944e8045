import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from priormtl.experiments.store import Store, digest_settings

ROWS = pa.table({"value": [1.0, 0.1], "task": ["a", None]})


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "units")


def test_what_was_written_is_read_back(store):
    assert store.read({"a": 1}) is None
    store.write({"a": 1}, ROWS)
    assert store.read({"a": 1}).equals(ROWS, check_metadata=True)


def test_a_name_depends_on_every_setting_but_not_on_their_order():
    first = digest_settings({"a": 1, "b": [1.0, 2.0]})
    assert first == digest_settings({"b": [1.0, 2.0], "a": 1})
    assert first != digest_settings({"a": 1, "b": [1.0, 2.5]})
    assert first != digest_settings({"a": 1})


def test_settings_must_be_plain_numbers():
    with pytest.raises(ValueError, match="not JSON compliant"):
        digest_settings({"a": float("nan")})


def test_what_is_forgotten_is_gone_and_the_rest_stays(store):
    store.write({"a": 1}, ROWS)
    store.write({"a": 2}, ROWS)
    store.forget({"a": 1})
    store.forget({"a": 3})
    assert store.read({"a": 1}) is None
    assert store.read({"a": 2}) is not None


@pytest.mark.parametrize("content", [b"", b"PAR1", b"nonsense", None])
def test_a_damaged_file_counts_as_missing(store, content):
    store.write({"a": 1}, ROWS)
    path = store.path({"a": 1})
    path.write_bytes(path.read_bytes()[:-10] if content is None else content)
    assert store.read({"a": 1}) is None


def test_a_failed_write_leaves_nothing(store, monkeypatch):
    def refuse(descriptor):
        raise OSError(28, "No space left on device")

    store.write({"a": 1}, ROWS)
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left"):
        store.write({"a": 2}, ROWS)
    assert [path.name for path in store.folder.iterdir()] == [store.path({"a": 1}).name]


def test_settings_stand_in_the_file(store):
    store.write({"a": 1}, ROWS)
    metadata = pq.read_schema(store.path({"a": 1})).metadata
    assert metadata[b"priormtl"] == b'{"a": 1}'
