"""School: exam scores of pupils, one regression per school."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from priormtl.datasets.files import (
    Arrays,
    Expected,
    Folder,
    Source,
    cells,
    first_of,
    read_arrays,
    read_mat,
    take_files,
    to_integers,
)
from priormtl.datasets.task_set import TaskSet
from priormtl.exceptions import DataFileError

__all__ = ["SCHOOL", "convert_school", "load_school"]

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
DESCRIPTION = (
    "Exam scores of 15362 pupils in 139 London secondary schools, 1985 to 1987 (Inner "
    "London Education Authority): one regression per school on attributes of pupil "
    "and school."
)
QUIRKS = (
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
    """Load the School data set: exam scores of pupils in 139 schools (regression).

    There are 15362 rows and 27 features.

    Parameters
    ----------
    data_home : path, optional
        Folder that contains the data sets. The default is the environment variable
        PRIORMTL_DATA.
    verify : bool, default=True
        Whether to reject a file whose contents differ from the published data.

    Returns
    -------
    TaskSet
        Data set that can be unpacked as ``X, y, task``. Tasks are "school 000" to
        "school 138".
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
        description=DESCRIPTION,
        quirks=QUIRKS,
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


SCHOOL = Source(
    name="school",
    title="School (ILEA exam scores)",
    file="school.npz",
    arrays={
        "X": Expected(
            (15362, 28),
            "|u1",
            "bda3d84fe0929133d312c95823422de195ccae01665c6f2ddf346c958dd397c0",
        ),
        "y": Expected(
            (15362,),
            "|u1",
            "948a0cf7af68372d9c4dedc0162d6bc21f69e5558255ede579a81f366453d6a6",
        ),
        "task": Expected(
            (15362,),
            "<i2",
            "6da43b74e037723894b20b5e780a5f14c1d6bf403060bc82f7776621c21f3d74",
        ),
        "columns": Expected(
            (28,),
            "<U24",
            "63cf1e2f593c3400d77f822a9f3ee65e03a480d4f358ea1977e9ce27de204713",
        ),
    },
    shape=(15362, 27),
    n_tasks=139,
    kind="regression",
    origin="data/school.mat of MALSAR, github.com/jiayuzhou/MALSAR",
    originals=("school.mat",),
    convert=convert_school,
)
