"""BlockQuadratic: a problem written out by rows and tasks, for compiled solvers."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.sparse import block_diag, csr_array

from priormtl._arrays import Array, Index
from priormtl.graphs import Laplacian
from priormtl.losses import NormalForm, SampleForm
from priormtl.penalties import is_by_rows
from priormtl.problem.objective import Problem

__all__ = ["BlockQuadratic"]

SMALL_GRAM = 2**19  # numbers: 4 MB
MANY_FEATURES = 2.0  # per sample of a task, beyond which samples beat Gram matrices


@dataclass(frozen=True, eq=False)
class BlockQuadratic:
    """Rows Q of features, after a row of intercepts (lam 0) where these are tied.

    fit(Q) + ½ ⟨Q, relation Q⟩ + ½ Σ_j tie_j q^j L q^jᵀ + Σ_j lam_j ‖q^j‖, where the
    fit is kept as Gram matrices, which then hold the relation as well, or as samples.
    """

    form: NormalForm | SampleForm
    relation: csr_array  # (k, k) of the feature prior, where samples are kept
    tie: Array  # (k,)
    lam: Array  # (k,)
    laplacian: Laplacian
    n_intercepts: int

    @classmethod
    def from_problem(cls, problem: Problem) -> Self:
        """Write a quadratic problem with row penalties out."""
        if not cls.fits(problem) or not is_by_rows(problem.penalty):
            raise TypeError("only squared loss with a penalty of rows is written out.")
        fit, prior = problem.fit, problem.prior
        kept = cls.keeps_samples(problem)
        form = fit.sample_form() if kept else fit.normal_form()
        d = problem.shape[0]
        extra = len(form.intercept_ties)
        relation = prior.relation
        if isinstance(form, NormalForm):
            form, relation = _add_relation(form, extra, relation), csr_array((0, 0))
        weights = np.ones(d) if prior.tie_weights is None else prior.tie_weights
        rows = problem.lam * problem.penalty.row_weights(d)
        return cls(
            form,
            _after(extra, relation),
            np.concatenate([form.intercept_ties, prior.epsilon * weights]),
            np.concatenate([np.zeros(extra), rows]),
            prior.laplacian,
            extra,
        )

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Whether a problem can be written out: rows of intercepts must share L."""
        graph = problem.fit.intercept_graph
        return (
            is_by_rows(problem.penalty)
            and problem.fit.normal_size is not None
            and (graph is None or graph is problem.prior.laplacian)
        )

    @staticmethod
    def keeps_samples(problem: Problem) -> bool:
        """Whether samples are less work than Gram matrices, and these are large.

        Small Gram matrices are worth their price: they solve strong priors exactly.
        """
        rows, size = problem.fit.rows_per_task, problem.fit.normal_size
        if rows is None or size is None or size <= SMALL_GRAM:
            return False
        return problem.shape[0] > MANY_FEATURES * rows

    def at_lam(self, problem: Problem) -> Self:
        """Same quadratic with the penalty of a problem that differs in lam only."""
        rows = problem.lam * problem.penalty.row_weights(problem.shape[0])  # type: ignore[attr-defined]
        return replace(self, lam=np.concatenate([np.zeros(self.n_intercepts), rows]))

    def restrict(self, features: Index) -> Self:
        """Only these features; rows of intercepts stay."""
        if len(features) == len(self.lam) - self.n_intercepts:
            return self
        first = np.arange(self.n_intercepts)
        rows = np.concatenate([first, self.n_intercepts + features])
        return replace(
            self,
            form=_restrict(self.form, rows),
            relation=_restrict_relation(self.relation, rows),
            tie=self.tie[rows],
            lam=self.lam[rows],
        )


def _restrict(form: NormalForm | SampleForm, rows: Index) -> NormalForm | SampleForm:
    if isinstance(form, SampleForm):
        return form._replace(rows=form.rows[rows])
    gram = form.gram[:, rows[:, np.newaxis], rows]
    return form._replace(gram=gram, linear=form.linear[rows])


def _add_relation(form: NormalForm, extra: int, relation: csr_array) -> NormalForm:
    """Same fit with the prior of features, which come after ``extra`` rows."""
    if relation.nnz == 0:
        return form
    gram = form.gram if form.gram.flags.writeable else form.gram.copy()
    entries = relation.tocoo()
    gram[:, extra + entries.row, extra + entries.col] += entries.data
    return form._replace(gram=gram)


def _restrict_relation(relation: csr_array, rows: Index) -> csr_array:
    return csr_array(relation[rows][:, rows]) if relation.nnz else relation


def _after(extra: int, relation: csr_array) -> csr_array:
    """Relation of features that come after ``extra`` rows."""
    if extra == 0:
        return relation
    return csr_array(block_diag([csr_array((extra, extra)), relation]))
