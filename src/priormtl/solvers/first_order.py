"""The five first-order methods of Zhang and Liu (SDM 2023, Figure 1).

The objective is F = f + g with the smooth part f (fit and prior) and g = lam · penalty.
All five take proximal gradient steps from a base point A with curvature η = 1/step,

    U = A − ∇f(A) / η,    P⁺ = argmin_V g(V) + η/2 ‖V − U‖² = prox_{g/η}(U),

which minimises F's quadratic model M_η(V; A) = f(A) + ⟨∇f(A), V − A⟩ + η/2 ‖V − A‖² +
g(V). Beck and Teboulle (2009) write Q_L for M (2.5) and p_L for P⁺ (2.6). The methods
differ in the base point and in how they find η:

=============  ===========================  ======================  ==============
method         source                       base point A            curvature η
=============  ===========================  ======================  ==============
`Gd`           paper, Algorithm 1           last iterate            constant L
`Ista`         Beck and Teboulle, (3.1)     last iterate            backtracking
`IstaReverse`  paper, Algorithm 2           last iterate            search from L
`Fista`        Beck and Teboulle, (4.1–3)   Nesterov extrapolation  backtracking
`Linear`       paper, Algorithm 3           constant extrapolation  constant L
=============  ===========================  ======================  ==============

L and σ are the extreme eigenvalues of the Hessian of f. The paper's formulas for them
are wrong in general (`problem.paper_constants`); the exact ones are the default.

A. Beck and M. Teboulle: A Fast Iterative Shrinkage-Thresholding Algorithm for Linear
Inverse Problems. SIAM Journal on Imaging Sciences 2, 2009.
B. O'Donoghue and E. Candès: Adaptive Restart for Accelerated Gradient Schemes.
Foundations of Computational Mathematics 15, 2015.
"""

from dataclasses import dataclass
from math import isfinite, sqrt
from typing import ClassVar

import numpy as np

from priormtl._arrays import Array
from priormtl.problem import Constants, Point, Problem, exact_constants


@dataclass(frozen=True, eq=False)
class ProximalState:
    """State of a proximal gradient method."""

    point: Point
    curvature: float  # η of the last step


@dataclass(frozen=True)
class Gd:
    """Proximal gradient with constant step 1/L; the objective never increases."""

    constants: Constants = exact_constants

    check_every: ClassVar[int] = 10

    def start(self, problem: Problem, point: Point) -> ProximalState:
        return ProximalState(point, self.constants(problem).smoothness or 1.0)

    def step(self, problem: Problem, state: ProximalState) -> ProximalState:
        point = proximal_step(problem, state.point, state.curvature)
        return ProximalState(point, state.curvature)


@dataclass(frozen=True)
class Ista:
    """Proximal gradient with backtracking; η never decreases."""

    growth: float = 2.0

    check_every: ClassVar[int] = 10

    def start(self, problem: Problem, point: Point) -> ProximalState:
        """Begin with the curvature along the gradient."""
        return ProximalState(point, initial_curvature(problem, point))

    def step(self, problem: Problem, state: ProximalState) -> ProximalState:
        """Proximal gradient step with the first admissible curvature."""
        return ProximalState(
            *backtrack(problem, state.point, state.curvature, self.growth)
        )


@dataclass(frozen=True, eq=False)
class IstaReverseState:
    """State of the reversed search."""

    point: Point
    largest: float  # L, where every search begins
    curvature: float  # η at which the last search ended


@dataclass(frozen=True)
class IstaReverse:
    """Proximal gradient with the largest admissible step.

    Every iteration starts at η = L and multiplies it by ``shrink`` while F ≤ M. Where L
    itself is not admissible, which the paper's L need not be, η grows instead.
    """

    shrink: float = 0.8
    constants: Constants = exact_constants

    check_every: ClassVar[int] = 10

    def start(self, problem: Problem, point: Point) -> IstaReverseState:
        largest = self.constants(problem).smoothness or 1.0
        return IstaReverseState(point, largest, largest)

    def step(self, problem: Problem, state: IstaReverseState) -> IstaReverseState:
        """Proximal gradient step with the last curvature that was admissible."""
        base = state.point
        point, curvature = backtrack(problem, base, state.largest, 1.0 / self.shrink)
        # Along a flat direction any step would be admissible.
        while 1e-6 * state.largest < curvature <= state.largest:
            longer = proximal_step(problem, base, curvature * self.shrink)
            if not fits_model(problem, longer, base, curvature * self.shrink):
                break
            if (longer.coef == point.coef).all():
                break  # at a fixed point every step is admissible
            point, curvature = longer, curvature * self.shrink
        return IstaReverseState(point, state.largest, curvature)


