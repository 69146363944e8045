"""Laws of all data sets, and round trips through the public formats."""

from dataclasses import replace

import numpy as np
import pytest

from paper_data import WRITERS, write_letter_mat
from priormtl import MultiTaskRegressor, datasets
from priormtl.datasets import SOURCES, check_source, convert_original
from priormtl.datasets.files import read_arrays, write_arrays
from priormtl.exceptions import DataFileError, MissingDataError

LOADERS = {name: getattr(datasets, f"load_{name}") for name in SOURCES}
ALL = LOADERS | {"sarcos_one": datasets.load_sarcos_one}


@pytest.fixture(scope="module", params=ALL)
def loaded(request, data_home):
    return ALL[request.param](data_home=data_home)


def test_lists_tell_what_loaders_give(loaded):
    if loaded.name not in SOURCES:  # another cut of the same file
        return
    source = SOURCES[loaded.name]
    assert source.shape == (len(loaded.sample), len(loaded.feature_names))
    assert source.n_tasks == len(loaded.task_names)
    assert source.kind == loaded.kind


def test_shapes_agree(loaded):
    n, d, m = len(loaded.sample), len(loaded.feature_names), len(loaded.task_names)
    assert loaded.originals.shape[1] == d
    if loaded.code is None:
        assert loaded.y.shape == (n, m)
    else:
        assert loaded.y.shape == loaded.task.shape == loaded.code.shape == (n,)
    if loaded.image_shape is not None:
        assert np.prod(loaded.image_shape) == d


def test_every_original_is_used(loaded):
    assert np.array_equal(np.unique(loaded.sample), np.arange(len(loaded.originals)))


def test_no_task_holds_an_original_twice(loaded):
    stacked = loaded.stacked()
    pairs = np.column_stack([stacked.code, stacked.sample])
    assert len(np.unique(pairs, axis=0)) == len(pairs)


def test_names_are_unique_and_tasks_sorted(loaded):
    assert len(set(loaded.feature_names)) == len(loaded.feature_names)
    assert list(loaded.task_names) == sorted(set(loaded.task_names))
    present = np.unique(loaded.stacked().code)
    assert np.array_equal(present, np.arange(len(loaded.task_names)))


def test_numbers_are_finite_floats(loaded):
    some = loaded.rows(slice(None, None, 97))
    assert some.X.dtype == some.y.dtype == np.float64
    assert np.isfinite(some.X).all()
    assert np.isfinite(loaded.y).all()


def test_every_task_has_both_classes(loaded):
    if loaded.kind == "regression":
        assert loaded.classes is None
        assert loaded.label is None
        return
    assert set(np.unique(loaded.y)) == {-1.0, 1.0}
    stacked = loaded.stacked()
    kinds = np.unique(np.column_stack([stacked.code, stacked.y]), axis=0)
    assert len(kinds) == 2 * len(loaded.task_names)
    assert len(loaded.classes) == len(loaded.task_names)


def test_notes_are_sentences(loaded):
    for text in (loaded.description, *loaded.quirks):
        assert text.endswith(".")
    assert loaded.source
    assert loaded.quirks


def test_tasks_are_those_of_the_table(data_home):
    for name, load in LOADERS.items():
        data = load(data_home=data_home)
        assert data.name == name
        assert data.kind == SOURCES[name].kind
        assert len(data.task_names) == SOURCES[name].n_tasks


@pytest.mark.parametrize("name", ["school", "sarcos"])
def test_what_unpacks_can_be_fitted(name, data_home):
    X, y, task = LOADERS[name](data_home=data_home)
    model = MultiTaskRegressor(1000.0, 0.0, 10.0, standardize=True, tol=1e-3)
    model.fit(X, y, task=task)
    assert model.coef_.shape == (SOURCES[name].n_tasks, X.shape[1])


@pytest.mark.parametrize("name", LOADERS)
def test_all_are_found(name, data_home):
    assert check_source(SOURCES[name], data_home).state == "found"


