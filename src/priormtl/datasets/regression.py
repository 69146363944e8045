"""Regression: exam scores of schools, and torques of a robot arm.

School has one task per school, with pupils of its own. Sarcos has one task per torque;
all seven are measured at the same rows, or each at rows of its own (``_one``).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from priormtl.datasets.files import (
    Arrays,
    Folder,
    Source,
    cells,
    first_of,
    read_arrays,
    read_expected,
    read_mat,
    take_files,
    to_integers,
)
from priormtl.datasets.task_set import TaskSet
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
SCHOOL_DESCRIPTION = (
    "Exam scores of 15362 pupils in 139 London secondary schools, 1985 to 1987 (Inner "
    "London Education Authority): one regression per school on attributes of pupil "
    "and school."
)
SCHOOL_QUIRKS = (
    "The file's constant column 'bias' is left out: intercepts do its work.",
    "One-hot blocks sum to 1, so that the rank of X is 23, not 27; 15 pupils have "
    "no verbal-reasoning band.",
    "Inside one school 6 to 21 of the 27 columns are constant.",
    "The two percentages run from 0 to 100, all other columns are 0 or 1: scale them "
    "before penalising.",
    "Rows are in year order within a school: shuffle before splitting.",
    "Schools have 22 to 251 pupils; 11358 rows repeat another row's school and "
    "attributes, so noise is large.",
    "The source names no columns; the names follow the published code book.",
)


def load_school(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load exam scores of 139 schools: 15362 rows, 27 features, regression.

    Parameters
    ----------
    data_home : path, optional
        Folder of data sets; the one that PRIORMTL_DATA names by default.
    verify : bool
        Refuse a file whose contents differ from the published ones.

    Returns
    -------
    TaskSet
        X, y, task, with names and notes. Tasks are "school 000" to "school 138".
    """
    arrays = read_arrays(SCHOOL, data_home=data_home, verify=verify)
    columns = arrays["columns"].tolist()
    kept = [position for position, name in enumerate(columns) if name != "bias"]
    return TaskSet(
        name=SCHOOL.name,
        kind="regression",
        originals=arrays["X"][:, kept],
        sample=np.arange(len(arrays["y"])),
        y=arrays["y"].astype(np.float64),
        code=arrays["task"].astype(np.intp),
        feature_names=tuple(columns[position] for position in kept),
        task_names=tuple(f"school {i:03d}" for i in range(SCHOOL.n_tasks)),
        description=SCHOOL_DESCRIPTION,
        quirks=SCHOOL_QUIRKS,
        source=SCHOOL.origin,
    )


def convert_school(originals: Sequence[Path]) -> Arrays:
    """Arrays from school.mat: cell arrays X and Y with one entry per school."""
    (path,) = take_files(originals, 1, "school.mat")
    variables = read_mat(path)
    X = [np.atleast_2d(x) for x in cells("X", first_of(path, variables, "X"))]
    y = [np.ravel(y) for y in cells("Y", first_of(path, variables, "Y"))]
    widths = {x.shape[1] for x in X}
    if widths != {len(COLUMNS)} or [len(x) for x in X] != [len(part) for part in y]:
        raise DataFileError(
            f"{path} must hold {len(COLUMNS)} columns and one score per pupil in each "
            "school."
        )
    return {
        "X": to_integers("X", np.concatenate(X), "uint8"),
        "y": to_integers("Y", np.concatenate(y), "uint8"),
        "task": np.repeat(np.arange(len(y)), [len(part) for part in y]).astype("int16"),
        "columns": np.array(COLUMNS),
    }