@dataclass(frozen=True, eq=False)
class AcceleratedState:
    """State of an accelerated method."""

    point: Point  # proximal point
    lookahead: Point  # extrapolated point, the base of the next step
    curvature: float  # η
    t: float = 1.0  # of Nesterov's sequence
    momentum: float | None = None  # constant share of the last move; None: Nesterov's


@dataclass(frozen=True)
class Fista:
    """Accelerated proximal gradient with backtracking, and optionally with restart.

    ``restart`` sets the momentum back to zero when the last move goes uphill (gradient
    scheme of O'Donoghue and Candès).
    """

    restart: bool = False
    growth: float = 2.0

    check_every: ClassVar[int] = 10

    def start(self, problem: Problem, point: Point) -> AcceleratedState:
        """Begin with the curvature along the gradient and no momentum."""
        return AcceleratedState(point, point, initial_curvature(problem, point))

    def step(self, problem: Problem, state: AcceleratedState) -> AcceleratedState:
        point, curvature = backtrack(
            problem, state.lookahead, state.curvature, self.growth
        )
        return _extrapolate(problem, state, point, curvature, restart=self.restart)


@dataclass(frozen=True)
class Linear:
    """Accelerated proximal gradient with constant step 1/L and constant momentum.

    The momentum is (√c − 1)/(√c + 1) with c = L/σ, and F − F* falls at least as fast as
    (1 − 1/√c)^k. Without strong convexity (σ ≤ 1e-10 L) that momentum would be 1 and
    need not converge: Nesterov's momentum with restart replaces it.
    """

    constants: Constants = exact_constants

    check_every: ClassVar[int] = 10

    def start(self, problem: Problem, point: Point) -> AcceleratedState:
        """Compute L and σ, and from them the momentum."""
        sigma, largest = self.constants(problem)
        momentum = None
        # Else the problem does not count as strongly convex.
        if sigma > 1e-10 * largest:
            root = sqrt(largest / sigma)
            momentum = (root - 1.0) / (root + 1.0)
        return AcceleratedState(point, point, largest or 1.0, momentum=momentum)

    def step(self, problem: Problem, state: AcceleratedState) -> AcceleratedState:
        point = proximal_step(problem, state.lookahead, state.curvature)
        return _extrapolate(problem, state, point, state.curvature, restart=True)


def _extrapolate(
    problem: Problem,
    state: AcceleratedState,
    point: Point,
    curvature: float,
    *,
    restart: bool,
) -> AcceleratedState:
    """Next lookahead point P_k + β (P_k − P_{k−1})."""
    t, momentum = state.t, state.momentum
    if momentum is None:
        back, move = state.lookahead.coef - point.coef, point.coef - state.point.coef
        # Restart where the last move points against the proximal step that followed.
        if restart and np.vdot(back, move) > 0:
            t, momentum = 1.0, 0.0
        else:
            # t_{k+1} = (1 + √(1 + 4 t_k²))/2 and β = (t_k − 1)/t_{k+1}: (4.2), (4.3).
            t = (1.0 + sqrt(1.0 + 4.0 * state.t**2)) / 2.0
            momentum = (state.t - 1.0) / t
    lookahead = problem.extrapolate(point, state.point, momentum)
    return AcceleratedState(point, lookahead, curvature, t, state.momentum)


def proximal_step(problem: Problem, base: Point, curvature: float) -> Point:
    """Minimiser of the quadratic model of this curvature around ``base``."""
    # argmin ⟨∇f, U − P⟩ + η/2 ‖U − P‖² + lam · penalty(U): complete the square.
    target: Array = base.coef - base.gradient / curvature
    return problem.at(problem.prox(target, 1.0 / curvature), near=base)


def fits_model(problem: Problem, point: Point, base: Point, curvature: float) -> bool:
    """Whether F ≤ M at ``point``, for the model around ``base``.

    The penalty stands on both sides; what is left is compared in closed form.
    """
    move = point.coef - base.coef
    length = float((move * move).sum())
    return problem.excess(point, base) <= 0.5 * curvature * length * (1.0 + 1e-12)


def backtrack(
    problem: Problem, base: Point, curvature: float, growth: float
) -> tuple[Point, float]:
    """Multiply the curvature by ``growth`` until F ≤ M; one product for each trial."""
    while True:
        point = proximal_step(problem, base, curvature)
        if fits_model(problem, point, base, curvature) or not isfinite(point.value):
            return point, curvature
        curvature *= growth


def initial_curvature(problem: Problem, point: Point) -> float:
    """Curvature along the gradient: at most the largest, and of its scale."""
    gradient = point.gradient
    length = float((gradient * gradient).sum())
    if length == 0:
        return 1.0
    direction = gradient / length**0.5
    along = float((direction * problem.majorant(direction)).sum())
    return along if along > 0 else 1.0
