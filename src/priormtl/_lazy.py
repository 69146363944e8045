"""cached_property without a lock, as Python has it from 3.12 on.

Python 3.11 holds one lock per property for all instances, so that threads which work
on different problems would wait for each other. Without it two threads may compute
the same value twice; both get the same bits.
"""

import functools
import sys
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property"]

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801
        """Value that is computed at the first access."""

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            """Compute the value and keep it."""
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.attrname, self.func(instance))
