"""Progress: silent when short, callbacks first, bars in terminals, lines in pipes."""

import logging
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from paper_data import PAPER
from priormtl import MultiTaskRegressorCV, tabular_model
from priormtl.datasets import make_related_tasks
from priormtl.estimators import progress
from priormtl.estimators.progress import (
    LOGGER,
    hide_progress,
    show_progress,
    show_stages,
)

PLACES = (Path(__file__).parent, Path(__file__).parents[1])
DATA = make_related_tasks(2, 3, 12, random_state=0)


def search(**settings):
    return MultiTaskRegressorCV(
        lams=2, thetas=[1.0], epsilons=[1.0, 2.0], **PAPER, **settings
    )


class Clock:
    """Seconds that pass only by being looked at."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


def count(parts, monkeypatch, seconds_each):
    monkeypatch.setattr(progress, "monotonic", Clock(seconds_each))
    with show_progress(object(), None, "search", parts) as advance:
        for _ in range(parts):
            advance()


def test_short_searches_say_nothing(monkeypatch, caplog, capsys):
    with caplog.at_level(logging.INFO, "priormtl"):
        count(10, monkeypatch, 0.01)
    assert not caplog.records
    assert capsys.readouterr() == ("", "")


def test_pipes_get_a_line_now_and_then(monkeypatch, caplog, capsys):
    with caplog.at_level(logging.INFO, "priormtl"):
        count(100, monkeypatch, 0.25)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "search: 8 of 100 paths, 23 s left"
    assert 4 <= len(lines) <= 6
    assert capsys.readouterr() == ("", "")


def test_terminals_get_a_bar(monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    count(5, monkeypatch, 1.0)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "search" in shown.err


def test_the_logger_turns_bars_off(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(LOGGER, "disabled", True)
    count(5, monkeypatch, 1.0)
    assert capsys.readouterr() == ("", "")


def test_without_rich_terminals_get_lines(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with caplog.at_level(logging.INFO, "priormtl"):
        count(5, monkeypatch, 1.0)
    assert caplog.records


class Listener:
    """A callback of scikit-learn that notes what it hears."""

    def __init__(self):
        self.heard = []

    def setup(self, estimator, context):
        self.heard.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.heard.append(("begin", context.task_name, context.max_subtasks))

    def on_fit_task_end(self, estimator, context):
        self.heard.append(("end", context.task_name))

    def teardown(self, estimator, context):
        self.heard.append("teardown")


def test_callbacks_hear_of_every_path():
    pytest.importorskip("sklearn.callback")
    listener = Listener()
    model = search(cv=3, n_jobs=2).set_callbacks(listener)
    model.fit(DATA.X, DATA.y, task=DATA.task)
    assert listener.heard[:2] == ["setup", ("begin", "fit", 1)]
    assert listener.heard[2][2] == 6
    assert listener.heard.count(("end", "path")) == 6
    assert listener.heard[-2:] == [("end", "fit"), "teardown"]


def test_callbacks_are_closed_when_a_fit_fails():
    pytest.importorskip("sklearn.callback")
    listener = Listener()
    model = search(cv=1).set_callbacks(listener)
    with pytest.raises(ValueError, match="at least 2 folds"):
        model.fit(DATA.X, DATA.y, task=DATA.task)
    assert listener.heard[-1] == "teardown"


def test_the_bar_of_scikit_learn_works(capsys):
    callback = pytest.importorskip("sklearn.callback")
    pytest.importorskip("rich")
    model = search().set_callbacks(callback.ProgressBar())
    model.fit(DATA.X, DATA.y, task=DATA.task)
    assert "MultiTaskRegressorCV" in capsys.readouterr().out


def test_parts_have_a_name(monkeypatch, caplog):
    monkeypatch.setattr(progress, "monotonic", Clock(3.0))
    with (
        caplog.at_level(logging.INFO, "priormtl"),
        show_progress(None, None, "contest", 2, "fits") as advance,
    ):
        advance()
    assert caplog.records[0].getMessage() == "contest: 1 of 2 fits, 3 s left"


def test_what_runs_inside_can_be_hidden(monkeypatch, caplog, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with caplog.at_level(logging.INFO, "priormtl"), hide_progress():
        count(5, monkeypatch, 1.0)
    assert not caplog.records
    assert capsys.readouterr() == ("", "")
    count(5, monkeypatch, 1.0)
    assert "search" in capsys.readouterr().err


class Now:
    """A timer that rings as soon as it is started."""

    def __init__(self, seconds, ring):
        self.ring = ring

    def start(self):
        self.ring()

    def cancel(self):
        pass


def shops():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"shop": np.arange(120) % 4, "age": rng.normal(size=120).round(1)}
    )
    return table, table["age"] + table["shop"] + rng.normal(size=120)


def test_long_fits_say_what_is_estimated(monkeypatch, caplog):
    monkeypatch.setattr(progress, "Timer", Now)
    with caplog.at_level(logging.INFO, "priormtl"):
        tabular_model("regressor", task="shop", trees="none").fit(*shops())
    lines = [record.getMessage() for record in caplog.records]
    name = "MultiTaskRegressorCV"
    assert f"{name}, estimating which effects vary (1 of at most" in lines[1]
    assert any("estimating straight lines" in line for line in lines)


def test_short_fits_say_nothing_of_stages(monkeypatch, caplog):
    class Never(Now):
        def start(self):
            pass

    monkeypatch.setattr(progress, "Timer", Never)
    with caplog.at_level(logging.INFO, "priormtl"):
        tabular_model("regressor", task="shop", trees="none").fit(*shops())
    assert not caplog.records


def test_stages_and_paths_share_one_bar(monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(progress, "Timer", Now)
    monkeypatch.setattr(progress, "monotonic", Clock(3.0))
    with show_stages(object(), "model") as announce:
        announce("estimating curves")
        with show_progress(object(), None, "search", 3) as advance:
            advance()
    shown = capsys.readouterr().err
    assert "model, estimating curves" in shown
    assert "search" not in shown


SCRIPT = """
import logging
from priormtl import tabular_model
from priormtl.estimators import progress
import test_progress

progress.SHORT = 0.0
logging.basicConfig(level=logging.INFO, format="%(message)s")
while True:
    tabular_model("regressor", task="shop", trees="none").fit(*test_progress.shops())
"""


@pytest.mark.slow
def test_an_interrupt_ends_a_fit_while_it_shows_what_is_estimated():
    path = [str(folder) for folder in (*sys.path, *map(str, PLACES)) if folder]
    run = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{SCRIPT}"],
        stderr=subprocess.PIPE,
        text=True,
    )
    with run:
        for line in run.stderr:
            if "estimating" in line:
                break
        run.send_signal(signal.SIGINT)
        rest = run.stderr.read()
        assert run.wait(timeout=300) != 0
    assert "KeyboardInterrupt" in rest
