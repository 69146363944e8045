"""Which engine a quadratic needs."""

from priormtl.problem import BlockQuadratic, SampleForm
from priormtl.solvers.engines.base import Engine
from priormtl.solvers.engines.samples import SharedSamples, TaskSamples
from priormtl.solvers.engines.shared import SharedBlock
from priormtl.solvers.engines.tasks import TaskBlocks

__all__ = ["choose_engine"]


def choose_engine(blocks: BlockQuadratic) -> Engine:
    """By what is kept, Gram matrices or samples, and whether tasks share it."""
    form = blocks.form
    if isinstance(form, SampleForm):
        shared = form.target.ndim == 2
        return SharedSamples(blocks, form) if shared else TaskSamples(blocks, form)
    shared = len(form.gram) == 1 and blocks.laplacian.m > 1
    return SharedBlock(blocks, form) if shared else TaskBlocks(blocks, form)
