"""Facts: settings in words, strengths as chosen."""

from priormtl import FeaturePrior, MultiTaskClassifier, TaskPrior
from priormtl.reports.facts import list_facts
from priormtl.reports.learned import Learned
from reported_models import drawn_rows, learned_of, tuned_model


def test_chosen_strengths_are_told_from_set_ones():
    model = tuned_model()
    facts = dict(list_facts(Learned.read(model)))
    assert facts["Model"] == "MultiTaskRegressorCV"
    assert facts["epsilon"] == f"{model.epsilon_:g} (chosen)"
    assert dict(list_facts(learned_of([[1.0]])))["epsilon"] == "1"


def test_an_outlier_strength_is_told():
    facts = dict(list_facts(learned_of([[1.0]], outlier_strength_=2.5)))
    assert facts["Outlier strength"] == "2.5"


def test_priors_are_named():
    facts = dict(list_facts(learned_of([[1.0]], task_prior=None)))
    assert facts["Prior on features"] == facts["Ties between tasks"] == "none"
    known = {"feature_prior_": FeaturePrior.similar([(0, 1)])}
    known["task_prior"] = TaskPrior.mean()
    facts = dict(list_facts(learned_of([[1.0, 2.0]], **known)))
    assert facts["Prior on features"] == "1 relation"
    assert facts["Ties between tasks"] == TaskPrior.mean().words


def test_classifiers_name_their_loss():
    X, y, task, _ = drawn_rows()
    model = MultiTaskClassifier(5.0).fit(X, y > 0, task=task)
    assert dict(list_facts(Learned.read(model)))["Loss"] == "logistic"
