"""Who takes part: names, estimators of users, and ours on a grid of the same size."""

import pytest
from sklearn.linear_model import Ridge

from priormtl import FeaturePrior, MultiTaskRegressor
from priormtl.baselines import BASELINES, TunedClassifier, TunedRegressor
from priormtl.baselines.compare import list_methods, make_methods, make_ours

SETTINGS = {
    "classify": False,
    "n_settings": 6,
    "rows_per_task": 10.0,
    "feature_prior": None,
    "task_prior": "mean",
}


def find(methods, **settings):
    return make_methods(methods, **(SETTINGS | settings))


def ours(n_settings, **settings):
    fixed = {"classify": False, "feature_prior": None, "task_prior": "mean"}
    return make_ours(n_settings, 10.0, **(fixed | settings))


def test_all_are_ours_and_those_of_the_catalogue():
    assert list(find("all")) == list(list_methods())
    assert list_methods()[: 1 + len(BASELINES)] == ("priormtl", *BASELINES)


@pytest.mark.parametrize(
    ("classify", "kind"), [(False, TunedRegressor), (True, TunedClassifier)]
)
def test_named_methods_are_tuned_on_standardised_features(classify, kind):
    for name, model in find("all", classify=classify).items():
        if name != "priormtl":
            assert isinstance(model, kind)
            assert model.n_settings == 6
            assert model.method.standardize is True


def test_names_alone_or_listed():
    assert list(find("clmt")) == ["clmt"]
    assert list(find(("clmt", "priormtl"))) == ["clmt", "priormtl"]


@pytest.mark.parametrize("prior", [None, FeaturePrior.similar([(0, 1)])])
@pytest.mark.parametrize("task_prior", [None, "mean"])
@pytest.mark.parametrize("n", [1, 2, 6, 12, 20, 50])
def test_our_grid_is_about_as_large_as_that_of_others(n, prior, task_prior):
    model = ours(n, feature_prior=prior, task_prior=task_prior)
    size = model.lams * len(model.thetas) * len(model.epsilons)
    assert size <= max(n, 2)
    assert size >= 0.75 * n
    assert (model.thetas == [0.0]) == (prior is None)
    assert (model.epsilons == [0.0]) == (task_prior is None)


def test_strengths_are_multiples_of_the_rows_per_task():
    model = ours(20)
    assert model.lams == 5
    assert model.epsilons == [0.0, 10.0, 100.0, 1000.0]
    assert model.standardize is True
    with_prior = ours(20, feature_prior=FeaturePrior.similar([(0, 1)]))
    assert with_prior.thetas == [0.0, 10.0, 100.0]
    assert with_prior.epsilons == [0.0, 100.0]


def test_estimators_of_users_get_labels_and_stay_untouched():
    own = MultiTaskRegressor(lam=2.0, task="school")
    found = find({"own": own, "ridge": Ridge()})
    assert found["own"].task is None
    assert (found["own"].lam, own.task) == (2.0, "school")
    assert isinstance(found["ridge"], Ridge)


def test_capitals_do_not_matter():
    assert list(find(["PriorMTL", "RMTL", "Ridge-Single"])) == [
        "priormtl",
        "rmtl",
        "ridge-single",
    ]
    assert list(find("ALL")) == list(find("all"))


def test_unknown_methods_are_refused():
    with pytest.raises(ValueError, match=r"unknown method 'clnt'.* mean 'clmt'"):
        find(["priormtl", "clnt"])
    with pytest.raises(TypeError, match="methods must be"):
        find(3)
    with pytest.raises(TypeError, match="'own' is 3"):
        find({"own": 3})
    with pytest.raises(ValueError, match="n_settings"):
        find("all", n_settings=0)
