"""The real data sets: how each is loaded, and how its file is made from originals.

Regression: School has one task per school, with pupils of its own. Sarcos has one task
per torque of a robot arm; all seven are measured at the same rows, or each at rows of
its own (``load_sarcos_one``).

Classification: Yale and MNIST have one task per pair of classes, the two sets of
letters one per pair that is easily confused, ORL one per person against the rest. An
image belongs to several tasks, so images must be split, not rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from priormtl._arrays import Index
from priormtl.datasets import files
from priormtl.datasets.files import (
    Arrays,
    Folder,
    Source,
    cells,
    describe_source,
    first_of,
    flip_pixels,
    read_arrays,
    read_lines,
    read_mat,
    take_files,
    to_integers,
)
from priormtl.datasets.task_set import TaskSet, name_pixels, pair_classes
from priormtl.exceptions import DataFileError, MissingDataError, unknown_name


def _build(source: Source, **contents: Any) -> TaskSet:
    """Task set with the name and the notes of its source; images have named pixels."""
    if "image_shape" in contents:
        contents["feature_names"] = name_pixels(*contents["image_shape"])
    contents.setdefault("sample", np.arange(len(contents["originals"])))
    return TaskSet(
        name=source.name,
        kind=source.kind,
        description=source.description,
        quirks=source.quirks,
        source=source.origin,
        **contents,
    )


def _build_pairs(
    source: Source,
    originals: np.ndarray,
    label: np.ndarray,
    pairs: Sequence[tuple[object, object]],
    *,
    prefix: str = "",
    group: Index | None = None,
    **others: Any,
) -> TaskSet:
    """Task set with one task per pair of classes, the second of which is +1."""
    kept = np.isin(label, np.unique(np.array(pairs)))
    sample, y, code = pair_classes(label[kept], pairs)
    return _build(
        source,
        originals=originals[kept],
        sample=sample,
        y=y,
        code=code,
        task_names=tuple(f"{prefix}{a} vs {b}" for a, b in pairs),
        classes=tuple((f"{prefix}{a}", f"{prefix}{b}") for a, b in pairs),
        label=label[kept],
        group=None if group is None else group[kept],
        **others,
    )


# School.

SCHOOL_COLUMNS = (
    *("year_1985", "year_1986", "year_1987"),
    *("school_pct_free_meals", "school_pct_vr_band1"),
    *("pupil_female", "pupil_male"),
    *("pupil_vr_band3", "pupil_vr_band1", "pupil_vr_band2"),
    *("ethnic_eswi", "ethnic_african", "ethnic_arab", "ethnic_bangladeshi"),
    *("ethnic_caribbean", "ethnic_greek", "ethnic_indian", "ethnic_pakistani"),
    *("ethnic_se_asian", "ethnic_turkish", "ethnic_other"),
    *("school_mixed", "school_boys", "school_girls"),
    *("school_maintained", "school_church_of_england", "school_roman_catholic"),
    "bias",
)


def load_school(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load the School data set: exam scores of 139 schools (regression).

    There are 15362 rows and 27 features.

    Parameters
    ----------
    data_home : path, optional
        Folder that contains the data sets. The default is the value of the environment
        variable PRIORMTL_DATA.
    verify : bool, default=True
        Whether to raise an error if the contents of the file differ from the published
        ones.

    Returns
    -------
    TaskSet
        Data set that can be unpacked as ``X, y, task``, with names and notes. Tasks are
        "school 000" to "school 138".
    """
    source = SOURCES["school"]
    arrays = read_arrays(source, data_home=data_home, verify=verify)
    kept = arrays["columns"] != "bias"
    return _build(
        source,
        originals=arrays["X"][:, kept],
        y=arrays["y"].astype(np.float64),
        code=arrays["task"].astype(np.intp),
        feature_names=tuple(arrays["columns"][kept].tolist()),
        task_names=tuple(f"school {i:03d}" for i in range(source.n_tasks)),
    )


def convert_school(originals: Sequence[Path]) -> Arrays:
    """Arrays from school.mat: cell arrays X and Y with one entry per school."""
    (path,) = take_files(originals, 1, "school.mat")
    variables = read_mat(path)
    X = [np.atleast_2d(x) for x in cells("X", first_of(path, variables, "X"))]
    y = [np.ravel(y) for y in cells("Y", first_of(path, variables, "Y"))]
    width = len(SCHOOL_COLUMNS)
    if {x.shape[1] for x in X} != {width} or list(map(len, X)) != list(map(len, y)):
        raise DataFileError(
            f"{path} must hold {width} columns and one score per pupil in each school."
        )
    return {
        "X": to_integers("X", np.concatenate(X), "uint8"),
        "y": to_integers("Y", np.concatenate(y), "uint8"),
        "task": np.repeat(np.arange(len(y)), list(map(len, y))).astype("int16"),
        "columns": np.array(SCHOOL_COLUMNS),
    }


