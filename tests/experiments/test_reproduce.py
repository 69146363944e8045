import json

import pyarrow.parquet as pq
import pytest

from priormtl.exceptions import MissingDataError
from priormtl.experiments import Request, reproduce
from priormtl.experiments.plans import plan
from priormtl.experiments.protocol import load_rows
from priormtl.experiments.reproduce import overlap
from priormtl.experiments.rows import CONVERGENCE


@pytest.fixture
def home(data_home, monkeypatch):
    monkeypatch.setenv("PRIORMTL_DATA", str(data_home))
    load_rows.cache_clear()
    yield data_home
    load_rows.cache_clear()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"what": "table3"}, "unknown part of the paper 'table3'.*'table2'"),
        ({"force": ("ridge-singl",)}, "unknown method.*Did you mean 'ridge-single'"),
        ({"jobs": 0}, "jobs must be at least 1"),
        ({"limit": -1.0}, "limit must be a positive number"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_read(tmp_path, changes, message):
    settings = {"what": "figure1", "out": tmp_path / "out"} | changes
    with pytest.raises(ValueError, match=message):
        reproduce(Request(**settings))
    assert not (tmp_path / "out").exists()


def test_a_missing_set_is_named_with_its_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIORMTL_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=rf"school.npz.*{tmp_path}"):
        reproduce(Request("table1", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_what_is_not_at_hand_can_be_left_out(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIORMTL_DATA", str(tmp_path))
    out = tmp_path / "out"
    report = reproduce(Request("figure1", out, quick=True, skip_missing=True))
    assert report.left_out == ("school",)
    assert (report.done, report.planned) == (1, 1)  # the synthetic problem
    table = pq.read_table(out / "convergence.parquet")
    assert table.schema.equals(CONVERGENCE)
    assert set(table["problem"].to_pylist()) == {"synthetic"}
    assert (out / "figure1.svg").exists()
    assert (out / "figure1.png").exists()


def test_a_second_run_writes_the_same_files_and_takes_no_time(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIORMTL_DATA", str(tmp_path))
    request = Request("figure1", tmp_path / "out", quick=True, skip_missing=True)
    first = reproduce(request)
    contents = {path: path.read_bytes() for path in first.files}
    noted = json.loads((tmp_path / "out" / "run.json").read_text())
    second = reproduce(request)
    assert (second.outcome.computed, second.outcome.found) == (0, 1)
    assert {path: path.read_bytes() for path in second.files} == contents
    assert json.loads((tmp_path / "out" / "run.json").read_text()) == noted


def test_everything_can_be_shown_before_anything_is_computed(tmp_path, home):
    report = reproduce(Request("all", tmp_path, quick=True, compute=False))
    assert report.done == 0
    assert report.planned == len(plan("all", quick=True))
    assert "0 of 2" in (tmp_path / "results.md").read_text()
    for name in ("table1.md", "table2.tex", "figure2.svg", "learning.png"):
        assert (tmp_path / name).exists()


def test_splits_of_sixty_to_forty_overlap_most(home):
    assert overlap("yale", None) == pytest.approx(2 / 3, abs=0.1)
    assert overlap("school", None) < overlap("yale", None)
    assert overlap("letter", 2) < 0.01
