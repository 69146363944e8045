"""Folders of statistics are opened where they are whole, else refused."""

import shutil

import numpy as np
import pytest

from mixed_rows import mixed_frame, to_arrow
from priormtl.archive import read_archive, write_archive
from priormtl.engines import open_shards, summarize_sharded
from priormtl.engines.folders import KIND
from priormtl.exceptions import ModelFileError

COLUMNS = {"task": "school", "target": "score", "features": ["size", "count"]}


@pytest.fixture
def folder(tmp_path):
    summarize_sharded(to_arrow(mixed_frame()), tmp_path / "out", **COLUMNS)
    return tmp_path / "out"


@pytest.fixture
def folds(tmp_path):
    columns = COLUMNS | {"folds": 3, "key": "id"}
    summarize_sharded(to_arrow(mixed_frame()), tmp_path / "folds", **columns)
    return tmp_path / "folds"


def test_matrices_of_a_task_lie_side_by_side(folds):
    found, matrices = open_shards(folds), np.load(folds / "xx.npy")
    assert matrices.shape == (5, 3, 2, 2)
    for k, part in enumerate(found.parts):
        np.testing.assert_array_equal(part.xx, matrices[:, k])


def test_folders_of_before_there_were_folds_are_opened(folder):
    settings, arrays = read_archive(folder / "statistics", KIND)
    expected = open_shards(folder).whole
    del settings["folds"]
    write_archive(folder / "statistics", KIND, settings, arrays)
    found = open_shards(folder).whole
    np.testing.assert_array_equal(found.xx, expected.xx)
    np.testing.assert_array_equal(found.weight, expected.weight)


@pytest.mark.parametrize("count", [None, 2, 4, "3", True])
def test_another_number_of_folds_is_refused(folds, count):
    settings, arrays = read_archive(folds / "statistics", KIND)
    write_archive(folds / "statistics", KIND, settings | {"folds": count}, arrays)
    with pytest.raises(ModelFileError, match="does not hold whole statistics"):
        open_shards(folds)


@pytest.mark.parametrize("shape", [(5,), (5, 2, 2), (5, 2, 2, 2), (5, 3, 2, 3)])
def test_matrices_of_other_folds_are_refused(folds, shape):
    np.save(folds / "xx.npy", np.zeros(shape))
    with pytest.raises(ModelFileError, match="does not hold whole statistics"):
        open_shards(folds)


def test_the_matrices_are_a_plain_numpy_file(folder):
    whole = open_shards(str(folder)).whole
    np.testing.assert_array_equal(np.load(folder / "xx.npy"), whole.xx)
    assert whole.xx.shape == (5, 2, 2)


def test_folders_may_be_moved(folder):
    shutil.move(folder, folder.parent / "elsewhere")
    assert open_shards(folder.parent / "elsewhere").whole.shape == (2, 5)


def test_a_folder_of_other_things_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ModelFileError, match="is not a folder of statistics"):
            open_shards(path)


def cut(path):
    path.write_bytes(path.read_bytes()[:-8])


WRONG = {
    "missing": lambda path: path.unlink(),
    "cut off": cut,
    "empty": lambda path: path.write_bytes(b""),
    "other shape": lambda path: np.save(path, np.zeros((5, 2, 3))),
    "other type": lambda path: np.save(path, np.zeros((5, 2, 2), np.float32)),
    "other order": lambda path: np.save(path, np.ones((5, 2, 2), order="F")),
}


@pytest.mark.parametrize("spoil", WRONG.values(), ids=WRONG)
def test_other_matrices_are_refused(folder, spoil):
    spoil(folder / "xx.npy")
    with pytest.raises(ModelFileError, match="does not hold whole statistics"):
        open_shards(folder)


def test_a_changed_archive_is_refused(folder):
    content = bytearray((folder / "statistics").read_bytes())
    content[-40] ^= 1
    (folder / "statistics").write_bytes(content)
    with pytest.raises(ModelFileError, match="digest"):
        open_shards(folder)


@pytest.mark.parametrize("name", ["tasks", "features", "categories", "rows"])
def test_an_archive_that_lacks_something_is_refused(folder, name):
    settings, arrays = read_archive(folder / "statistics", KIND)
    del settings[name]
    write_archive(folder / "statistics", KIND, settings, arrays)
    with pytest.raises(ModelFileError, match="does not hold whole statistics"):
        open_shards(folder)


@pytest.mark.parametrize("name", ["weight", "x_mean", "xy", "counts"])
def test_arrays_of_another_shape_are_refused(folder, name):
    settings, arrays = read_archive(folder / "statistics", KIND)
    arrays[name] = arrays[name][1:]
    write_archive(folder / "statistics", KIND, settings, arrays)
    with pytest.raises(ModelFileError, match="does not hold whole statistics"):
        open_shards(folder)
