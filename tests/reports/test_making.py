"""report: from any fitted model to a page, JSON and Markdown."""

import json

import numpy as np
import pytest

import priormtl
from priormtl import MultiTaskClassifier, MultiTaskRegressor, load, save
from priormtl.audits import audit_prior
from priormtl.baselines import RMTL
from priormtl.reports import Report, report
from reported_models import TASKS, drawn_rows, model_of, tuned_model

DEGENERATE = {
    "one task": model_of([[1.0, 2.0]]),
    "one feature": model_of([[1.0], [2.0], [3.0], [4.0]]),
    "one number": model_of([[1.0]]),
    "all zero": model_of(np.zeros((5, 3))),
    "huge": model_of(np.full((5, 3), 1e300)),
    "tiny": model_of(np.full((5, 3), 1e-300)),
    "mixed": model_of([[1e300, 1e-300], [-1e300, 0.0]] * 3),
    "unicode": model_of(np.eye(5), list("äß漢🙂\ud800"), ["é", "", " ", "\n", "\x00"]),
    "same names": model_of(np.eye(5), ["a"] * 5, ["t"] * 5),
    "numbered tasks": model_of(np.eye(4), tasks_=np.arange(4)),
}


@pytest.mark.parametrize("model", DEGENERATE.values(), ids=DEGENERATE)
def test_every_model_has_a_report(model):
    made = report(model)
    page, text = made.to_html(), made.to_markdown()
    told = json.loads(made.to_json())
    assert page.encode()
    assert text.encode()
    assert len(told["findings"]) == 5
    assert np.array_equal(
        np.sort(np.ravel(told["coefficients"]["values"])), np.sort(model.coef_.ravel())
    )


def test_rows_are_scored():
    X, y, task, _ = drawn_rows()
    made = report(tuned_model(), X, y, task=task)
    assert made.content.metric == "R²"
    assert made.content.table("tasks")["task"] == TASKS
    assert "On the rows given" in made.content.finding("quality").sentence


def test_saved_models_tell_the_same_coefficients(tmp_path):
    save(tuned_model(), tmp_path / "m.model")
    loaded = report(load(tmp_path / "m.model"))
    kept = report(tuned_model())
    assert loaded.content.finding("prior") == kept.content.finding("prior")
    assert loaded.content.finding("certificate") == kept.content.finding("certificate")


def test_classifiers_and_methods_compared_are_reported():
    X, y, task, _ = drawn_rows()
    made = report(
        MultiTaskClassifier(5.0).fit(X, y > 0, task=task), X, y > 0, task=task
    )
    assert made.content.metric == "AUC"
    other = report(RMTL().fit(X, y, task=task), X, y, task=task)
    assert other.content.finding("certificate").question == "Is it solved?"


def test_an_audit_speaks_of_the_same_relations():
    X, y, task, _ = drawn_rows()
    audit = audit_prior(tuned_model(), X, y, task=task, n_repeats=1)
    told, own = (
        report(tuned_model(), audit=audit).content,
        report(tuned_model()).content,
    )
    assert told.finding("prior").sentence.startswith(audit.helped_tuned.sentence)
    table = told.table("relations")
    after = dict(zip(table["relation"], table["violation_after"], strict=True))
    table = own.table("relations")
    for name, value in zip(table["relation"], table["violation_after"], strict=True):
        assert after[name] == pytest.approx(value, abs=1e-6)


def test_model_is_left_as_it_was():
    X, y, task, _ = drawn_rows()
    model = MultiTaskClassifier(5.0).fit(X, y > 0, task=task)
    before = dict(vars(model))
    report(model, X, y > 0, task=task)
    assert vars(model) == before


def test_files_appear_whole(tmp_path):
    made = report(tuned_model())
    made.save(tmp_path / "r.html", coefficients=tmp_path / "c.csv")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert page == made.to_html() == made.html()
    assert (tmp_path / "c.csv").exists()
    with pytest.raises(ValueError, match="coefficients must be"):
        made.save(tmp_path / "other.html", coefficients=tmp_path / "c.txt")
    assert {path.name for path in tmp_path.iterdir()} == {"r.html", "c.csv"}


def test_notebooks_show_the_page_apart():
    shown = report(model_of([[1.0]], ["<b>"]))._repr_html_()
    assert shown.startswith("<iframe")
    assert shown.count("<") == 2
    assert "allow-same-origin" not in shown


def test_public_name():
    assert priormtl.report is report
    assert isinstance(report(model_of([[1.0]])), Report)


@pytest.mark.parametrize("given", [{"X": [[1.0]]}, {"y": [1.0]}])
def test_rows_need_targets(given):
    with pytest.raises(ValueError, match="must be given together with"):
        report(model_of([[1.0]]), **given)


def test_unfitted_models_are_refused():
    with pytest.raises(TypeError, match="call fit before"):
        report(MultiTaskRegressor())
