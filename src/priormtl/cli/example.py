"""An example to begin with: patients by age, who come with scikit-learn."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv
from sklearn.datasets import load_diabetes

from priormtl._files import write_aside, write_whole

__all__ = [
    "FEATURES",
    "FILES",
    "NEW",
    "PATIENTS",
    "RELATIONS",
    "read_patients",
    "write_example",
]

PATIENTS, NEW, RELATIONS = "patients.csv", "new-patients.csv", "relations.toml"
FILES = (PATIENTS, NEW, RELATIONS)
TRAINING_ROWS = 300
FEATURES = (
    "sex",
    "bmi",
    "pressure",
    "cholesterol",
    "ldl",
    "hdl",
    "ratio",
    "triglycerides",
    "glucose",
)
OLDEST = (35, 45, 55, 65, 79)  # of each age group
YOUNGEST = (19, *(age + 1 for age in OLDEST[:-1]))
KNOWN = """\
# What is known beforehand about the measurements in patients.csv.

[[similar]]  # LDL is most of the cholesterol
features = ["cholesterol", "ldl"]

[[opposite]]  # the ratio is that of cholesterol to HDL
features = ["hdl", "ratio"]

[[similar]]  # somebody thought so: `priormtl report` shows whether data agree
features = ["bmi", "pressure"]
"""


def read_patients() -> pa.Table:
    """442 patients: age group, nine measurements, and progression after a year."""
    found = load_diabetes(scaled=False)
    age, values = found.data[:, 0], found.data[:, 1:]
    groups = np.array(
        [f"{low}-{high}" for low, high in zip(YOUNGEST, OLDEST, strict=True)]
    )
    columns = {"age": groups[np.searchsorted(OLDEST, age)]}
    columns |= dict(zip(FEATURES, values.T, strict=True))
    return pa.table({**columns, "progression": found.target})


def write_example(folder: Path) -> tuple[Path, ...]:
    """Write a table to learn from, one to predict, and relations; say where."""
    table = read_patients()
    order = np.random.default_rng(0).permutation(table.num_rows)
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in ((PATIENTS, order[:TRAINING_ROWS]), (NEW, order[TRAINING_ROWS:])):
        with write_aside(folder / name) as file:
            csv.write_csv(table.take(rows), file)
    write_whole(folder / RELATIONS, KNOWN.encode())
    return tuple(folder / name for name in FILES)
