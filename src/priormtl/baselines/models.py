"""Names of ``base``, for modules that still import them from here."""

from priormtl.baselines.base import LinearModel, TaskModel

__all__ = ["LinearModel", "TaskModel"]
