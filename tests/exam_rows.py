"""Exams of three schools as a table with texts and gaps, for the command line."""

import numpy as np
import pandas as pd

FEATURES = ["hours", "books", "sex"]


def exam_frame(n=240, seed=0, gaps=0.0):
    """Rows in which hours and books matter, in all schools nearly alike."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "pupil": np.arange(n),
            "hours": rng.normal(5.0, 2.0, n),
            "books": rng.integers(0, 20, n).astype(float),
            "sex": rng.choice(["f", "m"], n),
            "school": rng.choice(["north", "south", "west"], n),
        }
    )
    frame["score"] = 3 * frame["hours"] + frame["books"] + rng.normal(0, 2, n)
    frame["passed"] = np.where(frame["score"] > frame["score"].median(), "yes", "no")
    for name in FEATURES:
        frame.loc[rng.uniform(size=n) < gaps, name] = None
    return frame