@pytest.mark.parametrize("name", ALL)
def test_a_missing_set_names_its_folder(name, tmp_path, monkeypatch):
    with pytest.raises(MissingDataError, match=r"is not in the folder") as caught:
        ALL[name](data_home=tmp_path)
    assert str(tmp_path) in str(caught.value)
    monkeypatch.delenv("PRIORMTL_DATA", raising=False)
    with pytest.raises(MissingDataError, match="PRIORMTL_DATA is not set"):
        ALL[name]()


LARGE = {"mnist", "letter"}
ROUND_TRIPS = [
    pytest.param(name, write, marks=pytest.mark.slow if name in LARGE else ())
    for name, write in [*WRITERS.items(), ("letter", write_letter_mat)]
]


@pytest.mark.parametrize(("name", "write"), ROUND_TRIPS)
def test_an_original_gives_the_published_contents(name, write, data_home, tmp_path):
    source = SOURCES[name]
    arrays = read_arrays(source, data_home=data_home)
    made = convert_original(name, write(tmp_path, arrays), data_home=tmp_path)
    assert made.verified
    assert made.path == tmp_path / source.file
    again = read_arrays(source, data_home=tmp_path)
    assert all(np.array_equal(again[key], arrays[key]) for key in arrays)


def make_toy(tmp_path, monkeypatch):
    """Yale's format with six images, and an original that fits."""
    rng = np.random.default_rng(0)
    arrays = {
        "X": rng.integers(0, 256, (6, 1024)).astype(np.uint8),
        "subject": np.repeat([0, 1, 2], 2).astype(np.uint8),
    }
    expected = {
        key: SOURCES["yale"].arrays[key]._replace(shape=array.shape)
        for key, array in arrays.items()
    }
    monkeypatch.setitem(SOURCES, "yale", replace(SOURCES["yale"], arrays=expected))
    return arrays, WRITERS["yale"](tmp_path, arrays)


def test_other_contents_are_written_but_said(tmp_path, monkeypatch):
    arrays, originals = make_toy(tmp_path, monkeypatch)
    made = convert_original("yale", originals, data_home=tmp_path)
    assert not made.verified
    finding = check_source(SOURCES["yale"], tmp_path)
    assert finding.state == "changed"
    assert "verify=False" in finding.message
    again = read_arrays(SOURCES["yale"], data_home=tmp_path, verify=False)
    assert np.array_equal(again["X"], arrays["X"])


def test_an_existing_file_is_replaced_only_on_demand(tmp_path, monkeypatch):
    _, originals = make_toy(tmp_path, monkeypatch)
    (tmp_path / "yale.npz").write_bytes(b"precious")
    with pytest.raises(DataFileError, match="Overwrite it with replace=True"):
        convert_original("yale", originals, data_home=tmp_path)
    assert (tmp_path / "yale.npz").read_bytes() == b"precious"
    assert check_source(SOURCES["yale"], tmp_path).state == "damaged"
    convert_original("yale", originals, data_home=tmp_path, replace=True)
    assert check_source(SOURCES["yale"], tmp_path).state == "changed"


def test_an_original_of_another_size_is_refused(tmp_path):
    arrays = {"X": np.zeros((6, 1024), np.uint8), "subject": np.zeros(6, np.uint8)}
    originals = WRITERS["orl"](tmp_path, arrays)
    with pytest.raises(DataFileError, match=r"X must have shape \(400, 1024\)"):
        convert_original("orl", originals, data_home=tmp_path)
    assert not (tmp_path / "orl.npz").exists()


def test_impossible_conversions_are_refused(tmp_path):
    with pytest.raises(ValueError, match="Did you mean 'school'"):
        convert_original("scool", [], data_home=tmp_path)
    with pytest.raises(MissingDataError, match="does not exist; make it first"):
        convert_original("yale", [], data_home=tmp_path / "nowhere")


def test_a_file_without_an_array_is_damaged(tmp_path):
    write_arrays(tmp_path / "yale.npz", {"X": np.zeros(3)})
    finding = check_source(SOURCES["yale"], tmp_path)
    assert finding.state == "damaged"
    assert "has no array subject" in finding.message
