"""The benchmark of real tables: both protocols, scores, ratios and bars."""

import gzip
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def tables(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(Path(__file__).parents[1])
    return import_module("benchmarks.workloads.tables")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Two tables with results of two usual ways."""
    folder = tmp_path / "tables"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name, two in (("lengths", False), ("answers", True)):
        frame = pd.DataFrame({"task": np.repeat([1, 2], 20), "fold": np.arange(40) % 5})
        frame["y"] = rng.integers(2, size=40) if two else rng.normal(size=40)
        frame["x"] = rng.normal(size=40)
        with gzip.open(folder / f"{name}.csv.gz", "wt") as file:
            frame.to_csv(file, index=False)
    lines = ["table,training_rows,method,score,seconds"]
    for name in ("lengths", "answers"):
        for protocol in ("four fifths", "one fifth"):
            lines += [f"{name},{protocol},LightGBM,2.0,0.1"]
            lines += [f"{name},{protocol},ridge with task dummies,1.0,"]
            lines += [f"{name},{protocol},MixedLM intercepts,1.5,0.2"]
    (folder / "usual.csv").write_text("\n".join(lines))
    monkeypatch.setenv("PRIORMTL_DATA", str(tmp_path))
    return folder


class Mean:
    """Predicts the mean, and remembers what it was given."""

    seen = ()

    def __init__(self, kind, *, task):
        self.kind, self.task = kind, task

    def fit(self, X, y):
        assert list(X) == ["task", "x"]
        Mean.seen = (*Mean.seen, (self.kind, self.task, len(y)))
        self.mean = y.mean()
        return self

    def predict(self, X):
        return np.full(len(X), self.mean)

    def predict_proba(self, X):
        return np.tile([1 - self.mean, self.mean], (len(X), 1))


def test_both_protocols_are_scored_and_compared(tables, home, monkeypatch):
    monkeypatch.setattr(tables, "tabular_model", Mean)
    monkeypatch.setattr(Mean, "seen", ())
    report = tables.measure(quick=False)
    assert Mean.seen.count(("regressor", "task", 32)) == 5
    assert Mean.seen.count(("regressor", "task", 8)) == 5
    assert Mean.seen.count(("classifier", "task", 32)) == 5
    frame = tables.read_table(home / "lengths.csv.gz")
    errors = [
        (each["y"] - frame["y"][frame["fold"] != k].mean()) ** 2
        for k, each in frame.groupby("fold")
    ]
    score = np.sqrt(np.mean(np.concatenate(errors)))
    four = report.sections[0].table.rows[0]
    assert four[:2] == ["lengths", "40"]
    assert four[2:6] == [f"{score:.5g}", "1", "ridge with task dummies", f"{score:.3f}"]
    assert [bar.met for bar in report.bars[-2:]] == [True, True]
    ways = {row[0]: row[1:] for row in report.sections[-1].table.rows}
    assert ways["LightGBM"] == ["2.000", "2.000", "2"] * 2
    assert len(report.sections[0].figures) == 1
    assert report.numbers["lengths"]["four fifths"]["ratio"] == pytest.approx(score)


def test_what_is_absent_is_said(tables, tmp_path, monkeypatch):
    monkeypatch.setenv("PRIORMTL_DATA", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"usual\.csv is not in the folder"):
        tables.measure(quick=True)


def test_log_loss_is_clipped(tables):
    found = tables.measure_errors(np.array([0, 1]), np.array([1.0, 1.0]), two=True)
    np.testing.assert_allclose(found, -np.log([1e-3, 1 - 1e-3]))
