"""Regression: exam scores of schools, and torques of a robot arm.

School has one task per school, with pupils of its own. Sarcos has one task per torque;
all seven are measured at the same rows, or each at rows of its own (``_one``).
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from priormtl.datasets import files
from priormtl.datasets.task_set import TaskSet, build_task_set
from priormtl.exceptions import DataFileError

# School.

ETHNIC = (
    *("eswi", "african", "arab", "bangladeshi", "caribbean", "greek", "indian"),
    *("pakistani", "se_asian", "turkish", "other"),
)
COLUMNS = (
    *("year_1985", "year_1986", "year_1987"),
    *("school_pct_free_meals", "school_pct_vr_band1"),
    *("pupil_female", "pupil_male"),
    *("pupil_vr_band3", "pupil_vr_band1", "pupil_vr_band2"),
    *(f"ethnic_{group}" for group in ETHNIC),
    *("school_mixed", "school_boys", "school_girls"),
    *("school_maintained", "school_church_of_england", "school_roman_catholic"),
    "bias",
)


def load_school(*, data_home: files.Folder = None, verify: bool = True) -> TaskSet:
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
    arrays = files.read_arrays(SCHOOL, data_home=data_home, verify=verify)
    columns = arrays["columns"].tolist()
    kept = [position for position, name in enumerate(columns) if name != "bias"]
    return build_task_set(
        SCHOOL,
        originals=arrays["X"][:, kept],
        sample=np.arange(len(arrays["y"])),
        y=arrays["y"].astype(np.float64),
        code=arrays["task"].astype(np.intp),
        feature_names=tuple(columns[position] for position in kept),
        task_names=tuple(f"school {i:03d}" for i in range(SCHOOL.n_tasks)),
    )


def convert_school(originals: Sequence[Path]) -> files.Arrays:
    """Arrays from school.mat: cell arrays X and Y with one entry per school."""
    (path,) = files.take_files(originals, 1, "school.mat")
    variables = files.read_mat(path)
    X = [
        np.atleast_2d(x) for x in files.cells("X", files.first_of(path, variables, "X"))
    ]
    y = [np.ravel(y) for y in files.cells("Y", files.first_of(path, variables, "Y"))]
    widths = {x.shape[1] for x in X}
    if widths != {len(COLUMNS)} or [len(x) for x in X] != [len(part) for part in y]:
        raise DataFileError(
            f"{path} must hold {len(COLUMNS)} columns and one score per pupil in each "
            "school."
        )
    return {
        "X": files.to_integers("X", np.concatenate(X), "uint8"),
        "y": files.to_integers("Y", np.concatenate(y), "uint8"),
        "task": np.repeat(np.arange(len(y)), [len(part) for part in y]).astype("int16"),
        "columns": np.array(COLUMNS),
    }


SCHOOL = files.describe_source("school", convert_school)


# Sarcos.

JOINTS = 7
FEATURES = tuple(
    f"{what} {joint}"
    for what in ("position", "velocity", "acceleration")
    for joint in range(JOINTS)
)
TORQUES = tuple(f"torque {joint}" for joint in range(JOINTS))


def load_sarcos(*, data_home: files.Folder = None, verify: bool = True) -> TaskSet:
    """Load the Sarcos test set: seven torques of a robot arm (regression).

    There are 4449 rows and 21 features, and all torques share X.

    Parameters
    ----------
    data_home, verify
        See :func:`load_school`.

    Returns
    -------
    TaskSet
        Data set that can be unpacked as ``X, y, task``, with ``y`` (4449, 7) and
        ``task`` None. Use ``load_sarcos().stacked()`` for separate rows per torque.
    """
    arrays = files.read_arrays(SARCOS, data_home=data_home, verify=verify)
    return build_task_set(
        SARCOS,
        originals=arrays["X"],
        sample=np.arange(len(arrays["X"])),
        y=np.ascontiguousarray(arrays["Y"]),
        code=None,
        feature_names=FEATURES,
        task_names=TORQUES,
    )


def load_sarcos_one(*, data_home: files.Folder = None, verify: bool = True) -> TaskSet:
    """Load rows of Sarcos with one torque each (regression).

    There are 5608 rows, 7 tasks and 21 features. These rows are in no public original,
    only in the prepared file.

    Parameters
    ----------
    data_home, verify
        See :func:`load_school`.

    Returns
    -------
    TaskSet
        Data set that can be unpacked as ``X, y, task``.
    """
    arrays = files.read_arrays(
        SARCOS, SARCOS.extras, data_home=data_home, verify=verify
    )
    X = np.ascontiguousarray(arrays["X_one"])
    return build_task_set(
        SARCOS_ONE,
        originals=X,
        sample=np.arange(len(X)),
        y=arrays["y_one"],
        code=arrays["task_one"].astype(np.intp),
        feature_names=FEATURES,
        task_names=TORQUES,
        group=np.unique(X, axis=0, return_inverse=True)[1].ravel(),
    )


def convert_sarcos(originals: Sequence[Path]) -> files.Arrays:
    """Arrays from sarcos_inv_test.mat: 21 inputs and 7 torques side by side."""
    (path,) = files.take_files(originals, 1, "sarcos_inv_test.mat")
    table = files.first_of(path, files.read_mat(path), "sarcos_inv_test")
    width = len(FEATURES) + len(TORQUES)
    if table.ndim != 2 or table.shape[1] != width or table.dtype.kind != "f":
        raise DataFileError(f"{path} must hold a table of {width} columns of numbers.")
    # Values were published with 6 decimals; copies in single precision lose some.
    X, Y = np.split(table.astype(np.float64).round(6), [len(FEATURES)], axis=1)
    return {"X": np.ascontiguousarray(X), "Y": np.ascontiguousarray(Y)}


SARCOS = files.describe_source("sarcos", convert_sarcos)
SARCOS_ONE = replace(SARCOS, name="sarcos_one", **files.read_notes("sarcos_one"))
