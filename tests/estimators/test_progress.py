"""Progress: silent when short, callbacks first, bars in terminals, lines in pipes."""

import logging
import sys

import pytest

from paper_data import PAPER
from priormtl import MultiTaskRegressorCV
from priormtl.datasets import make_related_tasks
from priormtl.estimators import progress
from priormtl.estimators.progress import LOGGER, hide_progress, show_progress

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
