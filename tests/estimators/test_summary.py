"""Summaries: numbers are the model's, every layout shows them, nothing is markup."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.linear_model import Ridge

from paper_data import PAPER
from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    TaskPrior,
    load,
    save,
)
from priormtl.baselines import RMTL
from priormtl.datasets import make_related_tasks
from priormtl.estimators import ModelSummary, summarize_model
from priormtl.fitted import Outliers

NASTY = "<script>alert(1)</script>"
SEARCH = {"lams": 3, "thetas": [0.0, 1.0], "epsilons": [1.0], "cv": 3}
PRIOR = FeaturePrior.similar([(0, 1), (2, 3)], weight=2.0)
MODELS = [
    MultiTaskRegressor(lam=3.0, feature_prior=PRIOR),
    MultiTaskRegressor(lam=9.0, theta=5.0, feature_prior=PRIOR, standardize=True),
    MultiTaskRegressor(penalty="nuclear", fit_intercept="tied", task_prior="mean"),
    MultiTaskRegressorCV(**SEARCH, **PAPER, feature_prior=PRIOR, selection="1se"),
    MultiTaskRegressorCV(**SEARCH),
    MultiTaskClassifier(lam=2.0, fit_intercept=False, task_prior=None),
    MultiTaskClassifierCV(**SEARCH, **PAPER, scoring="accuracy"),
]


@pytest.fixture(scope="module", params=MODELS, ids=lambda model: type(model).__name__)
def model(request):
    X, y, task = make_related_tasks(4, 6, 20, noise=0.4, random_state=3)
    table = pd.DataFrame(X * [1, 1, 1, 9, 1, 1], columns=[NASTY, *"bcdef"])
    by_class = "Classifier" in type(request.param).__name__
    above = y > np.median(y.reshape(4, 20), axis=1)[task]
    return request.param.fit(table, above if by_class else y, task=task)


class Tags(HTMLParser):
    """Tags and words of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.words = [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)

    def handle_data(self, data):
        self.words.append(data)


def test_numbers_are_those_of_the_model(model):
    summary = model.summary()
    assert summary == summarize_model(model)
    assert summary.certificate.objective == model.objective_
    assert summary.certificate.gap == model.dual_gap_
    assert (summary.n_tasks, summary.n_features) == model.coef_.shape
    assert summary.weight == 80.0
    assert [task.task for task in summary.tasks] == model.tasks_.tolist()
    assert [task.intercept for task in summary.tasks] == model.intercept_.tolist()
    by_name = dict(zip(model.feature_names_in_, model.coef_.T, strict=True))
    assert len(summary.features) == summary.n_selected
    for feature in summary.features:
        column = by_name.pop(feature.name)
        assert feature.mean == pytest.approx(column.mean())
        assert (feature.least, feature.most) == (column.min(), column.max())
    assert not any(column.any() for column in by_name.values())
    norms = [feature.norm for feature in summary.features]
    assert norms == sorted(norms, reverse=True)


def test_strengths_say_how_they_were_found(model):
    summary = model.summary()
    values = {one.name: one.value for one in summary.strengths}
    if hasattr(model, "lam_"):
        chosen = {"lam": model.lam_, "theta": model.theta_, "epsilon": model.epsilon_}
        assert values == chosen
        tried = len(model.cv_results_["params"])
        assert summary.chosen_by.startswith(f"chosen among {tried} on 3 splits")
        if model.ties == "uniform":
            assert tried == 6
            assert [one.candidates for one in summary.strengths] == [3, 2, 1]
        assert ("standard error" in summary.chosen_by) == (model.selection == "1se")
        assert summary.cv_score == model.best_score_
        assert summary.scoring
    else:
        assert summary.chosen_by == "set by hand"
        assert summary.cv_score is summary.scoring is None


def test_the_feature_prior_costs_its_share(model):
    prior = model.summary().feature_prior
    if model.feature_prior is None:
        assert prior is None
        return
    P = (model.coef_ * model.feature_scale_).T
    violation = 2.0 * np.sum((P[0] - P[1]) ** 2 + (P[2] - P[3]) ** 2)
    theta = getattr(model, "theta_", getattr(model, "theta", None))
    assert prior.n_relations == 2
    assert prior.violation == pytest.approx(violation)
    assert prior.share == pytest.approx(theta / 2 * violation / model.objective_)


