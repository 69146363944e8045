"""What fitted mixtures predict, and what they publish."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from priormtl.baselines.mixtures.bound_cells import BoundCells
from priormtl.baselines.mixtures.components import LinearParts
from priormtl.baselines.mixtures.mixing import LinearScorer, MixtureModel, NetworkScorer
from priormtl.baselines.mixtures.mixture import Fitted
from priormtl.baselines.models import LinearModel, TaskModel

__all__ = ["Learned", "learned_networks", "learned_parts"]


class Learned(NamedTuple):
    """A model, and further attributes by name."""

    model: TaskModel
    attributes: Mapping[str, Any]


def learned_parts(bound: BoundCells, run: Fitted[LinearParts]) -> Learned:
    """Of linear components: numbers mix to coefficients, probabilities do not."""
    shares = run.mixture.shares
    coef, intercept = bound.features.leave(run.mixture.parts.coef)
    model: TaskModel = LinearModel(shares @ coef, shares @ intercept)
    if not bound.response.is_quadratic:
        model = MixtureModel(LinearScorer(coef, intercept), shares, True)
    components = {"components_": coef, "component_intercepts_": intercept}
    return Learned(model, components | _mixed(bound, run))


def learned_networks(bound: BoundCells, run: Fitted[Any]) -> Learned:
    """Of networks."""
    networks = run.mixture.parts.networks
    has_classes = not bound.response.is_quadratic
    model = MixtureModel(NetworkScorer(networks), run.mixture.shares, has_classes)
    return Learned(model, {"components_": list(networks)} | _mixed(bound, run))


def _mixed(bound: BoundCells, run: Fitted[Any]) -> dict[str, Any]:
    """What all mixtures publish."""
    learned = {
        "mixture_": run.mixture.shares,
        "log_likelihood_": run.expectation.log_likelihood,
        "residual_": abs(run.gain),
    }
    if bound.response.is_quadratic:
        learned["noise_variance_"] = run.mixture.parts.variance
    return learned
