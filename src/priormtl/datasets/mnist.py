"""MNIST: the official test images, one task per pair of digits."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from priormtl.datasets.files import Arrays, Expected, Folder, Source, read_arrays
from priormtl.datasets.originals import read_idx, take_files
from priormtl.datasets.task_set import TaskSet, name_pixels, pair_classes
from priormtl.exceptions import DataFileError

__all__ = ["MNIST", "convert_mnist", "load_mnist"]

SIDE = 28
DESCRIPTION = (
    "Handwritten digits, the official test set of 10000 images, 28 x 28 grey pixels: "
    "one task for each of the 45 pairs of digits."
)
QUIRKS = (
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
    pairs = list(combinations(range(10), 2))
    sample, y, code = pair_classes(arrays["digit"], pairs)
    return TaskSet(
        name=MNIST.name,
        kind="classification",
        originals=arrays["X"],
        sample=sample,
        y=y,
        code=code,
        feature_names=name_pixels(SIDE, SIDE),
        task_names=tuple(f"{a} vs {b}" for a, b in pairs),
        description=DESCRIPTION,
        quirks=QUIRKS,
        source=MNIST.origin,
        classes=tuple((f"{a}", f"{b}") for a, b in pairs),
        label=arrays["digit"],
        image_shape=(SIDE, SIDE),
    )


def convert_mnist(originals: Sequence[Path]) -> Arrays:
    """Arrays from images and labels, in either order."""
    first, second = map(read_idx, take_files(originals, 2, " and ".join(FILES)))
    images, digits = (first, second) if first.ndim == 3 else (second, first)
    if images.shape != (len(digits), SIDE, SIDE) or digits.ndim != 1:
        raise DataFileError(
            f"give images of {SIDE} x {SIDE} pixels and one label per image: got files "
            f"of shape {first.shape} and {second.shape}."
        )
    return {"X": images.reshape(len(digits), -1), "digit": digits}


FILES = ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")
MNIST = Source(
    name="mnist",
    title="MNIST (test set)",
    file="mnist10k.npz",
    arrays={
        "X": Expected(
            (10000, 784),
            "|u1",
            "a2a8de1edecac6b347b910d4aa2eaebf625ca8f5fb606a52393d46c277113634",
        ),
        "digit": Expected(
            (10000,),
            "|u1",
            "76ba51f7d0e782ba9dbef10071337cc0af4a587046c8f71c38920af74747b571",
        ),
    },
    shape=(90000, 784),
    n_tasks=45,
    kind="classification",
    origin="LeCun, Cortes and Burges, yann.lecun.com/exdb/mnist",
    originals=FILES,
    convert=convert_mnist,
)