SCHOOL_ARRAYS = """
X 15362x28 |u1 bda3d84fe0929133d312c95823422de195ccae01665c6f2ddf346c958dd397c0
y 15362 |u1 948a0cf7af68372d9c4dedc0162d6bc21f69e5558255ede579a81f366453d6a6
task 15362 <i2 6da43b74e037723894b20b5e780a5f14c1d6bf403060bc82f7776621c21f3d74
columns 28 <U24 63cf1e2f593c3400d77f822a9f3ee65e03a480d4f358ea1977e9ce27de204713
"""
SCHOOL = Source(
    name="school",
    title="School (ILEA exam scores)",
    file="school.npz",
    arrays=read_expected(SCHOOL_ARRAYS),
    shape=(15362, 27),
    n_tasks=139,
    kind="regression",
    origin="data/school.mat of MALSAR, github.com/jiayuzhou/MALSAR",
    originals=("school.mat",),
    convert=convert_school,
)


# Sarcos.

JOINTS = 7
FEATURES = tuple(
    f"{what} {joint}"
    for what in ("position", "velocity", "acceleration")
    for joint in range(JOINTS)
)
TORQUES = tuple(f"torque {joint}" for joint in range(JOINTS))
SARCOS_DESCRIPTION = (
    "Seven torques of a robot arm from positions, velocities and accelerations of its "
    "seven joints: the published test file, 4449 rows, all torques on a shared X."
)
SARCOS_ONE_DESCRIPTION = (
    "Seven torques of a robot arm from positions, velocities and accelerations of its "
    "seven joints: 5608 further rows with one torque each, so that tasks have rows of "
    "their own."
)
SCALES = (
    "Torques differ in scale (standard deviations from 0.97 to 20.4), inputs too: "
    "standardise, and divide errors by each torque's variance."
)
SARCOS_QUIRKS = (
    "A tenth of the full set: the training file of 44484 rows is not part of it.",
    "Rows are in time order and neighbours are close: a random split is optimistic, "
    "contiguous blocks are stricter.",
    SCALES,
)
SARCOS_ONE_QUIRKS = (
    "By all signs sampled from the training file; no row of load_sarcos is among them.",
    "5284 inputs are distinct: rows with equal inputs share a group.",
    SCALES,
)


def load_sarcos(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load seven torques of a robot arm: 4449 rows, 21 features, shared X, regression.

    Parameters are those of :func:`load_school`; ``y`` is (4449, 7), ``task`` None.
    ``load_sarcos().stacked()`` gives every torque rows of its own.
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
        description=SARCOS_DESCRIPTION,
        quirks=SARCOS_QUIRKS,
        source=SARCOS.origin,
    )


def load_sarcos_one(*, data_home: Folder = None, verify: bool = True) -> TaskSet:
    """Load rows with one torque each: 5608 rows, 7 tasks, 21 features, regression.

    Parameters are those of :func:`load_school`. No public original holds these rows;
    they are in the prepared file only.
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
        description=SARCOS_ONE_DESCRIPTION,
        quirks=SARCOS_ONE_QUIRKS,
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


SARCOS_ARRAYS = """
X 4449x21 <f8 f55cec0b617a37318ea1ee3f8be5c77a5871c8872bacdbcc8ccd025589daf0f6
Y 4449x7 <f8 b3e02d0776d0604082a4df23b1cf3cd6eaadd971732d101f894c5303992a7a89
X_one 5608x21 <f8 9fc4507c4b41f10c02f0581a3d5024aa541b458c130e479af18f69869e2f7d54
y_one 5608 <f8 1f422a32c571c759ae49ed45d5f7b1c3d7709dcba536e2d84fb8568658c0346d
task_one 5608 |i1 616645908b18cb11ae046fe37497068395e55309018806ce0f865bee0a278597
"""
SARCOS = Source(
    name="sarcos",
    title="Sarcos (robot arm)",
    file="sarcos.npz",
    arrays=read_expected(SARCOS_ARRAYS),
    shape=(4449, 21),
    n_tasks=JOINTS,
    kind="regression",
    origin="Gaussian Processes for Machine Learning, gaussianprocess.org/gpml/data",
    originals=("sarcos_inv_test.mat",),
    convert=convert_sarcos,
    extras=("X_one", "y_one", "task_one"),
)
