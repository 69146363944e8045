"""Time to a certified gap: ours, the paper's methods and peers, side by side."""

import os

# One thread for everybody; read by the libraries when they are loaded, after this.
os.environ.update(
    dict.fromkeys(
        (
            "OPENBLAS_NUM_THREADS",
            "OMP_NUM_THREADS",
            "MKL_NUM_THREADS",
            "NUMBA_NUM_THREADS",
        ),
        "1",
    )
)

import sys
from pathlib import Path

# Twins of methods live beside the tests; some packages install a "tests" of their own.
sys.path.append(str(Path(__file__).parents[1] / "tests"))
