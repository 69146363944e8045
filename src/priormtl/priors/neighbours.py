"""Neighbourhood: which tasks a task prior puts next to one that has no rows."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from priormtl._lazy import cached_property
from priormtl.priors.tasks import TaskPrior
from priormtl.priors.ties import Chain, Groups

__all__ = ["Neighbourhood"]

Labels = tuple[Hashable, ...]


@dataclass(frozen=True)
class Neighbourhood:
    """A task prior with the tasks that have rows, to look up others."""

    prior: TaskPrior | None
    tasks: Labels
    order: Labels | None = None  # of labels without distances, such as categories

    def nearest(self, label: Hashable) -> Labels:
        """Tasks at the least distance from ``label``: none, one or several.

        Steps in a graph over labels count first; then distances of ordered labels in
        a chain; in a prior of the mean all tasks are equally near.
        """
        found = self._least_steps(label)
        if found or self.prior is None:
            return found
        ties = self.prior.ties
        if any(isinstance(tie, Chain) and tie.order is None for tie in ties):
            return self._least_difference(label)
        together = any(isinstance(tie, Groups) and tie.members is None for tie in ties)
        return self.tasks if together else ()

    @cached_property
    def _circles(self) -> list[Labels]:
        ties = () if self.prior is None else self.prior.ties
        return [circle for tie in ties for circle in tie.circles()]

    @cached_property
    def _circles_of(self) -> dict[Hashable, list[int]]:
        around: dict[Hashable, list[int]] = defaultdict(list)
        for k, circle in enumerate(self._circles):
            for member in circle:
                around[member].append(k)
        return dict(around)

    def _least_steps(self, label: Hashable) -> Labels:
        """Walk from circle to circle until some member has rows."""
        known, used = set(self.tasks), set[int]()
        seen = frontier = {label}
        while frontier:
            around = {k for one in frontier for k in self._circles_of.get(one, ())}
            reached = {one for k in around - used for one in self._circles[k]}
            used, frontier, seen = used | around, reached - seen, seen | reached
            if frontier & known:
                return tuple(task for task in self.tasks if task in frontier)
        return ()

    @cached_property
    def _places(self) -> dict[Hashable, int] | None:
        """Places among categories, where these hold all tasks."""
        if self.order is None or not set(self.tasks) <= set(self.order):
            return None
        return {label: i for i, label in enumerate(self.order)}

    @cached_property
    def _ranked(self) -> list[tuple[Any, Hashable]]:
        """Tasks by what their distance is counted in; none without an order."""
        place = self._places
        keys: Sequence[Any] = [t if place is None else place[t] for t in self.tasks]
        try:
            order = sorted(range(len(keys)), key=keys.__getitem__)
        except TypeError:
            return []
        return [(keys[i], self.tasks[i]) for i in order]

    def _least_difference(self, label: Hashable) -> Labels:
        """Nearest by difference, or by places among categories."""
        key: Any = label if self._places is None else self._places.get(label, label)
        try:
            place = bisect_left(self._ranked, key, key=lambda pair: pair[0])
            beside = self._ranked[max(0, place - 1) : place + 1]
            gaps = [abs(other - key) for other, _ in beside]
        except TypeError:  # labels such as text have an order but no distances
            return ()
        pairs = zip(beside, gaps, strict=True)
        return tuple(task for (_, task), gap in pairs if gap == min(gaps))
