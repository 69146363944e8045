"""Images: faces of Yale and ORL, and digits of MNIST.

Yale and MNIST have one task per pair of classes, ORL one task per person against the
rest. An image belongs to several tasks, so images must be split, not rows.
"""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from priormtl.datasets.files import (
    Arrays,
    Expected,
    Folder,
    Source,
    first_of,
    flip_pixels,
    read_arrays,
    read_idx,
    read_mat,
    take_files,
    to_integers,
)
from priormtl.datasets.task_set import TaskSet, name_pixels, pair_tasks
from priormtl.exceptions import DataFileError

__all__ = [
    "MNIST",
    "ORL",
    "YALE",
    "convert_faces",
    "convert_mnist",
    "load_mnist",
    "load_orl",
    "load_yale",
]

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
    """Load the Yale data set: faces of 28 pairs of people (classification).

    There are 88 images, 616 rows and 1024 pixels.

    Parameters
    ----------
    data_home, verify
        See :func:`load_school`.

    Returns
    -------
    TaskSet
        Data set that can be unpacked as ``X, y, task``. Tasks are "subject 0 vs 1"
        and so on; the second person is +1.
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


YALE = Source(
    name="yale",
    title="Yale faces",
    file="yale.npz",
    arrays={
        "X": Expected(
            (165, 1024),
            "|u1",
            "eefdae32a21b527231c3015ce114d800cb054114134a9ef5369415cad9445715",
        ),
        "subject": Expected(
            (165,),
            "|u1",
            "4d85758730d163cda78f6d4c59908a5d255187a1b41508d2bc4a041d69aad20f",
        ),
    },
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
    """Load the ORL data set: 40 people, each against the rest (classification).

    There are 400 images and 1024 pixels. All tasks share X.

    Parameters
    ----------
    data_home, verify
        See :func:`load_school`.

    Returns
    -------
    TaskSet
        Data set with ``y`` of shape (400, 40) and ``task`` None. ``y`` is +1 in the
        column of the person in the image.
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


ORL = Source(
    name="orl",
    title="ORL faces (AT&T)",
    file="orl.npz",
    arrays={
        "X": Expected(
            (400, 1024),
            "|u1",
            "60429f9a99b472d551f8ae4ea6b5bcbbe06b41d2fb8e6d4e44325593736c807a",
        ),
        "subject": Expected(
            (400,),
            "|u1",
            "1a66f9cbf8ec4ca91567f48b6b8a5ed11e6f7d9e0ee36319bbe26d42e89ebe36",
        ),
    },
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
    """Load the MNIST data set: 45 pairs of digits (classification).

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
    originals=MNIST_FILES,
    convert=convert_mnist,
)
