"""TaskPrior: which tasks are known to be alike."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from priormtl.graphs import Laplacian
from priormtl.priors.edges import check_weight, plain_label, read_edges
from priormtl.priors.ties import Chain, Graph, Groups, Tie, tie_from_plain
from priormtl.priors.words import tie_table, tie_words
from priormtl.tables import to_notebook

__all__ = ["TaskPrior", "laplacian"]

Tasks = Sequence[Hashable]


@dataclass(frozen=True, repr=False)
class TaskPrior:
    """Known ties between tasks: the Laplacian L in ε/2 tr(P L Pᵀ).

    Tasks are named by their labels, which are resolved when a model is fitted.
    ``a + b`` holds the ties of both.

    Examples
    --------
    >>> months = TaskPrior.chain(order=["jan", "feb", "mar"])
    >>> laplacian(months, ["feb", "jan", "mar"]).dense()
    array([[ 2., -1., -1.],
           [-1.,  1.,  0.],
           [-1.,  0.,  1.]])
    """

    ties: tuple[Tie, ...]

    @classmethod
    def chain(
        cls, order: Iterable[Hashable] | None = None, weight: float = 1.0
    ) -> Self:
        """Each task is like the next: Σ ‖p_i − p_{i+1}‖².

        ``order`` lists the task labels; by default they stand as in ``tasks_``.
        """
        labels = None if order is None else tuple(plain_label(task) for task in order)
        return cls((Chain(labels, check_weight(weight)),))

    @classmethod
    def mean(cls, weight: float = 1.0) -> Self:
        """Each task is like the mean of all: Σ ‖p_i − p̄‖², for unordered tasks."""
        return cls((Groups(None, check_weight(weight)),))

    @classmethod
    def groups(
        cls, groups: Mapping[str, Iterable[Hashable]], weight: float = 1.0
    ) -> Self:
        """Each task is like the mean of its group; tasks in no group are free."""
        if not isinstance(groups, Mapping):
            raise TypeError(
                f"groups must map names to lists of tasks: got {type(groups).__name__}."
            )
        members = tuple(
            tuple(plain_label(task) for task in group) for group in groups.values()
        )
        return cls((Groups(members, check_weight(weight)),))

    @classmethod
    def from_graph(cls, graph: Any) -> Self:
        """Edges of a graph, with weights: Σ weight ‖p_a − p_b‖².

        ``graph`` is an edge list or a networkx graph over task labels, or a
        symmetric adjacency matrix over the tasks in the order of ``tasks_``.
        """
        edges = read_edges(graph)
        if any(weight < 0 for _, _, weight in edges):
            raise ValueError("task_prior must have no negative weights.")
        first, second, weight = zip(*edges, strict=True) if edges else ((), (), ())
        is_matrix = hasattr(graph, "shape")
        size = int(graph.shape[0]) if is_matrix else None
        return cls((Graph(first, second, weight, size),))

    def __add__(self, other: Self) -> Self:
        """Ties of both priors."""
        if not isinstance(other, TaskPrior):
            return NotImplemented
        return type(self)(self.ties + other.ties)

    def restrict(self, tasks: Tasks) -> Self:
        """Same prior without the tasks that it names but that are not among these."""
        kept = frozenset(tasks)
        return type(self)(tuple(tie.restrict(kept) for tie in self.ties))

    @property
    def words(self) -> str:
        """Names of the ties; edges and groups are counted."""
        return " + ".join(map(tie_words, self.ties)) or "no ties"

    def __repr__(self) -> str:
        return f"TaskPrior({self.words})"

    def _repr_html_(self) -> str:
        return to_notebook([tie_table(repr(self), self.ties)])

    def to_plain(self) -> list[dict[str, Any]]:
        """JSON values that describe the prior."""
        return [tie.to_plain() for tie in self.ties]

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Prior from what ``to_plain`` made."""
        return cls(tuple(tie_from_plain(tie) for tie in plain))


def laplacian(prior: TaskPrior | None, tasks: Tasks) -> Laplacian:
    """L (m, m), sparse, over these tasks."""
    total = Laplacian.empty(len(tasks))
    for tie in prior.ties if prior is not None else ():
        total = total + tie.laplacian(tasks)
    return total
