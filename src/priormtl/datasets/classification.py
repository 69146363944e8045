"""Classification: faces of Yale and ORL, digits of MNIST, and letters.

Yale and MNIST have one task per pair of classes, the two sets of letters one per pair
that is easily confused, ORL one per person against the rest. An image belongs to
several tasks, so images must be split, not rows.
"""

import itertools
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from priormtl.datasets.files import (
    Arrays,
    Folder,
    cells,
    describe_source,
    first_of,
    flip_pixels,
    read_arrays,
    read_idx,
    read_lines,
    read_mat,
    take_files,
    to_integers,
)
from priormtl.datasets.task_set import TaskSet, build_task_set, pair_tasks
from priormtl.exceptions import DataFileError

FACE_SIDE = 32
DIGIT_SIDE = 28


def convert_faces(originals: Sequence[Path]) -> Arrays:
    """Arrays from a MATLAB file: ``fea``, pixels column by column, and ``gnd``."""
    (path,) = take_files(originals, 1, "Yale_32x32.mat or ORL_32x32.mat")
    variables = read_mat(path)
    pixels = to_integers("fea", first_of(path, variables, "fea", "X"), "uint8")
    person = to_integers("gnd", first_of(path, variables, "gnd", "Y").ravel(), "uint8")
    size = FACE_SIDE**2
    if pixels.ndim != 2 or pixels.shape != (len(person), size) or not len(person):
        raise DataFileError(
            f"{path} must hold {size} pixels and one subject per image: got pixels "
            f"{pixels.shape} and {len(person)} subjects."
        )
    pixels = flip_pixels(pixels, FACE_SIDE, FACE_SIDE)
    return {"X": pixels, "subject": person - person.min()}


# Yale.

YALE_SUBJECTS = 8


