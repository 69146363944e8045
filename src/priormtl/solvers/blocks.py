"""BlockQuadratic: a quadratic problem with a row penalty, for compiled solvers.

The fit is kept as Gram matrices, or as samples where these are fewer numbers.
"""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_diag, csr_array

from priormtl._arrays import LARGE, Array, Index, restrict_tasks_last
from priormtl.penalties import RowSeparable
from priormtl.priors.graphs import Laplacian
from priormtl.problem import NormalForm, Problem, SampleForm

SMALL_GRAM = 2**19  # numbers: 4 MB
NO_RELATION = csr_array((0, 0))


@dataclass(frozen=True, eq=False)
class BlockQuadratic:
    """Rows Q of features, after a row of intercepts (lam 0) where these are tied.

    fit(Q) + ½ ⟨Q, relation Q⟩ − ⟨Q, pull⟩ + ½ Σ_j tie_j q^j L q^jᵀ + Σ_j lam_j ‖q^j‖,
    where the fit is kept as Gram matrices or as samples. Rows may have a sign, or be
    the same in all tasks.
    """

    form: NormalForm | SampleForm
    relation: csr_array  # (k, k) of the feature prior, where the form does not hold it
    tie: Array  # (k,)
    lam: Array  # (k,)
    laplacian: Laplacian
    n_intercepts: int
    sign: Array  # (k,) 1: nonnegative, −1: nonpositive, 0: any
    common: NDArray[np.bool_]  # (k,)
    pull: Array | None = None  # (k, m) of known values, beside samples; None: zero
    is_constrained: bool = field(init=False)
    # Whether every feature that is left out saves much memory and time.
    is_large: bool = field(init=False)

    def __post_init__(self) -> None:
        form = self.form
        large = isinstance(form, NormalForm) and form.gram.size > LARGE
        constrained = bool(self.common.any() or self.sign.any())
        self.__dict__.update(is_constrained=constrained, is_large=large)

    @classmethod
    def from_problem(cls, problem: Problem) -> Self:
        """Write a quadratic problem with row penalties out."""
        if not cls.fits(problem) or not isinstance(problem.penalty, RowSeparable):
            raise TypeError("block form needs squared loss and a penalty of rows.")
        fit, prior = problem.fit, problem.prior
        kept = cls.keeps_samples(problem)
        form = fit.sample_form() if kept else fit.normal_form()
        d, relation = problem.shape[0], prior.relation
        extra = len(form.intercept_ties)
        weights = np.ones(d) if prior.tie_weights is None else prior.tie_weights
        sign, common, pull = np.zeros(d), np.zeros(d, dtype=bool), prior.pull
        if problem.constraints is not None:
            sign, common = problem.constraints.signs, problem.constraints.common
        rows = problem.lam * problem.penalty.row_weights(d)
        if extra:
            # Features come after the row of intercepts.
            relation = csr_array(block_diag([csr_array((extra, extra)), relation]))
            if pull is not None:
                pull = np.vstack([np.zeros((extra, pull.shape[1])), pull])
        if isinstance(form, NormalForm):
            # Gram matrices that can be written belong to nobody else, and small ones
            # are copied. Large ones get the relation once those in use are copied.
            gram, is_own = form.gram, form.gram.flags.writeable
            if relation.nnz and (is_own or gram.size <= LARGE):
                gram = gram if is_own else restrict_tasks_last(gram)
                entries, last = relation.tocoo(), gram.transpose(1, 2, 0)
                last[entries.row, entries.col] += entries.data[:, np.newaxis]
                relation = NO_RELATION
            linear = form.linear if pull is None else form.linear + pull
            linear, pull = np.ascontiguousarray(linear), None
            form = NormalForm(gram, linear, form.intercept_ties)
        return cls(
            form,
            relation,
            # Rows of common effects have nothing to tie.
            np.concatenate([form.intercept_ties, prior.epsilon * weights * ~common]),
            np.concatenate([np.zeros(extra), rows]),
            prior.laplacian,
            extra,
            np.concatenate([np.zeros(extra), sign]),
            np.concatenate([np.zeros(extra, dtype=bool), common]),
            pull,
        )

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Whether a problem can be written out: rows of intercepts must share L.

        Common effects must be common to all columns, hence not differ by class.
        """
        graph, rows = problem.fit.intercept_graph, problem.constraints
        by_class = rows is not None and rows.classes > 1 and bool(rows.common.any())
        return (
            isinstance(problem.penalty, RowSeparable)
            and not by_class
            and problem.fit.normal_size is not None
            and (graph is None or graph is problem.prior.laplacian)
        )

    @staticmethod
    def keeps_samples(problem: Problem) -> bool:
        """Whether samples are less work than Gram matrices, and these are large.

        Small Gram matrices are always worth it: they solve strong priors exactly.
        """
        rows, size = problem.fit.rows_per_task, problem.fit.normal_size
        if rows is None or size is None or size <= SMALL_GRAM:
            return False
        return problem.shape[0] > 2.0 * rows

    def at_lam(self, problem: Problem) -> Self:
        """Same quadratic with the penalty of a problem that differs in lam only."""
        rows = problem.lam * problem.penalty.row_weights(problem.shape[0])  # type: ignore[attr-defined]
        return replace(self, lam=np.concatenate([np.zeros(self.n_intercepts), rows]))

    def restrict(self, features: Index) -> Self:
        """These features and rows of intercepts; Gram matrices hold the relation."""
        is_whole = len(features) == len(self.lam) - self.n_intercepts
        if is_whole and (isinstance(self.form, SampleForm) or not self.relation.nnz):
            return self
        first = np.arange(self.n_intercepts)
        rows = np.concatenate([first, self.n_intercepts + features])
        part = replace(
            self,
            tie=self.tie[rows],
            lam=self.lam[rows],
            sign=self.sign[rows],
            common=self.common[rows],
            pull=None if self.pull is None else self.pull[rows],
        )
        if isinstance(self.form, SampleForm):
            samples = self.form._replace(rows=self.form.rows[rows])
            relation = csr_array(self.relation[rows][:, rows])
            return replace(part, form=samples, relation=relation)
        gram = restrict_tasks_last(self.form.gram, rows)
        if self.relation.nnz:
            gram += self.relation.toarray()[rows[:, np.newaxis], rows]
        linear = self.form.linear[rows]
        form = self.form._replace(gram=gram, linear=linear)
        return replace(part, form=form, relation=NO_RELATION)
