"""Letters of the UCI repository: printed capitals, the same pairs as Letter."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from priormtl.datasets.files import Arrays, Expected, Folder, Source, read_arrays
from priormtl.datasets.letter import PAIRS as LOWER_PAIRS
from priormtl.datasets.originals import read_lines, take_files, to_integers
from priormtl.datasets.task_set import TaskSet, pair_classes
from priormtl.exceptions import DataFileError

__all__ = ["LETTER_UCI", "convert_letter_uci", "load_letter_uci"]

ALPHABET = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
PAIRS = [(a.upper(), b.upper()) for a, b in LOWER_PAIRS]
FEATURES = (
    *("x-box", "y-box", "width", "high", "onpix", "x-bar", "y-bar", "x2bar"),
    *("y2bar", "xybar", "x2ybr", "xy2br", "x-ege", "xegvy", "y-ege", "yegvx"),
)
DESCRIPTION = (
    "Printed capital letters in 20 distorted fonts, described by 16 integers from 0 to "
    "15 (Frey and Slate 1991): one task for each of the 8 pairs of Letter."
)
QUIRKS = (
    "Features are statistics of an image, not pixels.",
    "A, G and N stand in two tasks: split letters, not rows (see find).",
    "1332 of all 20000 rows repeat an earlier row, so that copies may stand on both "
    "sides of a split.",
)


def load_letter_uci(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load 8 pairs of printed capitals, 16 features, classification.

    Parameters are those of :func:`load_school`. Tasks are "A vs G" and so on; the
    second letter named is +1.
    """
    arrays = read_arrays(LETTER_UCI, data_home=data_home, verify=verify)
    label = ALPHABET[arrays["letter"]]
    kept = np.isin(label, np.unique(PAIRS))
    sample, y, code = pair_classes(label[kept], PAIRS)
    return TaskSet(
        name=LETTER_UCI.name,
        kind="classification",
        originals=arrays["X"][kept],
        sample=sample,
        y=y,
        code=code,
        feature_names=FEATURES,
        task_names=tuple(f"{a} vs {b}" for a, b in PAIRS),
        description=DESCRIPTION,
        quirks=QUIRKS,
        source=LETTER_UCI.origin,
        classes=tuple(PAIRS),
        label=label[kept],
    )


def convert_letter_uci(originals: Sequence[Path]) -> Arrays:
    """Arrays from letter-recognition.data: a letter and 16 integers per line."""
    (path,) = take_files(originals, 1, "letter-recognition.data")
    lines = [line.split(",") for line in read_lines(path)]
    if {len(line) for line in lines} != {1 + len(FEATURES)}:
        raise DataFileError(
            f"{path} must hold a letter and {len(FEATURES)} integers, separated by "
            "commas, per line."
        )
    fields = np.array(lines)
    if not np.isin(fields[:, 0], ALPHABET).all():
        raise DataFileError(f"{path} must hold a letter from A to Z in each line.")
    return {
        "X": to_integers("features", fields[:, 1:], "uint8"),
        "letter": np.searchsorted(ALPHABET, fields[:, 0]).astype("uint8"),
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
    n_tasks=len(PAIRS),
    kind="classification",
    origin="UCI Machine Learning Repository, Letter Recognition",
    originals=("letter-recognition.data",),
    convert=convert_letter_uci,
)
