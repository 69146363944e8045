"""What it can be tried on."""

from priormtl.datasets.synthetic import RelatedTasks, make_related_tasks

__all__ = ["RelatedTasks", "make_related_tasks"]
