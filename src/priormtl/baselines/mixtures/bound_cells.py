"""BoundCells: cells, and their rows as linear components see them."""

from dataclasses import dataclass

import numpy as np

from priormtl._lazy import cached_property
from priormtl.baselines.mixtures.cells import Cells
from priormtl.baselines.mixtures.features import (
    Features,
    plain_features,
    rotated_features,
)
from priormtl.baselines.mixtures.responses import Response

__all__ = ["BoundCells"]


@dataclass(frozen=True, eq=False)
class BoundCells:
    """What no setting of a mixture changes."""

    cells: Cells
    response: Response
    rotate: bool
    fit_intercept: bool

    @cached_property
    def features(self) -> Features:
        """Turned for speed, or as they are where descent must be the published one."""
        make = rotated_features if self.rotate else plain_features
        return make(self.cells, fit_intercept=self.fit_intercept)

    @cached_property
    def curvature(self) -> float:
        """Mean second derivative of the negative log-likelihood in a coefficient."""
        penalised = self.features.penalised > 0
        spread = float(np.sum(self.features.spectrum[penalised]))
        cells = self.cells
        even = np.zeros((1, cells.X.shape[0]))
        everyone = np.ones((1, len(cells.y)))
        noise = self.response.learn_variance(cells, even, everyone)
        bend = float(self.response.curvature(np.zeros(1))[0])
        return (spread * bend / noise / cells.X.shape[1]) or 1.0
