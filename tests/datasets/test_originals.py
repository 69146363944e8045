"""Public formats: read exactly, or refused in one sentence."""

import gzip

import numpy as np
import pytest
from scipy.io import savemat

from fake_originals import as_cells, by_columns, write_idx
from priormtl.datasets import originals
from priormtl.datasets.originals import (
    cells,
    first_of,
    flip_pixels,
    read_bytes,
    read_idx,
    read_lines,
    read_mat,
    take_files,
    to_integers,
)
from priormtl.exceptions import DataFileError

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 16 * 8)).astype(np.uint8)


def test_flipping_undoes_storage_by_columns():
    assert np.array_equal(flip_pixels(by_columns(PIXELS, 16, 8), 16, 8), PIXELS)


@pytest.mark.parametrize("packed", [True, False])
def test_idx_files_are_read_plain_or_packed(tmp_path, packed):
    values = PIXELS.reshape(5, 16, 8)
    path = tmp_path / "images"
    write_idx(path, values)
    if not packed:
        path.write_bytes(gzip.decompress(path.read_bytes()))
    assert np.array_equal(read_idx(path), values)


def test_every_truncation_of_an_idx_file_is_refused(tmp_path):
    path = tmp_path / "images"
    write_idx(path, PIXELS[:2])
    whole = path.read_bytes()
    plain = gzip.decompress(whole)
    for content in (whole, plain):
        for size in range(len(content)):
            path.write_bytes(content[:size])
            with pytest.raises(DataFileError, match=r"IDX|cut off|must hold|damaged"):
                read_idx(path)


def test_bombs_are_not_unpacked(tmp_path, monkeypatch):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(10**6)))
    monkeypatch.setattr(originals, "MOST_BYTES", 10**5)
    with pytest.raises(DataFileError, match="unpacks to more than"):
        read_bytes(path)


def test_lines_are_stripped_and_blank_ones_left_out(tmp_path):
    path = tmp_path / "table.data"
    path.write_text("a\t1\t\r\n\r\nb\t2\t\n", encoding="ascii")
    assert read_lines(path) == ["a\t1", "b\t2"]
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DataFileError, match="is not a plain text file"):
        read_lines(path)


def test_variables_are_found_by_one_of_their_names(tmp_path):
    path = tmp_path / "some.mat"
    savemat(path, {"X": PIXELS})
    variables = read_mat(path)
    assert np.array_equal(first_of(path, variables, "fea", "X"), PIXELS)
    with pytest.raises(DataFileError, match="no variable gnd or Y; it holds X"):
        first_of(path, variables, "gnd", "Y")


@pytest.mark.parametrize("content", [b"", b"MATLAB 7.3 MAT-file", b"\xff" * 200])
def test_a_damaged_matlab_file_is_one_sentence(tmp_path, content):
    path = tmp_path / "some.mat"
    path.write_bytes(content)
    with pytest.raises(DataFileError, match="cannot be read as a MATLAB file") as error:
        read_mat(path)
    assert "\n" not in str(error.value)


def test_cut_matlab_files_are_refused_or_lack_their_variable(tmp_path):
    path = tmp_path / "some.mat"
    savemat(path, {"X": PIXELS}, do_compression=True)
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(DataFileError, match=r"cannot be read|no variable"):
            first_of(path, read_mat(path), "X")


def test_only_cell_arrays_have_cells():
    assert [part.tolist() for part in cells("X", as_cells([np.arange(2)]))] == [[0, 1]]
    with pytest.raises(DataFileError, match="X must be a cell array"):
        cells("X", np.zeros(3))


def test_integers_are_kept_or_refused():
    whole = to_integers("X", [["0", "255"]], "uint8")
    assert whole.dtype == np.uint8
    assert whole.tolist() == [[0, 255]]
    for bad in ([0.5], [256], [-1], [np.nan], [np.inf]):
        with pytest.raises(DataFileError, match="X must hold whole numbers from 0 to"):
            to_integers("X", bad, "uint8")
    for bad in (["x"], [[1], [1, 2]]):
        with pytest.raises(DataFileError, match="X must hold numbers"):
            to_integers("X", bad, "uint8")


def test_originals_are_counted_and_looked_for(tmp_path, monkeypatch):
    path = tmp_path / "a"
    with pytest.raises(DataFileError, match=r"give 2 original files .*: got 1"):
        take_files([path], 2, "a and b")
    with pytest.raises(DataFileError, match="is not a file; give the path of a"):
        take_files([path], 1, "a")
    path.write_bytes(bytes(11))
    assert take_files([path], 1, "a") == [path]
    monkeypatch.setattr(originals, "MOST_BYTES", 10)
    with pytest.raises(DataFileError, match="larger than any of our originals"):
        take_files([path], 1, "a")