def test_classes_have_no_r2(model):
    shown = [task.r2 for task in model.summary().tasks]
    if hasattr(model, "classes_"):
        assert shown == [None] * 4
        assert "R²" not in str(model.summary())
    else:
        assert shown == model.task_r2_.tolist()


@pytest.mark.parametrize("layout", ["to_text", "to_html", "to_latex", "to_markdown"])
def test_every_layout_names_features_tasks_and_certificate(model, layout):
    page = getattr(model.summary(), layout)()
    for word in ("80 rows", "objective", "above the optimum", "lam", "d", "3"):
        assert word in page
    assert str(model.summary()) == model.summary().to_text() == repr(model.summary())


def test_names_are_never_markup(model):
    summary = model.summary()
    page = Tags(summary.to_html())
    assert "script" not in page.tags
    selected = NASTY in [feature.name for feature in summary.features]
    assert (NASTY in page.words) == selected
    assert NASTY not in summary.to_markdown()
    assert NASTY not in summary.to_latex()


def test_frames_are_complete(model):
    summary = model.summary()
    features = summary.to_frame()
    assert features["name"].tolist() == [one.name for one in summary.features]
    assert summary.to_frame("tasks")["weight"].tolist() == [20.0] * 4
    assert summary.to_frame("strengths")["name"].tolist() == ["lam", "theta", "epsilon"]
    with pytest.raises(ValueError, match="table must be one of 'features', 'tasks'"):
        summary.to_frame("fit")
    assert summary.to_frame(library="polars").shape == features.shape


def test_a_file_keeps_all_that_is_summarized(model, tmp_path):
    save(model, tmp_path / "a.model")
    assert load(tmp_path / "a.model").summary() == model.summary()


def test_notebooks_show_it_beneath_the_diagram(model):
    shown = model._repr_mimebundle_()
    page = Tags(shown["text/html"])
    assert shown["text/plain"] == repr(model)
    scikit_learns_own = Tags(Ridge()._repr_html_()).tags.count("script")
    assert page.tags.count("script") == scikit_learns_own
    assert "What was learned" in page.words
    assert "What was learned" in model._repr_html_()
    if model.feature_prior is not None:
        assert f"{NASTY}, b" in page.words  # names, not positions
    with sklearn.config_context(display="text"):
        assert set(model._repr_mimebundle_()) == {"text/plain"}
        assert not hasattr(model, "_repr_html_")


def test_an_unfitted_model_has_only_its_diagram():
    assert "What was learned" not in MultiTaskRegressor()._repr_html_()
    with pytest.raises(ValueError, match="not fitted"):
        MultiTaskRegressor().summary()


def test_long_lists_are_cut_and_counted():
    X, y, task = make_related_tasks(50, 60, 8, random_state=0)
    text = str(MultiTaskRegressor(0.1).fit(X, y, task=task).summary())
    assert re.search(r"… and \d+ more features\.", text)
    assert "… and 30 more tasks." in text


def test_outlying_tasks_are_named_where_they_were_asked_for():
    X, y, task = make_related_tasks(3, 4, 10, random_state=0)
    model = MultiTaskRegressor().fit(X, y, task=task)
    assert model.summary().outliers is None
    own = np.zeros_like(model.coef_)
    own[2] = 1.0
    outliers = Outliers(model.coef_ - own, own, 1.0)
    model.fitted_ = replace(model.fitted_, outliers=outliers)
    summary = model.summary()
    assert summary.outliers == (2,)
    assert [one.is_outlier for one in summary.tasks] == [False, False, True]
    assert "outlier tasks" in str(summary)
    none = Outliers(model.coef_, np.zeros_like(model.coef_), 1.0)
    model.fitted_ = replace(model.fitted_, outliers=none)
    assert re.search(r"outlier tasks +none", str(model.summary()))


@pytest.mark.parametrize(
    ("X", "y"),
    [
        ([[1.0]], [2.0]),
        (np.zeros((3, 2)), np.zeros(3)),
        (np.full((4, 1), 1e90), np.arange(4.0)),
        (np.eye(4) * 1e-140, 1e-140 * np.arange(4.0)),
    ],
    ids=["one row", "nothing", "huge", "tiny"],
)
def test_degenerate_fits_are_shown(X, y):
    summary = MultiTaskRegressor().fit(X, y).summary()
    for layout in ("text", "html", "latex", "markdown"):
        assert "nan" not in getattr(summary, f"to_{layout}")()
    assert len(summary.to_frame()) == summary.n_selected


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        (None, "none"),
        ("mean", "mean"),
        (TaskPrior.groups({"a": [0], "b": [1, 2]}), "2 groups"),
        (TaskPrior.chain([2, 0, 1]), "chain of 3 tasks"),
        (TaskPrior.from_graph([(0, 1)]) + TaskPrior.mean(), "1 edge + mean"),
    ],
)
def test_task_priors_are_told_in_words(prior, words):
    X, y, task = make_related_tasks(3, 4, 10, random_state=0)
    model = MultiTaskRegressor(task_prior=prior).fit(X, y, task=task)
    assert model.summary().task_prior == words


