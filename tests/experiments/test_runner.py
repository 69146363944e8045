"""The runner: units once each, resumable at any moment; the store; the clock."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from priormtl.exceptions import ApproximationWarning
from priormtl.experiments import runner
from priormtl.experiments.runner import (
    Clock,
    Elapsed,
    Store,
    collect,
    read_elapsed,
    run,
)
from processes import Square

ROWS = pa.table({"value": [1.0, 0.1], "task": ["a", None]})


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log"
    path.touch()
    return path


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "units")


def squares(log, numbers, **settings):
    return [Square(number, str(log), **settings) for number in numbers]


def times_computed(log):
    return Counter(int(line) for line in log.read_text().split())


def values(units, store):
    tables = collect(units, store)
    return [None if table is None else table["square"][0].as_py() for table in tables]


# Running: processes take long to start, so that each test checks all that it can.


def test_each_unit_is_computed_once_and_what_changed_or_is_forced_again(
    log, store, capfd
):
    units = squares(log, [*range(4), 3], remark="coarse")
    store.write(units[0].settings(), units[0].square())
    assert values(units, store) == [0, None, None, None, None]
    assert times_computed(log) == {}  # collecting computes nothing
    events = []
    with pytest.warns(ApproximationWarning, match="^coarse$"):  # raised here
        outcome = run(units, store, callback=events.append)
    assert capfd.readouterr().err == ""
    assert (outcome.computed, outcome.found, outcome.failures) == (3, 1, [])
    assert not outcome.interrupted
    assert values(units, store) == [0, 1, 4, 9, 9]
    assert times_computed(log) == dict.fromkeys(range(1, 4), 1)
    assert [(event.done, event.total) for event in events] == [(2, 4), (3, 4), (4, 4)]
    assert events[0].seconds_left > 0
    assert events[-1].seconds_left == 0
    assert events[0].label.startswith("square of ")
    changed = [*squares(log, range(3)), Square(3, str(log), shade="dark")]
    outcome = run(changed, store, force=lambda unit: unit.number == 1)
    assert (outcome.computed, outcome.found) == (2, 2)
    assert times_computed(log) == {1: 2, 2: 1, 3: 2}
    assert values(units, store) == [0, 1, 4, 9, 9]


def test_a_second_run_is_free_and_starts_no_process(log, store, monkeypatch):
    units = squares(log, range(3))
    for unit in units:
        store.write(unit.settings(), unit.square())
    monkeypatch.setattr(runner, "_compute_all", None)
    outcome = run(units, store, jobs=2)
    assert (outcome.computed, outcome.found) == (0, 3)


@pytest.mark.slow
def test_units_that_fail_or_take_too_long_are_named_and_the_others_are_kept(log, store):
    bad = [Square(2, str(log), fails=True), Square(3, str(log), dies=True)]
    units = [*squares(log, range(2)), *bad]
    outcome = run(units, store, jobs=2)
    reasons = {failure.label: failure.reason for failure in outcome.failures}
    assert outcome.computed == 2
    assert sorted(reasons) == ["square of 2", "square of 3"]
    assert "ValueError: 2 cannot be squared" in reasons["square of 2"]
    assert "ProcessExpired" in reasons["square of 3"]
    assert values(units, store) == [0, 1, None, None]
    # By itself: on a busy machine every unit may take longer than a limit.
    late = squares(log, [4], seconds=600.0)
    (failure,) = run(late, store, limit=0.5).failures
    assert failure.reason == "took more than 0.5 s"
    assert values(late, store) == [None]


def test_an_interrupted_run_keeps_what_was_finished(log, store):
    def interrupt(event):
        if event.done == 2:
            raise KeyboardInterrupt

    units = [*squares(log, range(2)), *squares(log, range(2, 4), seconds=600.0)]
    outcome = run(units, store, callback=interrupt)
    assert outcome.interrupted
    assert values(units, store) == [0, 1, None, None]
    units = squares(log, range(4))
    assert not run(units, store).interrupted
    assert values(units, store) == [0, 1, 4, 9]


def test_the_time_left_is_that_of_the_same_family():
    left = {("slow",): 2, ("fast",): 3, ("new",): 1}
    times = {("slow",): [10.0, 20.0], ("fast",): [1.0, 1.0]}
    work = 2 * 15.0 + 3 * 1.0 + 8.0
    assert runner._estimate_seconds(left, times, 1) == work
    assert runner._estimate_seconds(left, times, 2) == work / 2


KILLED = """
import sys
from pathlib import Path
from processes import Square
from priormtl.experiments.runner import Store, run

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    units = [Square(n, str(folder / "log"), seconds=0.02) for n in range(40)]
    print("ready", flush=True)
    run(units, Store(folder / "units"), jobs=2)
