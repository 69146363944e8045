"""Rows laid aside come back as they were, and their files have no names."""

import errno

import pyarrow as pa
import pytest

from priormtl.engines.spill import Spill

FIRST = pa.table({"x": [1.0, 2.0], "name": ["ä", None]})
OTHER = pa.table({"x": pa.array([3], pa.int8()), "name": ["b"]})


def test_pieces_come_back_in_order_whatever_their_types(tmp_path):
    coded = FIRST.set_column(1, "name", FIRST["name"].dictionary_encode())
    with Spill(tmp_path, 2) as spill:
        for table in (FIRST, OTHER, coded, FIRST.slice(1, 1)):
            spill.write(1, table)
        for _ in range(2):  # as often as one likes
            found = list(spill.read(1))
            assert found == [FIRST, OTHER, coded, FIRST.slice(1)]
        assert list(spill.read(0)) == []


def test_slices_take_their_own_place_only(tmp_path):
    long = pa.table({"x": pa.array(range(100_000), pa.float64())})
    with Spill(tmp_path, 1) as spill:
        spill.write(0, long.slice(5, 1))
        assert 0 < spill.size < 2000


def test_files_have_no_names(tmp_path):
    with Spill(tmp_path, 3) as spill:
        spill.write(0, FIRST)
        assert list(tmp_path.iterdir()) == []


def test_heaps_are_gone_once_they_are_dropped(tmp_path):
    with Spill(tmp_path, 2) as spill:
        spill.write(0, FIRST)
        spill.write(1, OTHER)
        spill.drop(0)
        with pytest.raises(ValueError, match="closed file"):
            list(spill.read(0))
        assert list(spill.read(1)) == [OTHER]
    with pytest.raises(ValueError, match="closed file"):
        list(spill.read(1))


def test_a_full_disk_is_an_error_that_names_the_folder(tmp_path):
    class Full:
        def write(self, _):
            raise OSError(errno.ENOSPC, "No space left on device")

    with Spill(tmp_path, 1) as spill:
        spill._files[0] = Full()
        with pytest.raises(OSError, match=r"No space left.*larger disk") as caught:
            spill.write(0, FIRST)
        assert caught.value.errno == errno.ENOSPC
        assert caught.value.filename == str(tmp_path)