# Sarcos.

SARCOS_NAMES = tuple(
    f"{what} {joint}"
    for what in ("position", "velocity", "acceleration", "torque")
    for joint in range(7)
)


def load_sarcos(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load the Sarcos test set: seven torques of a robot arm (regression).

    There are 4449 rows and 21 features. All torques share X: ``y`` is (4449, 7) and
    ``task`` is None. Use ``load_sarcos().stacked()`` for separate rows per torque.
    Parameters are those of :func:`load_school`.
    """
    source = SOURCES["sarcos"]
    arrays = read_arrays(source, data_home=data_home, verify=verify)
    return _build(
        source,
        originals=arrays["X"],
        y=np.ascontiguousarray(arrays["Y"]),
        code=None,
        feature_names=SARCOS_NAMES[:21],
        task_names=SARCOS_NAMES[21:],
    )


def load_sarcos_one(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load rows of Sarcos with one torque each (regression).

    There are 5608 rows, 7 tasks and 21 features. These rows are in no public original,
    only in the prepared file. Parameters are those of :func:`load_school`.
    """
    source = SOURCES["sarcos"]
    arrays = read_arrays(source, source.extras, data_home=data_home, verify=verify)
    X = np.ascontiguousarray(arrays["X_one"])
    return _build(
        replace(source, name="sarcos_one", **files.NOTES["sarcos_one"]),
        originals=X,
        y=arrays["y_one"],
        code=arrays["task_one"].astype(np.intp),
        feature_names=SARCOS_NAMES[:21],
        task_names=SARCOS_NAMES[21:],
        group=np.unique(X, axis=0, return_inverse=True)[1].ravel(),
    )


def convert_sarcos(originals: Sequence[Path]) -> Arrays:
    """Arrays from sarcos_inv_test.mat: 21 inputs and 7 torques side by side."""
    (path,) = take_files(originals, 1, "sarcos_inv_test.mat")
    table = first_of(path, read_mat(path), "sarcos_inv_test")
    if table.ndim != 2 or table.shape[1] != 28 or table.dtype.kind != "f":
        raise DataFileError(f"{path} must hold a table of 28 columns of numbers.")
    # Values were published with 6 decimals; copies in single precision lose some.
    X, Y = np.split(table.astype(np.float64).round(6), [21], axis=1)
    return {"X": np.ascontiguousarray(X), "Y": np.ascontiguousarray(Y)}


# Yale and ORL: faces of 32 x 32 pixels.


def load_yale(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load the Yale data set: faces of 28 pairs of people (classification).

    There are 88 images, 616 rows and 1024 pixels. Tasks are "subject 0 vs 1" and so on;
    the second person is +1. Parameters are those of :func:`load_school`.
    """
    source = SOURCES["yale"]
    arrays = read_arrays(source, data_home=data_home, verify=verify)
    pairs = list(combinations(range(8), 2))
    return _build_pairs(
        source,
        arrays["X"],
        arrays["subject"],
        pairs,
        prefix="subject ",
        image_shape=(32, 32),
    )


def load_orl(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load the ORL data set: faces of 40 people, one against the rest (classification).

    There are 400 images with 1024 pixels. ``y`` (400, 40) is +1 in the column of the
    person in the image, else -1; ``task`` is None. Parameters are those of
    :func:`load_school`.
    """
    source = SOURCES["orl"]
    arrays = read_arrays(source, data_home=data_home, verify=verify)
    label = arrays["subject"]
    names = tuple(f"subject {i:02d}" for i in range(source.n_tasks))
    return _build(
        source,
        originals=arrays["X"],
        y=np.where(label[:, np.newaxis] == np.arange(source.n_tasks), 1.0, -1.0),
        code=None,
        task_names=names,
        classes=tuple(("others", name) for name in names),
        label=label,
        image_shape=(32, 32),
    )


def convert_faces(originals: Sequence[Path]) -> Arrays:
    """Arrays from a MATLAB file: ``fea``, pixels column by column, and ``gnd``."""
    (path,) = take_files(originals, 1, "Yale_32x32.mat or ORL_32x32.mat")
    variables = read_mat(path)
    pixels = to_integers("fea", first_of(path, variables, "fea", "X"), "uint8")
    person = to_integers("gnd", first_of(path, variables, "gnd", "Y").ravel(), "uint8")
    if pixels.ndim != 2 or pixels.shape != (len(person), 1024) or not len(person):
        raise DataFileError(
            f"{path} must hold 1024 pixels and one subject per image: got pixels "
            f"{pixels.shape} and {len(person)} subjects."
        )
    return {"X": flip_pixels(pixels, 32, 32), "subject": person - person.min()}


# MNIST: digits of 28 x 28 pixels.


def load_mnist(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load the MNIST test set: 45 pairs of handwritten digits (classification).

    There are 10000 images, 90000 rows and 784 pixels. Tasks are "0 vs 1" and so on; the
    second digit is +1. Parameters are those of :func:`load_school`.
    """
    source = SOURCES["mnist"]
    arrays = read_arrays(source, data_home=data_home, verify=verify)
    pairs = list(combinations(range(10), 2))
    shape = (28, 28)
    return _build_pairs(source, arrays["X"], arrays["digit"], pairs, image_shape=shape)


def convert_mnist(originals: Sequence[Path]) -> Arrays:
    """Arrays from images and labels, in either order."""
    names = " and ".join(SOURCES["mnist"].originals)
    first, second = map(files.read_idx, take_files(originals, 2, names))
    images, digits = (first, second) if first.ndim == 3 else (second, first)
    if images.shape != (len(digits), 28, 28) or digits.ndim != 1:
        raise DataFileError(
            "give images of 28 x 28 pixels and one label per image: got files of "
            f"shape {first.shape} and {second.shape}."
        )
    return {"X": images.reshape(len(digits), -1), "digit": digits}


# Letter: handwritten letters of 16 x 8 pixels.

ALPHABET = np.array(list("abcdefghijklmnopqrstuvwxyz"))
PAIRS = [(a, b) for a, b in ("ag", "ao", "ce", "ft", "gy", "hn", "ij", "mn")]


def load_letter(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load the Letter data set: 8 pairs of handwritten letters (classification).

    The features are 128 pixels. Tasks are "a vs g" and so on; the second letter is +1.
    ``groups`` are the written words. Parameters are those of :func:`load_school`.
    """
    source = SOURCES["letter"]
    names = ("X", "letter", "word")
    arrays = read_arrays(source, names, data_home=data_home, verify=verify)
    label, word = ALPHABET[arrays["letter"]], arrays["word"].astype(np.intp)
    return _build_pairs(
        source, arrays["X"], label, PAIRS, group=word, image_shape=(16, 8)
    )


def convert_letter(originals: Sequence[Path]) -> Arrays:
    """Arrays from letter.data (plain or gzipped) or ocr_taskar.mat."""
    (path,) = take_files(originals, 1, "letter.data.gz or ocr_taskar.mat")
    read = _read_letter_mat if path.suffix == ".mat" else _read_letter_text
    pixels, letter, first, train = read(path)
    if pixels.max() > 1 or letter.max() >= len(ALPHABET):
        raise DataFileError(f"{path} must hold pixels 0 and 1, and letters a to z.")
    word = np.cumsum(first) - 1
    position = np.arange(len(word)) - np.flatnonzero(first)[word]
    return {
        "X": pixels,
        "letter": letter.astype("uint8"),
        "word": word.astype("int16"),
        "position": position.astype("uint8"),
        "train_part": train,
    }


# Pixels (n, 128) row by row; letters, 0 for a; whether a word begins; and whether it
# belongs to fold 0. Words of fold 0 come first.
Letters = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _read_letter_text(path: Path) -> Letters:
    """Lines of id, letter, next id, word, position, fold and 128 pixels, with tabs."""
    lines = [line.split("\t", 6) for line in read_lines(path)]
    pixels = ["".join(line[6:]).replace("\t", "") for line in lines]
    if {len(text) for text in pixels} != {128}:
        raise DataFileError(
            f"{path} must hold 6 fields and 128 pixels of one digit, separated by "
            "tabs, in each line."
        )
    _, letter, _, word_id, _, fold = np.array([line[:6] for line in lines]).T
    word = to_integers("word_id", word_id, "int32")
    train = to_integers("fold", fold, "uint8") == 0
    code = np.minimum(np.searchsorted(ALPHABET, letter), len(ALPHABET) - 1)
    digits = np.frombuffer("".join(pixels).encode(), np.uint8).reshape(-1, 128)
    order = np.argsort(~train, kind="stable")
    return (
        (digits - ord("0"))[order],
        np.where(ALPHABET[code] == letter, code, len(ALPHABET))[order],
        np.r_[True, word[1:] != word[:-1]][order],
        train[order],
    )


def _read_letter_mat(path: Path) -> Letters:
    """Cell arrays with one entry per word, pixels (and a bias) column by column."""
    variables = read_mat(path)
    pixels, labels, counts = [], [], []
    for part in ("train", "test"):
        patterns = cells("patterns", first_of(path, variables, f"patterns_{part}"))
        letters = cells("labels", first_of(path, variables, f"labels_{part}"))
        nothing: np.ndarray = np.zeros((128, 0))
        for word, letter in zip_longest(patterns, letters, fillvalue=nothing):
            if word.dtype.names and "data" in word.dtype.names and word.size == 1:
                word = word["data"].item()  # noqa: PLW2901 (inside a struct)
            if word.ndim != 2 or word.shape[0] not in {128, 129}:
                raise DataFileError(f"{path} must hold 128 pixels per letter.")
            pixels.append(word[:128].T)
            labels.append(np.ravel(letter))
        counts.append(sum(map(len, labels)))
    both = 0 < counts[0] < counts[1]
    if not both or list(map(len, pixels)) != list(map(len, labels)):
        raise DataFileError(f"{path} must hold one label per letter of each word.")
    return (
        flip_pixels(to_integers("patterns", np.concatenate(pixels), "uint8"), 16, 8),
        to_integers("labels", np.concatenate(labels), "uint8"),
        np.concatenate([np.arange(len(word)) == 0 for word in labels]),
        np.arange(counts[1]) < counts[0],
    )


# Letter of UCI: printed capitals.


def load_letter_uci(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load the UCI Letter data set: 8 pairs of printed capitals (classification).

    There are 16 features. Tasks are "A vs G" and so on; the second letter is +1.
    Parameters are those of :func:`load_school`.
    """
    source = SOURCES["letter_uci"]
    arrays = read_arrays(source, data_home=data_home, verify=verify)
    label = np.char.upper(ALPHABET)[arrays["letter"]]
    pairs = [(a.upper(), b.upper()) for a, b in PAIRS]
    names = (
        *("x-box", "y-box", "width", "high", "onpix", "x-bar", "y-bar", "x2bar"),
        *("y2bar", "xybar", "x2ybr", "xy2br", "x-ege", "xegvy", "y-ege", "yegvx"),
    )
    return _build_pairs(source, arrays["X"], label, pairs, feature_names=names)


def convert_letter_uci(originals: Sequence[Path]) -> Arrays:
    """Arrays from letter-recognition.data: a letter and 16 integers per line."""
    (path,) = take_files(originals, 1, "letter-recognition.data")
    lines = [line.split(",") for line in read_lines(path)]
    if {len(line) for line in lines} != {17}:
        raise DataFileError(
            f"{path} must hold a letter and 16 integers, separated by commas, per line."
        )
    fields, capitals = np.array(lines), np.char.upper(ALPHABET)
    if not np.isin(fields[:, 0], capitals).all():
        raise DataFileError(f"{path} must hold a letter from A to Z in each line.")
    return {
        "X": to_integers("features", fields[:, 1:], "uint8"),
        "letter": np.searchsorted(capitals, fields[:, 0]).astype("uint8"),
    }


# All data sets by name.

SOURCES = {
    name: describe_source(name, convert)
    for name, convert in {
        "school": convert_school,
        "sarcos": convert_sarcos,
        "yale": convert_faces,
        "mnist": convert_mnist,
        "letter": convert_letter,
        "letter_uci": convert_letter_uci,
        "orl": convert_faces,
    }.items()
}
LOADERS: dict[str, Callable[..., TaskSet]] = {
    load.__name__.removeprefix("load_"): load
    for load in (
        *(load_school, load_sarcos, load_yale, load_mnist, load_letter),
        *(load_letter_uci, load_orl),
    )
}


@dataclass(frozen=True)
class Finding:
    """Whether a data set is available."""

    source: Source
    state: str  # found, missing, changed (other contents) or damaged
    message: str  # what to do, empty if found


@dataclass(frozen=True)
class Conversion:
    """A file that was written, and whether it holds what was published."""

    path: Path
    verified: bool


def check_source(source: Source, data_home: Folder = None) -> Finding:
    """Read the file of a data set and report its state."""
    try:
        read_arrays(source, data_home=data_home)
    except MissingDataError as error:
        return Finding(source, "missing", str(error))
    except (DataFileError, OSError) as error:
        try:
            # Changed if only its digests differ, else damaged.
            read_arrays(source, data_home=data_home, verify=False)
        except (DataFileError, OSError):
            return Finding(source, "damaged", str(error))
        return Finding(source, "changed", str(error))
    return Finding(source, "found", "")


def convert_original(
    name: str,
    originals: Sequence[Path],
    *,
    data_home: Folder = None,
    replace: bool = False,
) -> Conversion:
    """Write the file of a data set from its originals, all or nothing.

    Contents of the right shape that differ from the published ones are written too;
    loaders then need ``verify=False``.
    """
    if name not in SOURCES:
        raise unknown_name("data set", name, SOURCES)
    source, folder = SOURCES[name], files.find_home(data_home)
    if not folder.is_dir():
        raise MissingDataError(f"the folder {folder} does not exist; make it first.")
    path = folder / source.file
    if path.exists() and not replace:
        raise DataFileError(
            f"{path} already exists. Overwrite it with replace=True (or --replace)."
        )
    arrays = source.convert(originals)
    verified = files.check_arrays(source, arrays)
    files.write_arrays(path, arrays)
    return Conversion(path, verified)
