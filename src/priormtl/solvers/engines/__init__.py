"""Engines of block Newton: how a quadratic is kept, and what is done with it."""

from priormtl.solvers.engines.base import ActiveRows, Descent, Engine, at_other_lam
from priormtl.solvers.engines.choose import choose_engine
from priormtl.solvers.engines.samples import SharedSamples, TaskSamples
from priormtl.solvers.engines.shared import SharedBlock
from priormtl.solvers.engines.step import newton_step
from priormtl.solvers.engines.tasks import TaskBlocks

__all__ = [
    "ActiveRows",
    "Descent",
    "Engine",
    "SharedBlock",
    "SharedSamples",
    "TaskBlocks",
    "TaskSamples",
    "at_other_lam",
    "choose_engine",
    "newton_step",
]