def test_summaries_are_frozen():
    summary = MultiTaskRegressor().fit([[1.0], [2.0]], [1.0, 2.0]).summary()
    assert isinstance(summary, ModelSummary)
    with pytest.raises(AttributeError):
        summary.n_tasks = 3


def test_one_row_is_no_plural():
    model = MultiTaskRegressor().fit([[1.0]], [2.0])
    assert "1 row, 1 task, 1 feature\n" in str(model.summary())


def test_other_linear_models_are_read_as_far_as_they_go():
    X, y, task = make_related_tasks(3, 4, 10, random_state=0)
    model = RMTL().fit(X, y, task=task)
    summary = summarize_model(model)
    np.testing.assert_array_equal(summary.coef, model.coef_)
    assert summary.feature_names == ("x0", "x1", "x2", "x3")
    assert summary.certificate.gap == model.dual_gap_
    assert summary.task_prior is summary.search is summary.outliers is None
    assert "RMTL" in str(summary)


def fit_structures(**settings):
    X, y, task = make_related_tasks(4, 6, 20, noise=0.4, random_state=3)
    return MultiTaskRegressorCV(**SEARCH, **settings).fit(X, y, task=task)


def test_structures_are_compared_by_their_best_scores():
    model = fit_structures()
    summary, results = model.summary(), model.cv_results_
    names = list(model.structure_)
    groups = {}
    for part, score in zip(results["params"], results["mean_test_score"], strict=True):
        groups.setdefault(tuple(part[name] for name in names), []).append(-score)
    chosen = groups[tuple(model.structure_[name] for name in names)]
    expected = sorted((min(errors), len(errors)) for errors in groups.values())
    assert len(expected) == 4
    found = [(one.score, one.candidates) for one in summary.structures]
    assert found == pytest.approx(np.array(expected))
    differences = [one.difference for one in summary.structures]
    assert differences == pytest.approx(np.array(expected)[:, 0] - min(chosen))
    assert [one.chosen for one in summary.structures] == [True, False, False, False]
    text = str(summary)
    assert "Structures tried, best mean squared error of each" in text
    assert f"{summary.structures[0].structure} (chosen)" in text
    frame = summary.to_frame("structures")
    assert frame["difference"].tolist() == differences


def test_the_chosen_structure_is_in_words():
    model = fit_structures()
    words = {"tied": "tied", True: "free"}
    summary = model.summary()
    assert summary.intercepts == words[model.structure_["fit_intercept"]]
    assert summary.ties == model.structure_["ties"]
    assert {"mean": "mean", "chain": "chain"}[model.structure_["task_prior"]] in (
        summary.task_prior
    )


def test_given_structures_are_not_compared():
    model = fit_structures(**PAPER)
    assert model.summary().structures == ()
    assert "Structures tried" not in str(model.summary())
    assert (model.summary().ties, model.summary().intercepts) == ("uniform", "free")
    assert fit_structures(**PAPER | {"task_prior": None}).summary().ties is None


@pytest.mark.parametrize(
    ("settings", "words", "metric"),
    [
        ({}, "negative log-loss", "log loss"),
        ({"loss": "squared"}, "negative mean squared error", "mean squared error"),
        ({"scoring": "task_auc"}, "area under the curve", "AUC"),
        ({"scoring": "accuracy"}, "accuracy", "accuracy"),
    ],
)
def test_scores_of_classes_have_their_names(settings, words, metric):
    X, y, task = make_related_tasks(4, 6, 20, noise=0.4, random_state=3)
    model = MultiTaskClassifierCV(**SEARCH, **PAPER, **settings)
    summary = model.fit(X, y > np.median(y), task=task).summary()
    assert summary.scoring == words
    assert summary.search.metric == metric
    assert summary.search.is_error == (metric in ("log loss", "mean squared error"))
