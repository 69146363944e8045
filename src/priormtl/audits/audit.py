"""audit_prior: whether the data agree with the prior, relation by relation.

For each row d of D an audit reports how far coefficients violate it with and without
the prior, what it costs, and a test on estimates that are free of the prior
(``statements``, ``relations``). Whether the prior as a whole lowers
errors on held-out rows is found in ``holdout``.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from priormtl._arrays import Array, Index
from priormtl.audits.holdout import benefit_of_search, deal_splits, hold_out
from priormtl.audits.refits import TUNED, FittedProblem, read_problem, read_rows
from priormtl.audits.relations import (
    UNKNOWN,
    StatementTest,
    estimate_coefficients,
    feature_tests,
    relation_tests,
    smallest,
    verdicts,
)
from priormtl.audits.results import PriorAudit, RelationAudit
from priormtl.audits.statements import Judgement, judge_statements
from priormtl.checks import check_count
from priormtl.data import name_features
from priormtl.design import as_frame, find_frame_library
from priormtl.estimators import ClassificationTasks, linear_part, show_progress
from priormtl.estimators.summary import summarize_search
from priormtl.losses import SquaredFit
from priormtl.penalties import L21
from priormtl.priors import Ridge, Targets, measure_violations
from priormtl.problem import Problem
from priormtl.rendering import spell_number
from priormtl.selection import Split
from priormtl.selection.outlier_test import Tasks
from priormtl.solvers import Solution

MOST_TERMS = 6  # of a combination that are written out
MOST_FEATURES = 200  # whose joint variance is computed


def audit_prior(
    model: BaseEstimator,
    X: object = None,
    y: object = None,
    *,
    task: object = None,
    sample_weight: object = None,
    cv: object = 5,
    n_repeats: int = 3,
    random_state: int | np.random.Generator | None = 0,
) -> PriorAudit:
    """Test every relation of a model's prior against the data.

    Parameters
    ----------
    model : MultiTaskRegressor, MultiTaskClassifier or their CV variants
        Fitted model with a feature prior, or a pipeline that ends with one, such as a
        ``tabular_model``.
    X, y, task, sample_weight : optional
        The rows to which the model was fitted. If they are not given, relations are
        tested with the statistics that models with squared loss keep. The benefit of
        the prior is then known only if a search has tried theta = 0.
    cv : int, splitter, iterable of (train, test) or None, default=5
        Splits on which the model is fitted with and without the prior. If None, the
        benefit of the prior is not estimated.
    n_repeats : int, default=3
        Number of repetitions with different folds. Only used if ``cv`` is a number.
    random_state : int or Generator, default=0
        Seed of the folds.

    Returns
    -------
    PriorAudit
        ``relations`` contains one entry per statement, sorted by disagreement: signs,
        common and smooth effects first, then relations between features and known
        values. ``helped`` contains errors on held-out
        rows with and without the prior, a confidence interval and a verdict. Both are
        fitted at the model's lam; for CV models, each at the lam that is best for it on
        other folds.

    Notes
    -----
    The *violation* of a relation is ‖d P‖ divided by its largest possible value for
    coefficients as large as the largest of the model: 0 if the relation holds, and 1 if
    it is as wrong as possible between features that matter most. Rows with a target c,
    such as known values, are measured by ‖d P − c‖. *Before* refers to a fit with the
    same lam and without the prior. The *sensitivity* is the derivative of the objective
    with respect to the logarithm of the weight of the relation, which is
    theta/2 ‖d P‖² by the envelope theorem. The *share* is its fraction of the sum over
    all relations.

    The test *statistic* uses estimates of each task from its own rows, without prior,
    penalty and coupling. It is the mean of the squared disagreements in units of their
    standard errors, about 1 if the relation holds. Tasks may differ in noise. The
    p-value asks whether a relation is wrong in all tasks alike or in some of them.
    Where most tasks have too few rows for this, and for classes, tasks are estimated
    together, and variances are those of the mean Gram matrix. A relation "disagrees"
    if its p-value passes the procedure of Benjamini and Hochberg at 5 %. It "cannot be
    judged" if the rows contain no information on its features. If there are more than
    200 features, only the features that are selected without the prior, and those
    related to them, are tested.

    A sign is tested by the mean effect of all tasks, with a variance that allows tasks
    to differ, and by the tasks' own effects (one-sided). Whether an effect is the same
    in all tasks, or a smooth effect is a straight line, is tested by restricted
    likelihoods with and without the variances in question, with tasks weighted by
    their noise. A straight line does not contradict that an effect is smooth.

    With more than two classes, each class is compared with the most frequent one on
    the rows of both, whose log-odds are the difference of their scores. The smallest
    p-value counts, multiplied by the number of pairs (Bonferroni), with its statistic.
    Signs cannot be judged: they hold for effects of each class, and a number that is
    added to the effects of all classes changes no probability.

    With ``outlier_tasks``, the audit refers to the shared component of the
    coefficients, to which the priors apply. Fits without the prior use the outlier
    strength of the model. Outlier tasks are excluded from the tests of relations.

    Examples
    --------
    >>> from priormtl import FeaturePrior, MultiTaskRegressor, audit_prior
    >>> from priormtl.datasets import make_related_tasks
    >>> data = make_related_tasks(n_tasks=4, n_features=8, random_state=3)
    >>> wrong = FeaturePrior.similar([(0, 1)])
    >>> model = MultiTaskRegressor(feature_prior=data.feature_prior + wrong)
    >>> model = model.fit(data.X, data.y, task=data.task)
    >>> audit_prior(model).relations[0].relation
    'x0 ~ x1'
    """
    check_count("n_repeats", n_repeats)
    if isinstance(model, Pipeline):
        # The model of a table is that of its features, boosting aside.
        X = None if X is None else model[:-1].transform(X)
        model = linear_part(model)
    table = None if X is None else read_rows(model, X, y, task, sample_weight)
    fitted = read_problem(model, table)
    prior, tuned = fitted.problem.prior, isinstance(model, TUNED)
    known = fitted.setup.feature_prior
    has_statements = known is not None and (
        fitted.setup.problem.constraints is not None
        or any(isinstance(part, Ridge) for part in known.parts)
    )
    if not prior.D.nnz and not has_statements:
        raise ValueError(
            "model must have been fitted with a feature_prior that relates features or "
            "states effects: got none. Name relations with FeaturePrior.similar, "
            "opposite or from_groups, or find some with from_correlation."
        )

    # Which rows are held out, or the reason why none are.
    splits: list[Split] = []
    rounds, reason, untried = np.zeros(0), None, False
    if not prior.D.nnz:
        reason = (
            "The feature prior relates no features: it holds only statements about "
            "single features, such as curves, signs and known values."
        )
    elif prior.theta == 0:
        reason = "The prior has no effect in this model: its strength theta is 0."
    elif untried := tuned and (table is None or cv is None):
        reason = (
            "No rows were held out, and the search has not tried theta = 0: pass X, y, "
            "task and cv, or fit with 0 among thetas."
        )
    elif table is None:
        reason = (
            "No rows were given: pass the X, y and task that the model was fitted on."
        )
    elif cv is None:
        reason = "No rows were held out: set cv to a number of folds, such as 5."
    else:
        try:
            splits, rounds = deal_splits(
                cv,
                table,
                X,
                y,
                by_class=isinstance(model, ClassificationTasks),
                n_repeats=n_repeats,
                random_state=random_state,
            )
        except ValueError as error:
            reason = f"The rows cannot be held out: {error}"

    total = 2 + 2 * len(splits)
    helped = None
    with show_progress(None, None, "audit of the prior", total, "fits") as advance:
        without = fitted.solve(theta=0.0, epsilon=prior.epsilon)
        advance()
        pairs = list[tuple[FittedProblem, Solution]]()  # of more than two classes
        if fitted.has_several_classes:
            for one in fitted.class_pairs():
                pairs.append((one, one.solve(theta=0.0, epsilon=prior.epsilon)))
        relations: list[RelationAudit] = []
        if has_statements:
            relations += _audit_statements(fitted, _judge(fitted, without, pairs))
        if prior.D.nnz:
            relations += _audit_relations(fitted, without, pairs)
        advance()
        if untried:
            helped = benefit_of_search(summarize_search(model.fitted_.search))
        elif reason is None and table is not None:
            lam = fitted.problem.lam
            # Of a search all lams that it tried, the chosen one among them.
            lams = (
                np.unique(model.fitted_.search.setup.grid.lams)
                if tuned
                else np.array([lam])
            )
            found = hold_out(
                fitted.plain, table, splits, rounds, lams, chosen=tuned, advance=advance
            )
            helped = found.at_own() if tuned else found.at(lam)
    return PriorAudit(
        tuple(relations),
        helped,
        reason if helped is None else None,
        fitted.problem.lam,
        prior.theta,
        prior.epsilon,
        float(model.dual_gap_),
        without.certificate.gap,
        None if as_frame(X) is None else find_frame_library(X),
    )


def _without_statements(fitted: FittedProblem, without: Solution) -> Array:
    """P without the prior, and without signs and common effects."""
    constraints = fitted.problem.constraints
    if constraints is None:
        return without.coef
    problem = replace(fitted.setup.problem, penalty=L21(), memo={})
    problem = problem.with_strengths(lam=fitted.problem.lam, theta=0.0)
    return fitted.plain._solver().solve(problem, without.coef).coef


def _judge(
    fitted: FittedProblem,
    without: Solution,
    pairs: Sequence[tuple[FittedProblem, Solution]],
) -> list[Judgement]:
    """Tests of statements; of several classes those of pairs, together."""
    found = judge_statements(fitted, _without_statements(fitted, without))
    tests = [judge_statements(p, _without_statements(p, start)) for p, start in pairs]
    return found + [smallest(tests) for tests in zip(*tests, strict=True)]


def _audit_statements(
    fitted: FittedProblem, tests: Sequence[Judgement]
) -> list[RelationAudit]:
    """Statements about single features, smallest p value first.

    That a curve is a straight line does not contradict that it is smooth.
    """
    signs = fitted.problem.constraints
    names = name_features(fitted.setup.moments.features, len(fitted.coef))
    curved = [test.sign == "smooth" for test in tests]
    known = [StatementTest(*test[-2:]) for test in tests]
    words = verdicts([UNKNOWN if c else k for c, k in zip(curved, known, strict=True)])
    after = np.zeros(len(tests))
    said = [one.relation for one in tests]
    for k, test in enumerate(tests):
        if curved[k]:
            enough = (
                "a straight line is enough" if test.p_value > 0.05 else "it is curved"
            )
            said[k] += f" ({enough})"
        if curved[k] and not np.isnan(test.p_value):
            words[k] = "agrees"
        if signs is not None and test.sign.startswith("non"):
            after[k] = np.mean(fitted.coef[names.index(test.feature)] == 0)
    return _assemble(
        "statement",
        [
            Statement(text, one.feature, None, one.sign, 1.0)
            for text, one in zip(said, tests, strict=True)
        ],
        before=np.array([test.before for test in tests]),
        after=after,
        costs=np.zeros(len(tests)),
        tests=known,
        words=words,
    )


class _Weighted(NamedTuple):
    """Problem in which outlier tasks have no weight.

    Rows of an outlier determine only the sum of its shared and its task-specific
    component.
    """

    problem: Problem  # without task-specific components
    outliers: Index
    feature_scale: Array  # (d,) standard deviations in the units of the problem
    degrees: float  # weight of rows less free intercepts


def _leave_out_outliers(fitted: FittedProblem, without: Solution) -> _Weighted:
    """Tasks that have a task-specific component in a fit without the prior."""
    own = without.point.total - without.coef
    outliers = np.flatnonzero(own.any(axis=0))
    others = np.setdiff1d(np.arange(own.shape[1]), outliers)
    n_intercepts = len(others) if fitted.plain.fit_intercept is True else 0
    n_rows = float(fitted.setup.moments.weight[others].sum())
    return _Weighted(
        fitted.without_tasks(outliers),
        outliers,
        fitted.feature_scale,
        max(1.0, n_rows - n_intercepts),
    )


def _audit_relations(
    fitted: FittedProblem,
    without: Solution,
    pairs: Sequence[tuple[FittedProblem, Solution]],
) -> list[RelationAudit]:
    """Rows of D, most disagreeing first; ``without`` is a fit without them."""
    before = without.coef
    prior, known = fitted.problem.prior, fitted.setup.feature_prior
    assert known is not None
    d, moments = prior.D.shape[1], fitted.setup.moments
    targets = known.targets(moments.tasks)
    C = 0.0 if prior.target is None else prior.target
    scaled = None
    if targets is not None and prior.target is not None:
        scaled = targets._replace(values=prior.target)
    if pairs:  # known values cancel in differences of classes
        each = [
            _test_relations(_leave_out_outliers(p, start), start.coef, 0.0)
            for p, start in pairs
        ]
        tests = [smallest(tests) for tests in zip(*each, strict=True)]
    else:
        tests = _test_relations(_leave_out_outliers(fitted, without), before, C)
    largest = float(np.linalg.norm(fitted.coef, axis=1).max(initial=0.0))
    return _assemble(
        "feature",
        describe_rows(known.matrix(d), name_features(moments.features, d), targets),
        before=np.minimum(measure_violations(prior.D, before, scaled, largest), 1.0),
        after=measure_violations(prior.D, fitted.coef, scaled, largest),
        costs=0.5 * prior.theta * np.sum((prior.D @ fitted.coef - C) ** 2, axis=1),
        tests=tests,
    )


def _test_relations(
    weighted: _Weighted, before: Array, targets: Array | float
) -> list[StatementTest]:
    D = weighted.problem.prior.D
    C = np.broadcast_to(targets, (D.shape[0], before.shape[1]))
    d, m = before.shape
    features = np.arange(d)
    if not _is_affordable(d, m):
        # Features in use, and those related to them; none if these are too many.
        used = before.any(axis=1)
        touching = abs(D) @ used.astype(np.float64) > 0
        related = touching.astype(np.float64) @ abs(D) > 0
        features = np.flatnonzero(used | related)
        if not _is_affordable(len(features), m):
            features = features[:0]
    outside = np.ones(d)
    outside[features] = 0.0
    inside = np.flatnonzero((abs(D) @ outside == 0) & (abs(D).sum(axis=1) > 0))
    tests = [UNKNOWN] * D.shape[0]
    least_share = 0.5  # of rows that are of tasks which determine a relation alone
    if len(inside) and isinstance(weighted.problem.fit, SquaredFit):
        # By each task's own rows, which no assumption on other tasks can bend.
        fit = weighted.problem.fit.restrict(features)
        weight = np.array(fit.moments.weight)
        weight[weighted.outliers] = 0.0
        tasks = Tasks.of(fit, None, judged=weight > 0)
        if tasks.knows_noise:
            part = csr_array(D[inside][:, features])
            found = relation_tests(part, C[inside], tasks, weight, least_share)
            for k, test in zip(inside, found, strict=True):
                tests[k] = test
            inside = inside[[np.isnan(test.p_value) for test in found]]
    if len(inside):
        estimate = estimate_coefficients(
            weighted.problem, before, features, weighted.feature_scale, weighted.degrees
        )
        part = csr_array(D[inside][:, features])
        found = feature_tests(part, estimate, C[inside])
        for k, test in zip(inside, found, strict=True):
            tests[k] = test
    return tests


def _is_affordable(d: int, m: int) -> bool:
    """Whether Gram matrices of all tasks can be held, and systems solved."""
    # Numbers in all tasks' Gram matrices: 32 MB.
    return d <= MOST_FEATURES and m * d**2 <= 2**22


def _assemble(
    kind: str,
    statements: Sequence["Statement"],
    *,
    before: Array,
    after: Array,
    costs: Array,
    tests: Sequence[StatementTest],
    words: Sequence[str] | None = None,
) -> list[RelationAudit]:
    """Rows of the result: smallest p value first, what cannot be judged last."""
    shares = costs / (float(costs.sum()) or 1.0)
    words = verdicts(tests) if words is None else words
    found = [
        RelationAudit(
            kind,
            *statements[k],
            violation_before=float(before[k]),
            violation_after=float(after[k]),
            share=float(shares[k]),
            sensitivity=float(costs[k]),
            statistic=tests[k].statistic,
            p_value=tests[k].p_value,
            verdict=words[k],
        )
        for k in range(len(statements))
    ]

    def place(relation: RelationAudit) -> tuple[bool, float, float]:
        if np.isnan(relation.p_value):
            return True, 0.0, -relation.violation_before
        # Where p values vanish, the larger statistic comes first.
        return False, relation.p_value, -relation.statistic

    return sorted(found, key=place)


class Statement(NamedTuple):
    """One relation in words."""

    relation: str
    first: str | None
    second: str | None
    sign: str
    weight: float


def describe_rows(
    D: csr_array, labels: Sequence[str], targets: Targets | None = None
) -> list[Statement]:
    """Rows of D in words: ``a ~ b``, ``a ~ −b``, ``a + 2 b − c ~ 0`` or ``a ~ 0.3``."""
    found = []
    for row, (start, end) in enumerate(pairwise(D.indptr)):
        used = D.data[start:end] != 0
        places, values = D.indices[start:end][used], D.data[start:end][used]
        sizes = np.abs(values)
        # Rows of pairs and known values hold the square root of the weight.
        square = float(sizes[0] ** 2) if len(sizes) else 1.0
        square = float(np.round(square, 12)) or square
        target, weight = "0", 1.0
        has_target = targets is not None and bool(targets.given[row])
        if targets is not None and has_target:
            known = targets.values[row]
            if len(places) == 1:
                known, values, weight = known / values[0], np.ones(1), square
            ends = [spell_number(float(one)) for one in (known.min(), known.max())]
            target = " … ".join(dict.fromkeys(ends))
        if (
            not has_target
            and len(places) == 2
            and np.isclose(sizes[0], sizes[1], rtol=1e-12)
        ):
            first, second = (labels[j] for j in places)
            alike = values[0] * values[1] < 0
            sign, minus = ("similar", "") if alike else ("opposite", "−")
            words = f"{first} ~ {minus}{second}"
            found.append(Statement(words, first, second, sign, square))
            continue
        terms = "".join(
            f" {'−' if value < 0 else '+'} "
            f"{'' if abs(value) == 1 else f'{abs(value):.3g} '}{labels[j]}"
            for j, value in zip(places[:MOST_TERMS], values[:MOST_TERMS], strict=True)
        )
        more = " + …" if len(places) > MOST_TERMS else ""
        words = f"{terms.removeprefix(' + ').strip() or '0'}{more} ~ {target}"
        found.append(Statement(words, None, None, "combination", weight))
    return found
