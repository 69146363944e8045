"""Letter: handwritten letters, one task per pair that is easily confused."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from priormtl.datasets.files import Arrays, Expected, Folder, Source, read_arrays
from priormtl.datasets.originals import (
    cells,
    first_of,
    flip_pixels,
    read_mat,
    read_text,
    take_files,
    to_integers,
)
from priormtl.datasets.task_set import TaskSet, name_pixels, pair_classes
from priormtl.exceptions import DataFileError

__all__ = ["LETTER", "PAIRS", "convert_letter", "load_letter"]

HEIGHT, WIDTH = 16, 8
PIXELS = HEIGHT * WIDTH
ALPHABET = np.array(list("abcdefghijklmnopqrstuvwxyz"))
PAIRS = [tuple(pair) for pair in ("ag", "ao", "ce", "ft", "gy", "hn", "ij", "mn")]
LEADING = 6  # fields of letter.data before the pixels
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
    """Load 8 pairs of handwritten letters, 128 pixels, classification.

    Parameters are those of :func:`load_school`. Tasks are "a vs g" and so on; the
    second letter named is +1. ``groups`` are written words.
    """
    names = ("X", "letter", "word")
    arrays = read_arrays(LETTER, names, data_home=data_home, verify=verify)
    label = ALPHABET[arrays["letter"]]
    kept = np.isin(label, np.unique(PAIRS))
    sample, y, code = pair_classes(label[kept], PAIRS)
    return TaskSet(
        name=LETTER.name,
        kind="classification",
        originals=arrays["X"][kept],
        sample=sample,
        y=y,
        code=code,
        feature_names=name_pixels(HEIGHT, WIDTH),
        task_names=tuple(f"{a} vs {b}" for a, b in PAIRS),
        description=DESCRIPTION,
        quirks=QUIRKS,
        source=LETTER.origin,
        classes=tuple(PAIRS),
        label=label[kept],
        group=arrays["word"][kept].astype(np.intp),
        image_shape=(HEIGHT, WIDTH),
    )


def convert_letter(originals: Sequence[Path]) -> Arrays:
    """Arrays from letter.data (plain or gzipped) or ocr_taskar.mat."""
    (path,) = take_files(originals, 1, "letter.data.gz or ocr_taskar.mat")
    return _from_mat(path) if path.suffix == ".mat" else _from_text(path)


def _from_text(path: Path) -> Arrays:
    """Lines of id, letter, next id, word, position, fold and 128 pixels, with tabs.

    Words of fold 0 come first, all in their order in the file.
    """
    lines = read_text(path, "\t")
    if not lines or {len(line) for line in lines} != {LEADING + PIXELS}:
        raise DataFileError(
            f"{path} must hold {LEADING + PIXELS} fields, separated by tabs, per line."
        )
    fields = np.array(lines)
    word = to_integers("word_id", fields[:, 3], "int32")
    first = np.r_[True, word[1:] != word[:-1]]
    fold = to_integers("fold", fields[:, 5], "uint8")
    order = np.argsort(fold != 0, kind="stable")
    pixels = to_integers("pixels", fields[:, LEADING:], "uint8")
    letter = _read_letters(path, fields[:, 1])
    return _arrays(pixels[order], letter[order], first[order], (fold == 0)[order])


def _read_letters(path: Path, letters: np.ndarray) -> np.ndarray:
    if not np.isin(letters, ALPHABET).all():
        raise DataFileError(f"{path} must hold a letter from a to z in each line.")
    return np.searchsorted(ALPHABET, letters)


def _from_mat(path: Path) -> Arrays:
    """Cell arrays with one entry per word, pixels (and a bias) column by column."""
    variables = read_mat(path)
    parts = {
        part: (
            [_pixels(path, word) for word in _words(path, variables, "patterns", part)],
            [np.ravel(word) for word in _words(path, variables, "labels", part)],
        )
        for part in ("train", "test")
    }
    images = [word for patterns, _ in parts.values() for word in patterns]
    labels = [word for _, letters in parts.values() for word in letters]
    lengths = np.array([len(word) for word in labels])
    if [len(word) for word in images] != lengths.tolist() or not np.all(lengths):
        raise DataFileError(f"{path} must hold one label per letter of each word.")
    first = np.zeros(lengths.sum(), dtype=bool)
    first[np.r_[0, np.cumsum(lengths)[:-1]]] = True
    n_train = sum(map(len, parts["train"][1]))
    pixels = to_integers("patterns", np.concatenate(images), "uint8")
    letter = to_integers("labels", np.concatenate(labels), "uint8")
    train = np.arange(len(letter)) < n_train
    return _arrays(flip_pixels(pixels, HEIGHT, WIDTH), letter, first, train)


def _words(path: Path, variables: dict[str, np.ndarray], what: str, part: str) -> list:
    name = f"{what}_{part}"
    return list(cells(name, first_of(path, variables, name)))


def _pixels(path: Path, word: np.ndarray) -> np.ndarray:
    """Pixels of a word's letters (k, 128), without the bias; maybe inside a struct."""
    if word.dtype.names and "data" in word.dtype.names:
        word = word["data"].ravel()[0]
    if word.ndim != 2 or word.shape[0] not in {PIXELS, PIXELS + 1}:
        raise DataFileError(f"{path} must hold {PIXELS} pixels per letter.")
    return word[:PIXELS].T


def _arrays(
    pixels: np.ndarray, letter: np.ndarray, first: np.ndarray, train: np.ndarray
) -> Arrays:
    """Arrays of the file; words are counted by their first letters."""
    word = np.cumsum(first) - 1
    return {
        "X": np.ascontiguousarray(pixels),
        "letter": letter.astype("uint8"),
        "word": word.astype("int16"),
        "position": (np.arange(len(word)) - np.flatnonzero(first)[word]).astype(
            "uint8"
        ),
        "train_part": train,
    }


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
    n_tasks=len(PAIRS),
    kind="classification",
    origin="Ben Taskar's OCR data, ai.stanford.edu/~btaskar/ocr",
    originals=("letter.data.gz",),
    convert=convert_letter,
)
