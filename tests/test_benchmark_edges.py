"""benchmarks/edges.py: the best score of each value of a strength."""

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest


def test_each_value_has_its_best_score_and_the_best_value_is_bold(monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.syspath_prepend(Path(__file__).parents[1])
    edges = import_module("benchmarks.edges")
    params = [{"lam": lam, "C": c} for lam in (2.0, 20.0) for c in (1.0, 5.0)]
    scores = np.array([0.5, 0.75, 0.625, 0.25])
    model = SimpleNamespace(cv_results_={"params": params, "mean_test_score": scores})
    found = edges.profile(model, {"lam": 10.0, "C": 1.0})
    assert found == {"lam": {0.2: 0.75, 2.0: 0.625}, "C": {1.0: 0.625, 5.0: 0.75}}
    one, other = edges.lines("yale", "ours", found)
    assert one == "| yale | ours | lam | **0.2: 0.75000**, 2: 0.62500 |"
    assert other == "| yale | ours | C | 1: 0.62500, **5: 0.75000** |"
    assert not list(edges.lines("yale", "ours", {"theta": {0.0: 0.5}}))
