"""BlockQuadratic: a problem written out by rows and tasks, for compiled solvers."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from priormtl._arrays import Array
from priormtl._lazy import cached_property
from priormtl.graphs import Laplacian
from priormtl.penalties import RowSeparable
from priormtl.problem.objective import Problem

__all__ = ["BlockQuadratic"]


@dataclass(frozen=True, eq=False)
class BlockQuadratic:
    """½ Σ_i q_iᵀ gram_i q_i − ⟨linear, Q⟩ + ½ Σ_j tie_j q^j L q^jᵀ + Σ_j lam_j ‖q^j‖.

    Rows of Q are features, with rows of intercepts (lam 0) before them where these
    are tied.
    """

    gram: Array  # (m, k, k) or (1, k, k), the feature prior included
    linear: Array  # (k, m)
    tie: Array  # (k,)
    lam: Array  # (k,)
    laplacian: Laplacian
    n_intercepts: int

    @classmethod
    def from_problem(cls, problem: Problem) -> Self:
        """Write a quadratic problem with row penalties out."""
        if not cls.fits(problem) or not isinstance(problem.penalty, RowSeparable):
            raise TypeError("only squared loss with a penalty of rows is written out.")
        form = problem.fit.normal_form()
        prior = problem.prior
        d = problem.shape[0]
        extra = len(form.intercept_ties)
        gram = np.array(form.gram)
        if prior.theta > 0 and prior.D.nnz:
            gram[:, extra:, extra:] += prior.theta * (prior.D.T @ prior.D).toarray()
        weights = np.ones(d) if prior.tie_weights is None else prior.tie_weights
        rows = problem.lam * problem.penalty.row_weights(d)
        return cls(
            gram,
            form.linear,
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
            isinstance(problem.penalty, RowSeparable)
            and problem.fit.normal_size is not None
            and (graph is None or graph is problem.prior.laplacian)
        )

    @cached_property
    def gram_by_rows(self) -> Array:
        """Gram matrices (k, k, m) with tasks last."""
        m = self.linear.shape[1]
        full = np.broadcast_to(self.gram, (m, *self.gram.shape[1:]))
        return np.ascontiguousarray(np.moveaxis(full, 0, 2))

    @cached_property
    def degree(self) -> Array:
        """Diagonal of L (m,)."""
        groups = self.laplacian.groups
        return (
            self.laplacian.edges.diagonal()
            - np.asarray(groups.multiply(groups).sum(axis=1)).ravel()
        )
