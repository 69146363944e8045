"""Quality: held-out scores come first, and every answer says what limits it."""

import numpy as np
import pandas as pd
import pytest

from priormtl import load, report, save
from priormtl.reports.fits import score_fit
from priormtl.reports.learned import Learned
from priormtl.reports.quality import answer_quality
from priormtl.reports.searches import read_search
from reported_models import drawn_rows, learned_of, tuned_model


def test_held_out_scores_come_first():
    model = tuned_model()
    learned = Learned.read(model)
    answer = answer_quality(learned, read_search(model), score_fit(learned))
    _, y, _, _ = drawn_rows()
    share = 1 - -model.best_score_ / y.var()
    assert answer.numbers["cross_validated"] == pytest.approx(-model.best_score_)
    assert answer.numbers["held_out_variance_explained"] == pytest.approx(share)
    assert answer.value == f"{100 * share:.0f} % explained"
    assert "best of 16 candidates" in answer.note


def test_a_loaded_model_is_compared_with_no_features(tmp_path):
    save(tuned_model(), tmp_path / "m.model")
    model = load(tmp_path / "m.model")
    answer = answer_quality(Learned.read(model), read_search(model), None)
    _, y, task, _ = drawn_rows()
    means = pd.Series(y).groupby(task).transform("mean")
    share = 1 - -model.best_score_ / np.mean((y - means) ** 2)
    assert answer.numbers["below_intercepts"] == pytest.approx(share, abs=0.05)
    assert answer.value.endswith("less error")
    model.lams = [1.0, 2.0]  # these need not reach as far
    answer = answer_quality(Learned.read(model), read_search(model), None)
    assert answer.value.startswith("Mean squared error")


def test_rows_are_judged_where_there_was_no_search():
    learned = Learned.read(tuned_model())
    fits = score_fit(learned)
    answer = answer_quality(learned, None, fits)
    assert answer.numbers["rows_score"] == fits.whole
    assert answer.value.startswith("R² 0.")
    assert "too good" in answer.note


def test_nothing_known_is_said():
    assert answer_quality(learned_of([[1.0]]), None, None).value == "Not measured"


def test_scores_of_tasks_alone_give_the_median_task():
    learned = learned_of([[1.0]] * 3, task_r2_=[0.1, 0.4, 0.6], task_weight_=[1, 1, 1])
    answer = answer_quality(learned, None, score_fit(learned))
    assert answer.value == "R² 0.4 in the median task"


def test_rows_that_were_given_come_before_the_search():
    model, (X, y, task, _) = tuned_model(), drawn_rows()
    learned = Learned.read(model)
    search, given = read_search(model), report(model, X, y, task=task)
    answer = given.content.findings[0]
    assert answer.value.startswith("R² ")
    assert answer.value.endswith("on the rows given")
    assert answer.sentence.startswith("On the rows given")
    held_out = answer_quality(learned, search, None)
    assert held_out.sentence in answer.sentence
    assert dict(held_out.numbers).items() <= dict(answer.numbers).items()
