"""Files of data sets: found, verified, written whole; originals read or refused."""

import gzip
import os
import zipfile

import numpy as np
import pytest
from scipy.io import savemat

from paper_data import as_cells, by_columns, write_idx
from priormtl.datasets import files
from priormtl.datasets.files import (
    Expected,
    Source,
    cells,
    check_arrays,
    digest_array,
    find_home,
    first_of,
    flip_pixels,
    read_arrays,
    read_bytes,
    read_idx,
    read_lines,
    read_mat,
    take_files,
    to_integers,
    write_arrays,
)
from priormtl.exceptions import DataFileError, MissingDataError

ARRAYS = {"X": np.arange(12, dtype=np.uint8).reshape(4, 3), "y": np.arange(4.0)}


def expect(array):
    return Expected(array.shape, array.dtype.str, digest_array(array))


def make_source(**changes):
    settings = {
        "name": "toy",
        "title": "Toy",
        "file": "toy.npz",
        "arrays": {name: expect(array) for name, array in ARRAYS.items()},
        "shape": (4, 2),
        "n_tasks": 1,
        "kind": "regression",
        "origin": "the toy shop",
        "originals": ("toy.mat",),
        "convert": lambda originals: ARRAYS,
    }
    return Source(**(settings | changes))


SOURCE = make_source()


def test_the_folder_is_the_argument_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIORMTL_DATA", str(tmp_path))
    assert find_home() == tmp_path
    assert find_home("elsewhere").name == "elsewhere"
    assert "~" not in str(find_home("~/data"))


@pytest.mark.parametrize("value", [None, ""])
def test_no_folder_is_said_with_the_way_out(value, monkeypatch):
    monkeypatch.delenv("PRIORMTL_DATA", raising=False)
    if value is not None:
        monkeypatch.setenv("PRIORMTL_DATA", value)
    with pytest.raises(MissingDataError, match="PRIORMTL_DATA is not set; set it to"):
        find_home()


def test_a_missing_file_names_folder_original_and_command(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        read_arrays(SOURCE, data_home=tmp_path)
    assert isinstance(caught.value, MissingDataError)
    for word in ("toy.npz", str(tmp_path), "toy.mat", "the toy shop"):
        assert word in str(caught.value)
    assert f"priormtl data convert toy toy.mat --to {tmp_path}" in str(caught.value)


def test_what_was_written_is_read(tmp_path):
    write_arrays(tmp_path / "toy.npz", ARRAYS)
    again = read_arrays(SOURCE, data_home=tmp_path)
    assert list(again) == ["X", "y"]
    for name, array in ARRAYS.items():
        assert again[name].dtype == array.dtype
        assert np.array_equal(again[name], array)


def test_the_same_arrays_give_the_same_bytes(tmp_path):
    for name in ("a.npz", "b.npz"):
        write_arrays(tmp_path / name, ARRAYS)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_digest_is_of_contents_not_of_layout():
    X = ARRAYS["X"]
    assert digest_array(np.asfortranarray(X)) == digest_array(X)
    assert digest_array(X.astype(">i4")) == digest_array(X.astype("<i4"))
    others = [X.T, X.ravel(), X.astype(np.int8), X + 1]
    assert len({digest_array(array) for array in [X, *others]}) == 5


def test_changed_contents_are_refused_unless_accepted(tmp_path):
    changed = ARRAYS | {"y": ARRAYS["y"] + 1}
    write_arrays(tmp_path / "toy.npz", changed)
    with pytest.raises(
        DataFileError, match="y differs from the published file"
    ) as caught:
        read_arrays(SOURCE, data_home=tmp_path)
    assert digest_array(changed["y"]) in str(caught.value)
    assert "verify=False" in str(caught.value)
    accepted = read_arrays(SOURCE, data_home=tmp_path, verify=False)
    assert np.array_equal(accepted["y"], changed["y"])
    assert not check_arrays(SOURCE, changed)
    assert check_arrays(SOURCE, ARRAYS)


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("y", [np.arange(5.0), np.arange(4)])
def test_wrong_shapes_and_types_are_refused_always(tmp_path, y, verify):
    write_arrays(tmp_path / "toy.npz", ARRAYS | {"y": y})
    with pytest.raises(DataFileError, match="y must have shape"):
        read_arrays(SOURCE, data_home=tmp_path, verify=verify)


def test_a_lacking_array_is_named(tmp_path):
    write_arrays(tmp_path / "toy.npz", {"X": ARRAYS["X"]})
    with pytest.raises(DataFileError, match="has no array y; use an intact copy"):
        read_arrays(SOURCE, data_home=tmp_path)
    source = make_source(extras=("y",))
    assert list(read_arrays(source, data_home=tmp_path)) == ["X"]
    with pytest.raises(DataFileError, match=r"has no array y; toy\.mat does not hold"):
        read_arrays(source, ["y"], data_home=tmp_path)


def test_every_truncation_is_one_sentence(tmp_path):
    path = tmp_path / "toy.npz"
    write_arrays(path, ARRAYS)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(DataFileError, match=r"damaged|no array") as caught:
            read_arrays(SOURCE, data_home=tmp_path)
        assert "\n" not in str(caught.value)


def test_every_changed_byte_is_refused_or_harmless(tmp_path):
    path = tmp_path / "toy.npz"
    write_arrays(path, ARRAYS)
    whole = path.read_bytes()
    for place in range(len(whole)):
        content = bytearray(whole)
        content[place] ^= (0x01, 0x80, 0xFF)[place % 3]
        path.write_bytes(content)
        try:
            arrays = read_arrays(SOURCE, data_home=tmp_path)
        except DataFileError:
            continue
        assert all(np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)


def test_pickles_are_not_opened(tmp_path):
    path = tmp_path / "toy.npz"
    np.savez(path, X=np.array([{}], dtype=object), y=ARRAYS["y"])
    with pytest.raises(DataFileError, match="damaged or not a NumPy archive"):
        read_arrays(SOURCE, data_home=tmp_path)


def test_what_would_unpack_to_too_much_is_not_unpacked(tmp_path, monkeypatch):
    path = tmp_path / "toy.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", bytes(10**6))
    monkeypatch.setattr(files, "MOST_BYTES", 10**5)
    with pytest.raises(DataFileError, match="would unpack to 1000000 bytes"):
        read_arrays(SOURCE, data_home=tmp_path)


@pytest.mark.parametrize("call", ["fsync", "replace", "chmod"])
def test_a_failed_write_leaves_the_old_file_alone(tmp_path, monkeypatch, call):
    path = tmp_path / "toy.npz"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="disk full"):
        write_arrays(path, ARRAYS)
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["toy.npz"]


# Formats of the originals.


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
    monkeypatch.setattr(files, "MOST_BYTES", 10**5)
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
    monkeypatch.setattr(files, "MOST_BYTES", 10)
    with pytest.raises(DataFileError, match="larger than any original"):
        take_files([path], 1, "a")
