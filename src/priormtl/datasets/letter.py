"""Letters: one task per pair that is easily confused.

Two sets: handwritten letters as images (Letter), and printed capitals described by 16
integers (Letter of the UCI repository), with the same pairs.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from priormtl.datasets.files import (
    Arrays,
    Expected,
    Folder,
    Source,
    cells,
    first_of,
    flip_pixels,
    read_arrays,
    read_lines,
    read_mat,
    take_files,
    to_integers,
)
from priormtl.datasets.task_set import TaskSet, name_pixels, pair_tasks
from priormtl.exceptions import DataFileError

__all__ = [
    "LETTER",
    "LETTER_UCI",
    "convert_letter",
    "convert_letter_uci",
    "load_letter",
    "load_letter_uci",
]

SHAPE = (16, 8)
PIXELS = 16 * 8
ALPHABET = np.array(list("abcdefghijklmnopqrstuvwxyz"))
PAIRS = [(a, b) for a, b in ("ag", "ao", "ce", "ft", "gy", "hn", "ij", "mn")]
LEADING = 6  # fields of letter.data before the pixels
ZERO = ord("0")
NOTHING = np.zeros((PIXELS, 0))
DESCRIPTION = (
    "Handwritten lower-case letters, 16 x 8 black or white pixels (Kassel, cleaned by "
    "Taskar): one task for each of 8 pairs that are easily confused."
)
QUIRKS = (
    "Letters of one written word come from one hand: split by word (see groups).",
    "Only 55 different words were written; there is no writer id.",
    "a, g and n stand in two tasks: split words or images, not rows.",
    "Very unequal classes: in i/j only 189 of 5102 are j.",
    "Some patterns repeat, a few of them under two labels.",
    "Some papers add a ninth pair, g/s.",
)


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
        feature_names=name_pixels(*SHAPE),
        description=DESCRIPTION,
        quirks=QUIRKS,
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
    columns = Letters(
        np.frombuffer("".join(pixels).encode(), np.uint8).reshape(-1, PIXELS) - ZERO,
        _code_letters(letter),
        np.r_[True, word[1:] != word[:-1]],
        train,
    )
    order = np.argsort(~train, kind="stable")
    return Letters(*(column[order] for column in columns))


def _code_letters(letter: np.ndarray) -> np.ndarray:
    """Place in the alphabet, its length for anything else."""
    code = np.minimum(np.searchsorted(ALPHABET, letter), len(ALPHABET) - 1)
    return np.where(ALPHABET[code] == letter, code, len(ALPHABET))


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


LETTER = Source(
    name="letter",
    title="Letter (handwritten)",
    file="letter_ocr.npz",
    arrays={
        "X": Expected(
            (52152, 128),
            "|u1",
            "541bc7ca09ffdcb38b936e108b39584ce021775d86af775ba2cfc78566d79ef9",
        ),
        "letter": Expected(
            (52152,),
            "|u1",
            "621eb8a4917af66921a941647753d18bde25bb64ac9abe99f4b529e74969c1b1",
        ),
        "word": Expected(
            (52152,),
            "<i2",
            "6d9d821d7039d9c9e3bfa9e0a6d890e88d835d2b8c5acaebd1bccdfd2cc070c4",
        ),
        "position": Expected(
            (52152,),
            "|u1",
            "ad88637e49907d373ff86e42b04f77614da841627407da04e631608dafea4235",
        ),
        "train_part": Expected(
            (52152,),
            "|b1",
            "6d5ffdc3ffde090f9c9310e7225f06ac9fe3c6567f0ad864f2b9b8b2947bf252",
        ),
    },
    shape=(45869, 128),
    n_tasks=len(PAIRS),
    kind="classification",
    origin="Ben Taskar's OCR data, ai.stanford.edu/~btaskar/ocr",
    originals=("letter.data.gz",),
    convert=convert_letter,
)


# Printed capitals of the UCI repository.

CAPITALS = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
UCI_PAIRS = [(a.upper(), b.upper()) for a, b in PAIRS]
UCI_FEATURES = (
    *("x-box", "y-box", "width", "high", "onpix", "x-bar", "y-bar", "x2bar"),
    *("y2bar", "xybar", "x2ybr", "xy2br", "x-ege", "xegvy", "y-ege", "yegvx"),
)
UCI_DESCRIPTION = (
    "Printed capital letters in 20 distorted fonts, described by 16 integers from 0 to "
    "15 (Frey and Slate 1991): one task for each of the 8 pairs of Letter."
)
UCI_QUIRKS = (
    "Features are statistics of an image, not pixels.",
    "A, G and N stand in two tasks: split letters, not rows (see find).",
    "1332 of all 20000 rows repeat an earlier row, so that copies may stand on both "
    "sides of a split.",
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
        description=UCI_DESCRIPTION,
        quirks=UCI_QUIRKS,
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


LETTER_UCI = Source(
    name="letter_uci",
    title="Letter (printed, UCI)",
    file="letter_uci.npz",
    arrays={
        "X": Expected(
            (20000, 16),
            "|u1",
            "b6f27b9f4a1ab326d93d6a210df716150838ff7e2150781d5bfba439bbbe7546",
        ),
        "letter": Expected(
            (20000,),
            "|u1",
            "03a441a459d787ae2ddbb75971307a760d5e37b3a5e0b7667b3174dc3d8ae707",
        ),
    },
    shape=(12332, 16),
    n_tasks=len(UCI_PAIRS),
    kind="classification",
    origin="UCI Machine Learning Repository, Letter Recognition",
    originals=("letter-recognition.data",),
    convert=convert_letter_uci,
)
