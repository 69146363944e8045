"""Dual values where the penalty is a power: no norm, but certified by its conjugate."""

from typing import NamedTuple

from priormtl.losses import Evaluation

__all__ = ["PowerDual"]

TRIALS = 4


class PowerDual(NamedTuple):
    """Dual values fit(s) − s² prior − s^r cost at multiples s of the residuals.

    A penalty of degree q has a conjugate of degree r = q / (q − 1).
    """

    fit: Evaluation
    prior_value: float
    cost: float  # conjugate of lam · penalty at the gradient
    degree: float  # q

    def best(self) -> float:
        """Best of a few trials; squares need only one."""
        scale, best = 1.0, self._value(1.0)
        for _ in range(1 if self.degree == 2.0 else TRIALS):
            scale = self._improve(scale)
            if scale <= 0:
                break
            best = max(best, self._value(scale))
        return best

    def _improve(self, scale: float) -> float:
        """Scale that is best where the square of equal slope stands for the power.

        The loss knows that one. Damping by q − 1 makes the step exact where the
        power outweighs all else, which undamped steps would jump about.
        """
        r = self._power
        square = 0.5 * r * self.cost * scale ** (r - 2.0)
        found = self.fit.best_scale(float("inf"), self.prior_value + square)
        if found <= 0:
            return 0.0
        damping = self.degree - 1.0
        return scale ** (1.0 - damping) * found**damping

    def _value(self, scale: float) -> float:
        quadratic = self.fit.dual_value(scale) - scale**2 * self.prior_value
        return float(quadratic - scale**self._power * self.cost)

    @property
    def _power(self) -> float:
        return self.degree / (self.degree - 1.0)
