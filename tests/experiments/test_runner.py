import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from priormtl.exceptions import ApproximationWarning
from priormtl.experiments.runner import collect, run
from priormtl.experiments.store import Store
from toy_units import Square


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


@pytest.mark.parametrize("jobs", [1, 3])
def test_every_unit_is_computed_once_on_any_number_of_jobs(log, store, jobs):
    units = squares(log, [*range(7), 3, 4])
    outcome = run(units, store, jobs=jobs)
    assert (outcome.computed, outcome.found, outcome.failures) == (7, 0, [])
    assert values(units, store) == [n**2 for n in [*range(7), 3, 4]]
    assert times_computed(log) == dict.fromkeys(range(7), 1)


def test_warnings_of_processes_are_raised_here(log, store, capfd):
    units = squares(log, range(2), remark="coarse")
    with pytest.warns(ApproximationWarning, match="^coarse$"):
        outcome = run(units, store)
    assert outcome.computed == 2
    assert capfd.readouterr().err == ""


def test_a_second_run_is_free(log, store):
    units = squares(log, range(4))
    run(units, store)
    outcome = run(units, store)
    assert (outcome.computed, outcome.found) == (0, 4)
    assert times_computed(log) == dict.fromkeys(range(4), 1)


def test_a_changed_setting_recomputes_what_it_touches(log, store):
    plain = squares(log, range(3))
    run(plain, store)
    run([*plain[:2], Square(2, str(log), shade="dark")], store)
    assert times_computed(log) == {0: 1, 1: 1, 2: 2}
    assert values(plain, store) == [0, 1, 4]


def test_what_is_forced_is_computed_anew(log, store):
    units = squares(log, range(3))
    run(units, store)
    run(units, store, force=lambda unit: unit.number == 1)
    assert times_computed(log) == {0: 1, 1: 2, 2: 1}


def test_collecting_computes_nothing(log, store):
    units = squares(log, range(3))
    run(units[:2], store)
    assert values(units, store) == [0, 1, None]
    assert times_computed(log) == {0: 1, 1: 1}


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ({"fails": True}, "ValueError: 2 cannot be squared"),
        ({"seconds": 60.0}, "took more than 3 s"),
        ({"dies": True}, "ProcessExpired"),
    ],
)
def test_a_unit_that_fails_is_named_and_the_others_are_kept(
    log, store, trouble, reason
):
    units = [*squares(log, range(2)), Square(2, str(log), **trouble)]
    outcome = run(units, store, jobs=2, limit=3.0)
    (failure,) = outcome.failures
    assert failure.label == "square of 2"
    assert reason in failure.reason
    assert values(units, store) == [0, 1, None]
    assert run(squares(log, range(3)), store).computed == 1


def test_the_teller_hears_of_every_unit_and_of_the_time_left(log, store):
    events = []
    units = squares(log, range(5))
    run(units[:1], store)
    run(units, store, tell=events.append)
    assert [event.done for event in events] == [2, 3, 4, 5]
    assert {event.total for event in events} == {5}
    assert events[0].seconds_left > 0
    assert events[-1].seconds_left == 0


def test_an_interrupted_run_keeps_what_was_finished(log, store):
    def interrupt(event):
        if event.done == 2:
            raise KeyboardInterrupt

    units = squares(log, range(50), seconds=0.05)
    outcome = run(units, store, tell=interrupt)
    assert outcome.interrupted
    kept = [value for value in values(units, store) if value is not None]
    assert 2 <= len(kept) < 50
    assert not run(units, store, jobs=4).interrupted
    assert values(units, store) == [n**2 for n in range(50)]


KILLED = """
import sys
from pathlib import Path
from toy_units import Square
from priormtl.exceptions import ApproximationWarning
from priormtl.experiments.runner import run
from priormtl.experiments.store import Store

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    units = [Square(n, str(folder / "log"), seconds=0.02) for n in range(40)]
    print("ready", flush=True)
    run(units, Store(folder / "units"), jobs=2)
"""


KILLS = 3


def test_a_run_killed_at_random_moments_loses_nothing_finished(tmp_path, log, store):
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    units = squares(log, range(40), seconds=0.02)
    rng = random.Random(0)
    before = 0
    for _ in range(KILLS):
        _kill_after(script, tmp_path, rng.uniform(0.0, 2.0))
        done = sum(value is not None for value in values(units, store))
        assert done >= before
        before = done
    run(units, store, jobs=2)
    assert values(units, store) == [n**2 for n in range(40)]
    # Only what was under way when the process died was ever computed twice.
    again = sum(count - 1 for count in times_computed(log).values())
    assert again <= KILLS * 2
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
    process.stdout.close()
    time.sleep(1.5)  # processes of the pool see that their parent is gone
