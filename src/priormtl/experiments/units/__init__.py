"""What there is to compute: each unit gives rows that depend on its settings alone."""

from priormtl.experiments.units.convergence import ConvergenceUnit
from priormtl.experiments.units.roc import RocUnit
from priormtl.experiments.units.scores import ScoreUnit
from priormtl.experiments.units.surfaces import SurfaceUnit

__all__ = ["ConvergenceUnit", "RocUnit", "ScoreUnit", "SurfaceUnit"]
