"""Names of ``base``, for modules that still import them from here."""

from priormtl.baselines.base import find_distinct

__all__ = ["find_distinct"]
