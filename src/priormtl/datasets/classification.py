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
    Source,
    cells,
    first_of,
    flip_pixels,
    read_arrays,
    read_expected,
    read_idx,
    read_lines,
    read_mat,
    take_files,
    to_integers,
)
from priormtl.datasets.task_set import TaskSet, name_pixels, pair_tasks
from priormtl.exceptions import DataFileError

FACE_SIDE = 32
DIGIT_SIDE = 28
FACES = "Deng Cai's face data, cad.zju.edu.cn/home/dengcai/Data/FaceData.html"


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
YALE_DESCRIPTION = (
    "Faces of the first 8 of 15 people, 11 images each, 32 x 32 grey pixels: one task "
    "for each of the 28 pairs of people."
)
YALE_QUIRKS = (
    "More pixels (1024) than images (88); grey values from 0 to 255.",
    "An image stands in 7 tasks: split images, not rows (see find).",
    "Images of a person come in one order: centre light, glasses, happy, left light, "
    "no glasses, normal, right light, sad, sleepy, surprised, wink.",
)


def load_yale(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load 28 pairs of people: 88 images, 616 rows, 1024 pixels, classification.

    Parameters are those of :func:`load_school`. Tasks are "subject 0 vs 1" and so on;
    the second one named is +1.
    """
    arrays = read_arrays(YALE, data_home=data_home, verify=verify)
    kept = arrays["subject"] < YALE_SUBJECTS
    return pair_tasks(
        YALE,
        arrays["X"][kept],
        arrays["subject"][kept],
        list(combinations(range(YALE_SUBJECTS), 2)),
        prefix="subject ",
        feature_names=name_pixels(FACE_SIDE, FACE_SIDE),
        description=YALE_DESCRIPTION,
        quirks=YALE_QUIRKS,
        image_shape=(FACE_SIDE, FACE_SIDE),
    )


YALE_ARRAYS = """
X 165x1024 |u1 eefdae32a21b527231c3015ce114d800cb054114134a9ef5369415cad9445715
subject 165 |u1 4d85758730d163cda78f6d4c59908a5d255187a1b41508d2bc4a041d69aad20f
"""
YALE = Source(
    name="yale",
    title="Yale faces",
    file="yale.npz",
    arrays=read_expected(YALE_ARRAYS),
    shape=(616, 1024),
    n_tasks=28,
    kind="classification",
    origin=FACES,
    originals=("Yale_32x32.mat",),
    convert=convert_faces,
)


# ORL.

ORL_SUBJECTS = 40
ORL_DESCRIPTION = (
    "Faces of 40 people, 10 images each, 32 x 32 grey pixels: one task for each person "
    "against all others, on a shared X."
)
ORL_QUIRKS = (
    "More pixels (1024) than images (400); grey values from 2 to 235.",
    "Each task has 10 positive images and 390 negative ones: split within subjects "
    "(see label).",
)


def load_orl(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load 40 people, each against the rest: 400 images, 1024 pixels, classification.

    Parameters are those of :func:`load_school`; ``y`` is (400, 40), +1 in the column
    of an image's own person, ``task`` None.
    """
    arrays = read_arrays(ORL, data_home=data_home, verify=verify)
    label = arrays["subject"]
    own = label[:, np.newaxis] == np.arange(ORL_SUBJECTS)
    names = tuple(f"subject {i:02d}" for i in range(ORL_SUBJECTS))
    return TaskSet(
        name=ORL.name,
        kind="classification",
        originals=arrays["X"],
        sample=np.arange(len(label)),
        y=np.where(own, 1.0, -1.0),
        code=None,
        feature_names=name_pixels(FACE_SIDE, FACE_SIDE),
        task_names=names,
        description=ORL_DESCRIPTION,
        quirks=ORL_QUIRKS,
        source=ORL.origin,
        classes=tuple(("others", name) for name in names),
        label=label,
        image_shape=(FACE_SIDE, FACE_SIDE),
    )


ORL_ARRAYS = """
X 400x1024 |u1 60429f9a99b472d551f8ae4ea6b5bcbbe06b41d2fb8e6d4e44325593736c807a
subject 400 |u1 1a66f9cbf8ec4ca91567f48b6b8a5ed11e6f7d9e0ee36319bbe26d42e89ebe36
"""
ORL = Source(
    name="orl",
    title="ORL faces (AT&T)",
    file="orl.npz",
    arrays=read_expected(ORL_ARRAYS),
    shape=(400, 1024),
    n_tasks=ORL_SUBJECTS,
    kind="classification",
    origin=FACES,
    originals=("ORL_32x32.mat",),
    convert=convert_faces,
)


# MNIST.

MNIST_FILES = ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")
MNIST_DESCRIPTION = (
    "Handwritten digits, the official test set of 10000 images, 28 x 28 grey pixels: "
    "one task for each of the 45 pairs of digits."
)
MNIST_QUIRKS = (
    "An image stands in 9 tasks: split images, not rows (see find).",
    "All 90000 rows take 565 MB as float64: take those you need (see rows).",
    "The first 5000 images are cleaner than the last 5000: shuffle.",
    "116 of 784 pixels are always 0; grey values from 0 to 255.",
)


def load_mnist(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load 45 pairs of digits: 10000 images, 90000 rows, 784 pixels, classification.

    Parameters are those of :func:`load_school`. Tasks are "0 vs 1" and so on; the
    second digit named is +1.
    """
    arrays = read_arrays(MNIST, data_home=data_home, verify=verify)
    return pair_tasks(
        MNIST,
        arrays["X"],
        arrays["digit"],
        list(combinations(range(10), 2)),
        feature_names=name_pixels(DIGIT_SIDE, DIGIT_SIDE),
        description=MNIST_DESCRIPTION,
        quirks=MNIST_QUIRKS,
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


MNIST_ARRAYS = """
X 10000x784 |u1 a2a8de1edecac6b347b910d4aa2eaebf625ca8f5fb606a52393d46c277113634
digit 10000 |u1 76ba51f7d0e782ba9dbef10071337cc0af4a587046c8f71c38920af74747b571
"""
MNIST = Source(
    name="mnist",
    title="MNIST (test set)",
    file="mnist10k.npz",
    arrays=read_expected(MNIST_ARRAYS),
    shape=(90000, 784),
    n_tasks=45,
    kind="classification",
    origin="LeCun, Cortes and Burges, yann.lecun.com/exdb/mnist",
    originals=MNIST_FILES,
    convert=convert_mnist,
)


# Handwritten letters, as images.

SHAPE = (16, 8)
PIXELS = 16 * 8
ALPHABET = np.array(list("abcdefghijklmnopqrstuvwxyz"))
PAIRS = [(a, b) for a, b in ("ag", "ao", "ce", "ft", "gy", "hn", "ij", "mn")]
LEADING = 6  # fields of letter.data before the pixels
ZERO = ord("0")
NOTHING = np.zeros((PIXELS, 0))
LETTER_DESCRIPTION = (
    "Handwritten lower-case letters, 16 x 8 black or white pixels (Kassel, cleaned by "
    "Taskar): one task for each of 8 pairs that are easily confused."
)
LETTER_QUIRKS = (
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
        description=LETTER_DESCRIPTION,
        quirks=LETTER_QUIRKS,
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


LETTER_ARRAYS = """
X 52152x128 |u1 541bc7ca09ffdcb38b936e108b39584ce021775d86af775ba2cfc78566d79ef9
letter 52152 |u1 621eb8a4917af66921a941647753d18bde25bb64ac9abe99f4b529e74969c1b1
word 52152 <i2 6d9d821d7039d9c9e3bfa9e0a6d890e88d835d2b8c5acaebd1bccdfd2cc070c4
position 52152 |u1 ad88637e49907d373ff86e42b04f77614da841627407da04e631608dafea4235
train_part 52152 |b1 6d5ffdc3ffde090f9c9310e7225f06ac9fe3c6567f0ad864f2b9b8b2947bf252
"""
LETTER = Source(
    name="letter",
    title="Letter (handwritten)",
    file="letter_ocr.npz",
    arrays=read_expected(LETTER_ARRAYS),
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


LETTER_UCI_ARRAYS = """
X 20000x16 |u1 b6f27b9f4a1ab326d93d6a210df716150838ff7e2150781d5bfba439bbbe7546
letter 20000 |u1 03a441a459d787ae2ddbb75971307a760d5e37b3a5e0b7667b3174dc3d8ae707
"""
LETTER_UCI = Source(
    name="letter_uci",
    title="Letter (printed, UCI)",
    file="letter_uci.npz",
    arrays=read_expected(LETTER_UCI_ARRAYS),
    shape=(12332, 16),
    n_tasks=len(UCI_PAIRS),
    kind="classification",
    origin="UCI Machine Learning Repository, Letter Recognition",
    originals=("letter-recognition.data",),
    convert=convert_letter_uci,
)
