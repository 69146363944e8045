"""Letters: eight pairs, grouped by written word, from either original; and of UCI."""

import numpy as np
import pytest
from scipy.io import savemat

from paper_data import as_cells, write_letter, write_letter_mat, write_letter_uci
from priormtl.datasets import load_letter, load_letter_uci
from priormtl.datasets.loaders import convert_letter, convert_letter_uci
from priormtl.exceptions import DataFileError


def draw_arrays():
    rng = np.random.default_rng(0)
    lengths = [3, 1, 4, 2, 5]
    word = np.repeat(np.arange(5), lengths).astype(np.int16)
    return {
        "X": rng.integers(0, 2, (15, 128)).astype(np.uint8),
        "letter": rng.integers(0, 26, 15).astype(np.uint8),
        "word": word,
        "position": np.concatenate([np.arange(k) for k in lengths]).astype(np.uint8),
        "train_part": word < 2,
    }


def test_counts(data_home):
    data = load_letter(data_home=data_home)
    assert data.task_names == tuple(
        f"{a} vs {b}" for a, b in ("ag", "ao", "ce", "ft", "gy", "hn", "ij", "mn")
    )
    count = dict(zip(*np.unique(data.label, return_counts=True), strict=True))
    assert (count["i"], count["j"], count["e"], count["a"]) == (4913, 189, 4955, 4034)
    for code, (a, b) in enumerate(data.classes):
        assert (data.code == code).sum() == count[a] + count[b]
    assert set(np.unique(data.X)) == {0.0, 1.0}
    assert data.groups.max() <= 6876


@pytest.mark.parametrize("write", [write_letter, write_letter_mat])
def test_both_originals_give_the_same_arrays(tmp_path, write):
    arrays = draw_arrays()
    made = convert_letter(write(tmp_path, arrays))
    assert list(made) == list(arrays)
    for name, array in arrays.items():
        assert made[name].dtype == array.dtype, name
        assert np.array_equal(made[name], array), name


def test_patterns_may_lie_inside_a_struct(tmp_path):
    arrays = draw_arrays()
    (path,) = write_letter_mat(tmp_path, arrays)
    from scipy.io import loadmat  # noqa: PLC0415

    variables = {k: v for k, v in loadmat(path).items() if not k.startswith("__")}
    for part in ("train", "test"):
        words = [{"data": word} for word in variables[f"patterns_{part}"][0]]
        variables[f"patterns_{part}"] = as_cells(words)
    savemat(path, variables)
    assert np.array_equal(convert_letter([path])["X"], arrays["X"])


LINE = ["1", "a", "-1", "1", "1", "0", *"01" * 64]


@pytest.mark.parametrize(
    ("place", "value", "match"),
    [
        (1, "A", "pixels 0 and 1, and letters a to z"),
        (1, "~", "pixels 0 and 1, and letters a to z"),
        (9, "2", "pixels 0 and 1, and letters a to z"),
        (9, "x", "pixels 0 and 1, and letters a to z"),
        (9, "10", "6 fields and 128 pixels of one digit"),
        (3, "x", "word_id must hold numbers"),
        (5, "-1", "fold must hold whole numbers"),
    ],
)
def test_other_texts_are_refused(tmp_path, place, value, match):
    path = tmp_path / "letter.data"
    path.write_text("\t".join(LINE), encoding="ascii")
    assert convert_letter([path])["X"].shape == (1, 128)
    changed = [*LINE]
    changed[place] = value
    path.write_text("\t".join(changed), encoding="ascii")
    with pytest.raises(DataFileError, match=match):
        convert_letter([path])


@pytest.mark.parametrize("text", ["", "a\tb\n", "1,2,3\n"])
def test_short_texts_are_refused(tmp_path, text):
    path = tmp_path / "letter.data"
    path.write_text(text, encoding="ascii")
    with pytest.raises(DataFileError, match="must hold 6 fields and 128 pixels"):
        convert_letter([path])


@pytest.mark.parametrize(
    ("patterns", "labels", "match"),
    [
        ([np.ones((128, 3))], [[0, 1]], "one label per letter"),
        ([np.ones((128, 2))], [[0, 1], [2]], "one label per letter"),
        ([np.ones((100, 2))], [[0, 1]], "128 pixels per letter"),
        ([np.ones((128, 2))], [[0, 26]], "letters a to z"),
    ],
)
def test_other_cells_are_refused(tmp_path, patterns, labels, match):
    path = tmp_path / "ocr.mat"
    good = {"patterns": [np.ones((129, 1))], "labels": [[[3]]]}
    bad = {"patterns": patterns, "labels": [np.array([word]) for word in labels]}
    savemat(
        path,
        {f"{name}_train": as_cells(good[name]) for name in good}
        | {f"{name}_test": as_cells(bad[name]) for name in bad},
    )
    with pytest.raises(DataFileError, match=match):
        convert_letter([path])


# Letters of UCI.


def test_uci_counts(data_home):
    data = load_letter_uci(data_home=data_home)
    assert data.task_names[0] == "A vs G"
    assert data.X.shape[1] == 16
    assert (data.X.min(), data.X.max()) == (0, 15)
    sizes = np.unique(data.label, return_counts=True)[1]
    assert len(sizes) == 13
    assert (sizes >= 734).all()
    assert (sizes <= 813).all()


def test_a_small_table_is_converted(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        "X": rng.integers(0, 16, (7, 16)).astype(np.uint8),
        "letter": rng.integers(0, 26, 7).astype(np.uint8),
    }
    made = convert_letter_uci(write_letter_uci(tmp_path, arrays))
    for name, array in arrays.items():
        assert made[name].dtype == array.dtype
        assert np.array_equal(made[name], array)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "a letter and 16 integers"),
        ("A,1,2\n", "a letter and 16 integers"),
        ("a" + ",1" * 16, "a letter from A to Z"),
        ("A" + ",1.5" * 16, "features must hold whole numbers"),
        ("A" + ",x" * 16, "features must hold numbers"),
    ],
)
def test_other_tables_are_refused(tmp_path, text, match):
    path = tmp_path / "letter-recognition.data"
    path.write_text(text, encoding="ascii")
    with pytest.raises(DataFileError, match=match):
        convert_letter_uci([path])