def load_yale(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load the Yale data set: faces of 28 pairs of people (classification).

    There are 88 images, 616 rows and 1024 pixels.

    Parameters
    ----------
    data_home, verify
        See :func:`load_school`.

    Returns
    -------
    TaskSet
        Data set that can be unpacked as ``X, y, task``. Tasks are "subject 0 vs 1" and
        so on; the second person is +1.
    """
    arrays = read_arrays(YALE, data_home=data_home, verify=verify)
    kept = arrays["subject"] < YALE_SUBJECTS
    return pair_tasks(
        YALE,
        arrays["X"][kept],
        arrays["subject"][kept],
        list(combinations(range(YALE_SUBJECTS), 2)),
        prefix="subject ",
        image_shape=(FACE_SIDE, FACE_SIDE),
    )


YALE = describe_source("yale", convert_faces)


# ORL.

ORL_SUBJECTS = 40


def load_orl(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load the ORL data set: faces of 40 people, one against the rest (classification).

    There are 400 images with 1024 pixels.

    Parameters
    ----------
    data_home, verify
        See :func:`load_school`.

    Returns
    -------
    TaskSet
        Data set that can be unpacked as ``X, y, task``. ``y`` (400, 40) is +1 in the
        column of the person in the image, else -1; ``task`` is None.
    """
    arrays = read_arrays(ORL, data_home=data_home, verify=verify)
    label = arrays["subject"]
    own = label[:, np.newaxis] == np.arange(ORL_SUBJECTS)
    names = tuple(f"subject {i:02d}" for i in range(ORL_SUBJECTS))
    return build_task_set(
        ORL,
        originals=arrays["X"],
        sample=np.arange(len(label)),
        y=np.where(own, 1.0, -1.0),
        code=None,
        task_names=names,
        classes=tuple(("others", name) for name in names),
        label=label,
        image_shape=(FACE_SIDE, FACE_SIDE),
    )


ORL = describe_source("orl", convert_faces)


# MNIST.

MNIST_FILES = ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")


def load_mnist(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load the MNIST test set: 45 pairs of handwritten digits (classification).

    There are 10000 images, 90000 rows and 784 pixels.

    Parameters
    ----------
    data_home, verify
        See :func:`load_school`.

    Returns
    -------
    TaskSet
        Data set that can be unpacked as ``X, y, task``. Tasks are "0 vs 1" and so on;
        the second digit is +1.
    """
    arrays = read_arrays(MNIST, data_home=data_home, verify=verify)
    return pair_tasks(
        MNIST,
        arrays["X"],
        arrays["digit"],
        list(combinations(range(10), 2)),
        image_shape=(DIGIT_SIDE, DIGIT_SIDE),
    )


def convert_mnist(originals: Sequence[Path]) -> Arrays:
    """Arrays from images and labels, in either order."""
    first, second = map(read_idx, take_files(originals, 2, " and ".join(MNIST_FILES)))
    images, digits = (first, second) if first.ndim == 3 else (second, first)
    if images.shape != (len(digits), DIGIT_SIDE, DIGIT_SIDE) or digits.ndim != 1:
        raise DataFileError(
            f"give images of {DIGIT_SIDE} x {DIGIT_SIDE} pixels and one label per "
            f"image: got files of shape {first.shape} and {second.shape}."
        )
    return {"X": images.reshape(len(digits), -1), "digit": digits}


MNIST = describe_source("mnist", convert_mnist)


# Handwritten letters, as images.

SHAPE = (16, 8)
PIXELS = 16 * 8
ALPHABET = np.array(list("abcdefghijklmnopqrstuvwxyz"))
PAIRS = [(a, b) for a, b in ("ag", "ao", "ce", "ft", "gy", "hn", "ij", "mn")]
LEADING = 6  # fields of letter.data before the pixels
ZERO = ord("0")
NOTHING = np.zeros((PIXELS, 0))


def load_letter(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load the Letter data set: 8 pairs of handwritten letters (classification).

    The features are 128 pixels.

    Parameters
    ----------
    data_home, verify
        See :func:`load_school`.

    Returns
    -------
    TaskSet
        Data set that can be unpacked as ``X, y, task``. Tasks are "a vs g" and so on;
        the second letter is +1. ``groups`` are the written words.
    """
    names = ("X", "letter", "word")
    arrays = read_arrays(LETTER, names, data_home=data_home, verify=verify)
    label = ALPHABET[arrays["letter"]]
    kept = np.isin(label, np.unique(PAIRS))
    return pair_tasks(
        LETTER,
        arrays["X"][kept],
        label[kept],
        PAIRS,
        group=arrays["word"][kept].astype(np.intp),
        image_shape=SHAPE,
    )


class Letters(NamedTuple):
    """Letters in the order of a file."""

    pixels: np.ndarray  # (n, 128), row by row
    letter: np.ndarray  # 0 for a
    first: np.ndarray  # whether a word begins
    train: np.ndarray  # whether it belongs to fold 0


def convert_letter(originals: Sequence[Path]) -> Arrays:
    """Arrays from letter.data (plain or gzipped) or ocr_taskar.mat."""
    (path,) = take_files(originals, 1, "letter.data.gz or ocr_taskar.mat")
    letters = _from_mat(path) if path.suffix == ".mat" else _from_text(path)
    if letters.pixels.max() > 1 or letters.letter.max() >= len(ALPHABET):
        raise DataFileError(f"{path} must hold pixels 0 and 1, and letters a to z.")
    word = np.cumsum(letters.first) - 1
    position = np.arange(len(word)) - np.flatnonzero(letters.first)[word]
    return {
        "X": letters.pixels,
        "letter": letters.letter.astype("uint8"),
        "word": word.astype("int16"),
        "position": position.astype("uint8"),
        "train_part": letters.train,
    }


def _from_text(path: Path) -> Letters:
    """Lines of id, letter, next id, word, position, fold and 128 pixels, with tabs.

    Words of fold 0 come first, all in their order in the file.
    """
    lines = [line.split("\t", LEADING) for line in read_lines(path)]
    pixels = ["".join(line[LEADING:]).replace("\t", "") for line in lines]
    if {len(text) for text in pixels} != {PIXELS}:
        raise DataFileError(
            f"{path} must hold {LEADING} fields and {PIXELS} pixels of one digit, "
            "separated by tabs, in each line."
        )
    _, letter, _, word_id, _, fold = np.array([line[:LEADING] for line in lines]).T
    word = to_integers("word_id", word_id, "int32")
    train = to_integers("fold", fold, "uint8") == 0
    code = np.minimum(np.searchsorted(ALPHABET, letter), len(ALPHABET) - 1)
    columns = Letters(
        np.frombuffer("".join(pixels).encode(), np.uint8).reshape(-1, PIXELS) - ZERO,
        np.where(ALPHABET[code] == letter, code, len(ALPHABET)),
        np.r_[True, word[1:] != word[:-1]],
        train,
    )
    order = np.argsort(~train, kind="stable")
    return Letters(*(column[order] for column in columns))


def _from_mat(path: Path) -> Letters:
    """Cell arrays with one entry per word, pixels (and a bias) column by column."""
    variables = read_mat(path)
    words = [_read_words(path, variables, part) for part in ("train", "test")]
    pixels, labels = zip(*itertools.chain(*words), strict=True)
    return Letters(
        flip_pixels(to_integers("patterns", np.concatenate(pixels), "uint8"), *SHAPE),
        to_integers("labels", np.concatenate(labels), "uint8"),
        np.concatenate([np.arange(len(word)) == 0 for word in labels]),
        np.arange(sum(map(len, labels))) < sum(len(word) for _, word in words[0]),
    )


def _read_words(
    path: Path, variables: dict[str, Any], part: str
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pixels (k, 128) and labels (k,) of each word, which must match."""
    patterns = cells("patterns", first_of(path, variables, f"patterns_{part}"))
    labels = cells("labels", first_of(path, variables, f"labels_{part}"))
    words = [
        (_read_pixels(path, pattern), np.ravel(label))
        for pattern, label in itertools.zip_longest(patterns, labels, fillvalue=NOTHING)
    ]
    if not words or any(len(pixels) != len(label) for pixels, label in words):
        raise DataFileError(f"{path} must hold one label per letter of each word.")
    return words


def _read_pixels(path: Path, word: np.ndarray) -> np.ndarray:
    """Pixels of a word's letters (k, 128), without the bias; maybe inside a struct."""
    if word.dtype.names and "data" in word.dtype.names and word.size == 1:
        word = word["data"].item()
    if word.ndim != 2 or word.shape[0] not in {PIXELS, PIXELS + 1}:
        raise DataFileError(f"{path} must hold {PIXELS} pixels per letter.")
    return word[:PIXELS].T


LETTER = describe_source("letter", convert_letter)


# Printed capitals of the UCI repository.

CAPITALS = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
UCI_PAIRS = [(a.upper(), b.upper()) for a, b in PAIRS]
UCI_FEATURES = (
    *("x-box", "y-box", "width", "high", "onpix", "x-bar", "y-bar", "x2bar"),
    *("y2bar", "xybar", "x2ybr", "xy2br", "x-ege", "xegvy", "y-ege", "yegvx"),
)


def load_letter_uci(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load the UCI Letter data set: 8 pairs of printed capitals (classification).

    There are 16 features.

    Parameters
    ----------
    data_home, verify
        See :func:`load_school`.

    Returns
    -------
    TaskSet
        Data set that can be unpacked as ``X, y, task``. Tasks are "A vs G" and so on;
        the second letter is +1.
    """
    arrays = read_arrays(LETTER_UCI, data_home=data_home, verify=verify)
    label = CAPITALS[arrays["letter"]]
    kept = np.isin(label, np.unique(UCI_PAIRS))
    return pair_tasks(
        LETTER_UCI,
        arrays["X"][kept],
        label[kept],
        UCI_PAIRS,
        feature_names=UCI_FEATURES,
    )


def convert_letter_uci(originals: Sequence[Path]) -> Arrays:
    """Arrays from letter-recognition.data: a letter and 16 integers per line."""
    (path,) = take_files(originals, 1, "letter-recognition.data")
    lines = [line.split(",") for line in read_lines(path)]
    if {len(line) for line in lines} != {1 + len(UCI_FEATURES)}:
        raise DataFileError(
            f"{path} must hold a letter and {len(UCI_FEATURES)} integers, separated by "
            "commas, per line."
        )
    fields = np.array(lines)
    if not np.isin(fields[:, 0], CAPITALS).all():
        raise DataFileError(f"{path} must hold a letter from A to Z in each line.")
    return {
        "X": to_integers("features", fields[:, 1:], "uint8"),
        "letter": np.searchsorted(CAPITALS, fields[:, 0]).astype("uint8"),
    }


LETTER_UCI = describe_source("letter_uci", convert_letter_uci)
