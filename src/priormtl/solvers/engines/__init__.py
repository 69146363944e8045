"""Engines of block Newton: how a quadratic is kept, and what is done with it."""

from priormtl.solvers.engines.base import ActiveRows, Descent, Engine
from priormtl.solvers.engines.choose import choose_engine
from priormtl.solvers.engines.samples import SharedSamples, TaskSamples
from priormtl.solvers.engines.shared import SharedBlock
from priormtl.solvers.engines.tasks import TaskBlocks

__all__ = [
    "ActiveRows",
    "Descent",
    "Engine",
    "SharedBlock",
    "SharedSamples",
    "TaskBlocks",
    "TaskSamples",
    "choose_engine",
]