"""


@pytest.mark.slow
def test_a_run_killed_at_random_moments_loses_nothing_finished(tmp_path, log, store):
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    units = squares(log, range(40), seconds=0.02)
    before, moments = 0, (0.4, 1.7)  # while processes start, and while they compute
    for seconds in moments:
        _kill_after(script, tmp_path, seconds)
        done = sum(value is not None for value in values(units, store))
        assert done >= before
        before = done
    run(units, store, jobs=2)
    assert values(units, store) == [n**2 for n in range(40)]
    # Only what was under way when the process died was ever computed twice.
    again = sum(count - 1 for count in times_computed(log).values())
    assert again <= 2 * len(moments)
    assert sorted(path.suffix for path in store.folder.iterdir()) == [".parquet"] * 40


def _kill_after(script: Path, folder: Path, seconds: float) -> None:
    path = [str(Path(__file__).parents[1]), *filter(None, sys.path)]
    process = subprocess.Popen(
        [sys.executable, str(script), str(folder)],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": ":".join(path), "PATH": ""},
    )
    process.stdout.readline()
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.wait()
    # Processes of the pool hold the pipe until they see that their parent is gone, and
    # those that were writing a file count as alive until the system has reaped them.
    process.stdout.read()
    process.stdout.close()
    for leftover in (folder / "units").glob(".priormtl-*"):
        _wait_for_end(int(leftover.name.split("-")[1]))


def _wait_for_end(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.kill(process, 0)
            time.sleep(0.01)


# The store.


def test_what_was_written_is_read_back(store):
    assert store.read({"a": 1}) is None
    store.write({"a": 1}, ROWS)
    store.write({"a": 2}, ROWS)
    assert store.read({"a": 1}).equals(ROWS, check_metadata=True)
    metadata = pq.read_schema(store.path({"a": 1})).metadata
    assert metadata[b"priormtl"] == b'{"a": 1}'
    assert store.read({"a": 3}) is None


def test_a_file_name_depends_on_every_setting_but_not_on_their_order(store):
    first = store.path({"a": 1, "b": [1.0, 2.0]})
    assert first == store.path({"b": [1.0, 2.0], "a": 1})
    assert first != store.path({"a": 1, "b": [1.0, 2.5]})
    assert first != store.path({"a": 1})
    # Names of stored results must not change.
    assert store.path({"a": 1}).name == "6903fb303cd60ccb0a2b9c2592fa773b.parquet"


def test_settings_must_be_finite_numbers(store):
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.path({"a": float("nan")})


@pytest.mark.parametrize("content", [b"", b"PAR1", b"nonsense", None])
def test_a_damaged_file_counts_as_missing(store, content):
    store.write({"a": 1}, ROWS)
    path = store.path({"a": 1})
    path.write_bytes(path.read_bytes()[:-10] if content is None else content)
    assert store.read({"a": 1}) is None


def test_a_failed_write_leaves_nothing(store, monkeypatch):
    def refuse(descriptor):
        raise OSError(28, "No space left on device")

    store.write({"a": 1}, ROWS)
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left"):
        store.write({"a": 2}, ROWS)
    assert [path.name for path in store.folder.iterdir()] == [store.path({"a": 1}).name]


def leave_half_a_file(folder):
    """What a killed process was writing."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    folder.mkdir(exist_ok=True)
    (folder / f".priormtl-{gone.pid}-abc").touch()


def test_half_files_of_killed_runs_are_removed(tmp_path, store):
    leave_half_a_file(store.folder)
    run([], store)
    assert list(store.folder.iterdir()) == []
    leave_half_a_file(tmp_path)
    Clock(tmp_path, 1)
    assert list(tmp_path.glob(".*")) == []


# The clock.


@pytest.fixture
def now(monkeypatch):
    """A time that only moves when it is told to."""
    hands = [100.0]
    monkeypatch.setattr(runner.time, "monotonic", lambda: hands[0])
    return hands


def test_times_of_runs_add_up(tmp_path, now):
    assert read_elapsed(tmp_path) == Elapsed(0.0, 1)
    for jobs, seconds in ((1, 4.0), (2, 7.0), (1, 1.0)):
        here = Clock(tmp_path / "out", jobs)
        now[0] += seconds
        here.note()
    assert read_elapsed(tmp_path / "out") == Elapsed(12.0, 2)


def test_a_killed_run_counts_up_to_its_last_note(tmp_path, now):
    here = Clock(tmp_path, 1)
    for _ in range(5):
        now[0] += 4.0
        here.note(every=10.0)
    assert read_elapsed(tmp_path).seconds == 12.0
