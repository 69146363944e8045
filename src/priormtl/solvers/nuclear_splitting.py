"""NuclearSplitting: exchanges come near the optimum, Newton's steps reach it."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from priormtl._arrays import Array
from priormtl.penalties import Nuclear
from priormtl.problem import Point, Problem
from priormtl.solvers.nuclear_newton import NuclearNewton, NuclearNewtonState
from priormtl.solvers.splitting import (
    LEAST_PRICE,
    Exchange,
    Splitting,
    fit_curvature,
    rebalance,
)

if TYPE_CHECKING:
    from priormtl.solvers.kernels.exchange import Sides

__all__ = ["NuclearSplitting"]

FIRST_PRICE = 3.0  # over that of Splitting: few singular values bear all of lam
ROUND = 5  # exchanges from one look at the gap to the next
MOST_ROUNDS = 30  # after which only Newton's steps will do


@dataclass(frozen=True, eq=False)
class Exchanges:
    """Both sides, and what they hold."""

    sides: "Sides"
    gram: Array  # (m, d, d) or (1, d, d)
    held: Exchange  # tasks are rows
    n_rounds: int


@dataclass(frozen=True, eq=False)
class NuclearSplittingState:
    """Where the method stands."""

    point: Point
    exchanges: Exchanges | None  # None: they have done what they can
    newton: NuclearNewtonState | None = None


@dataclass(frozen=True)
class NuclearSplitting:
    """For squared loss with the nuclear norm, no prior and small Gram matrices.

    From zero, rounds of exchanges as in ``Splitting``, whose every exchange is cheap
    here; ``NuclearNewton`` takes over where they are slow, and where a start is known.
    """

    look_every: ClassVar[int] = 1

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Whether the penalty is the nuclear norm, and nothing else is smooth."""
        return isinstance(problem.penalty, Nuclear) and Splitting.fits(problem)

    def start(self, problem: Problem, point: Point) -> NuclearSplittingState:
        """Write the problem out, unless the start is known to be good."""
        known = bool(point.coef.any())
        return NuclearSplittingState(point, None if known else _begin(problem, point))

    def step(
        self, problem: Problem, state: NuclearSplittingState
    ) -> NuclearSplittingState:
        """A round of exchanges, or a step of Newton's."""
        if state.exchanges is not None:
            return _exchange(problem, state, state.exchanges)
        return _polish(problem, state)


def _polish(problem: Problem, state: NuclearSplittingState) -> NuclearSplittingState:
    """A step of Newton's."""
    method = NuclearNewton()
    at = state.newton or method.start(problem, state.point)
    after = method.step(problem, at)
    return NuclearSplittingState(after.point, None, after)


def _begin(problem: Problem, point: Point) -> Exchanges:
    """First sides and what they hold."""
    from priormtl.solvers.kernels.exchange import Sides  # noqa: PLC0415

    start = Splitting().start(problem, point)
    form = problem.fit.normal_form()
    gram, linear = form.gram, np.array(form.linear.T, order="C")
    sides = Sides(gram, linear, 0.0, float(problem.lam))
    held = Exchange(np.zeros_like(linear), np.array(start.pull.T, order="C"))
    return _reprice(Exchanges(sides, gram, held, 0), FIRST_PRICE * start.price)


def _reprice(exchanges: Exchanges, price: float) -> Exchanges:
    """Same at another price, whose inverses are then known."""
    from priormtl.solvers.kernels.tangent import invert_positive  # noqa: PLC0415

    if price == exchanges.sides.price:
        return exchanges
    gram = exchanges.gram
    inverse = invert_positive(gram + price * np.eye(gram.shape[1]))
    return replace(
        exchanges, sides=exchanges.sides._replace(inverse=inverse, price=price)
    )


def _exchange(
    problem: Problem, state: NuclearSplittingState, exchanges: Exchanges
) -> NuclearSplittingState:
    """A round; where digits do not suffice for it, a step of Newton's."""
    from priormtl.solvers.kernels.exchange import exchange  # noqa: PLC0415

    coef, pull = (np.array(side) for side in exchanges.held)
    norm = exchange(exchanges.sides, coef, pull, ROUND - 1)
    before = Exchange(coef.copy(), pull.copy())
    norm = exchange(exchanges.sides, coef, pull, 1) if norm >= 0 else norm
    if norm < 0:
        return _polish(problem, state)
    point = problem.at(coef.T, near=state.point, norm=norm)
    n_rounds = exchanges.n_rounds + 1
    if n_rounds == MOST_ROUNDS:
        return NuclearSplittingState(point, None)
    held, price = Exchange(coef, pull), exchanges.sides.price
    least = LEAST_PRICE * fit_curvature(problem)
    following = replace(exchanges, held=held, n_rounds=n_rounds)
    wanted = max(least, price * rebalance(held, before, price))
    return NuclearSplittingState(point, _reprice(following, wanted))
