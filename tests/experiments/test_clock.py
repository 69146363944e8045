import subprocess
import sys

import pytest

from priormtl.experiments import clock
from priormtl.experiments.clock import Clock, Taken, read_taken


@pytest.fixture
def now(monkeypatch):
    """A time that only moves when it is told to."""
    hands = [100.0]
    monkeypatch.setattr(clock.time, "monotonic", lambda: hands[0])
    return hands


def test_nothing_was_taken_where_nothing_ran(tmp_path):
    assert read_taken(tmp_path) == Taken(0.0, 1)


def test_runs_add_up(tmp_path, now):
    for jobs, seconds in ((1, 4.0), (2, 7.0), (1, 1.0)):
        here = Clock(tmp_path / "out", jobs, begin=now[0])
        now[0] += seconds
        here.note()
    assert read_taken(tmp_path / "out") == Taken(12.0, 2)


def test_a_killed_run_counts_up_to_its_last_note(tmp_path, now):
    here = Clock(tmp_path, 1, begin=now[0])
    for _ in range(5):
        now[0] += 4.0
        here.note_sometimes()
    assert read_taken(tmp_path).seconds == 12.0


def test_a_note_that_was_cut_off_goes(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    (tmp_path / f".priormtl-{gone.pid}-abc").touch()
    Clock(tmp_path, 1)
    assert list(tmp_path.iterdir()) == []
