"""Sarcos: inverse dynamics of a robot arm, one regression per torque."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from priormtl.datasets.files import (
    Arrays,
    Expected,
    Folder,
    Source,
    first_of,
    read_arrays,
    read_mat,
    take_files,
)
from priormtl.datasets.task_set import TaskSet
from priormtl.exceptions import DataFileError

__all__ = ["SARCOS", "convert_sarcos", "load_sarcos", "load_sarcos_one"]

JOINTS = 7
FEATURES = tuple(
    f"{what} {joint}"
    for what in ("position", "velocity", "acceleration")
    for joint in range(JOINTS)
)
TORQUES = tuple(f"torque {joint}" for joint in range(JOINTS))
DESCRIPTION = (
    "Seven torques of a robot arm from positions, velocities and accelerations of its "
    "seven joints: the published test file, 4449 rows, all torques on a shared X."
)
DESCRIPTION_ONE = (
    "Seven torques of a robot arm from positions, velocities and accelerations of its "
    "seven joints: 5608 further rows with one torque each, so that tasks have rows of "
    "their own."
)
SCALES = (
    "Torques differ in scale (standard deviations from 0.97 to 20.4), inputs too: "
    "standardise, and divide errors by each torque's variance."
)
QUIRKS = (
    "A tenth of the full set: the training file of 44484 rows is not part of it.",
    "Rows are in time order and neighbours are close: a random split is optimistic, "
    "contiguous blocks are stricter.",
    SCALES,
)
QUIRKS_ONE = (
    "By all signs sampled from the training file; no row of load_sarcos is among them.",
    "5284 inputs are distinct: rows with equal inputs share a group.",
    SCALES,
)


def load_sarcos(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load the Sarcos data set: seven torques of a robot arm (regression).

    There are 4449 rows and 21 features. All tasks share X.

    Parameters
    ----------
    data_home, verify
        See :func:`load_school`.

    Returns
    -------
    TaskSet
        Data set with ``y`` of shape (4449, 7) and ``task`` None.
        ``load_sarcos().stacked()`` has separate rows for each task.
    """
    arrays = read_arrays(SARCOS, data_home=data_home, verify=verify)
    return TaskSet(
        name=SARCOS.name,
        kind="regression",
        originals=arrays["X"],
        sample=np.arange(len(arrays["X"])),
        y=np.ascontiguousarray(arrays["Y"]),
        code=None,
        feature_names=FEATURES,
        task_names=TORQUES,
        description=DESCRIPTION,
        quirks=QUIRKS,
        source=SARCOS.origin,
    )


def load_sarcos_one(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load rows of a robot arm with one torque each: 7 tasks (regression).

    There are 5608 rows and 21 features. These rows have no public original; they are
    available in the prepared file only.

    Parameters
    ----------
    data_home, verify
        See :func:`load_school`.

    Returns
    -------
    TaskSet
        Data set that can be unpacked as ``X, y, task``.
    """
    arrays = read_arrays(SARCOS, SARCOS.extras, data_home=data_home, verify=verify)
    X = np.ascontiguousarray(arrays["X_one"])
    return TaskSet(
        name="sarcos_one",
        kind="regression",
        originals=X,
        sample=np.arange(len(X)),
        y=arrays["y_one"],
        code=arrays["task_one"].astype(np.intp),
        feature_names=FEATURES,
        task_names=TORQUES,
        description=DESCRIPTION_ONE,
        quirks=QUIRKS_ONE,
        source="a sample of the training file, repacked with the test file",
        group=np.unique(X, axis=0, return_inverse=True)[1].ravel(),
    )


def convert_sarcos(originals: Sequence[Path]) -> Arrays:
    """Arrays from sarcos_inv_test.mat: 21 inputs and 7 torques side by side."""
    (path,) = take_files(originals, 1, "sarcos_inv_test.mat")
    table = first_of(path, read_mat(path), "sarcos_inv_test")
    width = len(FEATURES) + len(TORQUES)
    if table.ndim != 2 or table.shape[1] != width or table.dtype.kind != "f":
        raise DataFileError(f"{path} must hold a table of {width} columns of numbers.")
    # Values were published with 6 decimals; copies in single precision lose some.
    X, Y = np.split(table.astype(np.float64).round(6), [len(FEATURES)], axis=1)
    return {"X": np.ascontiguousarray(X), "Y": np.ascontiguousarray(Y)}


SARCOS = Source(
    name="sarcos",
    title="Sarcos (robot arm)",
    file="sarcos.npz",
    arrays={
        "X": Expected(
            (4449, 21),
            "<f8",
            "f55cec0b617a37318ea1ee3f8be5c77a5871c8872bacdbcc8ccd025589daf0f6",
        ),
        "Y": Expected(
            (4449, 7),
            "<f8",
            "b3e02d0776d0604082a4df23b1cf3cd6eaadd971732d101f894c5303992a7a89",
        ),
        "X_one": Expected(
            (5608, 21),
            "<f8",
            "9fc4507c4b41f10c02f0581a3d5024aa541b458c130e479af18f69869e2f7d54",
        ),
        "y_one": Expected(
            (5608,),
            "<f8",
            "1f422a32c571c759ae49ed45d5f7b1c3d7709dcba536e2d84fb8568658c0346d",
        ),
        "task_one": Expected(
            (5608,),
            "|i1",
            "616645908b18cb11ae046fe37497068395e55309018806ce0f865bee0a278597",
        ),
    },
    shape=(4449, 21),
    n_tasks=JOINTS,
    kind="regression",
    origin="Gaussian Processes for Machine Learning, gaussianprocess.org/gpml/data",
    originals=("sarcos_inv_test.mat",),
    convert=convert_sarcos,
    extras=("X_one", "y_one", "task_one"),
)
