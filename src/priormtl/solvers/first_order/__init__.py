"""The paper's five methods, under its names."""

from priormtl.solvers.first_order.fista import Fista
from priormtl.solvers.first_order.gd import Gd
from priormtl.solvers.first_order.ista import Ista
from priormtl.solvers.first_order.ista_reverse import IstaReverse
from priormtl.solvers.first_order.linear import Linear

__all__ = ["Fista", "Gd", "Ista", "IstaReverse", "Linear"]
