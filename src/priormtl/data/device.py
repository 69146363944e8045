"""Statistics and rows on a device, by PyTorch: a graphics card, or "cpu" for tests.

:class:`DeviceGrams` are the Gram matrices of :class:`~priormtl.data.TaskStatistics` as
one tensor; everything else of the statistics is small and stays in memory. Solvers see
such a tensor and work where it is (`solvers.device`). :class:`DeviceRows` are rows task
after task whose products are computed on the device, for logistic loss.

PyTorch is imported here when it is needed, and nowhere else but in `solvers.device`.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array, Index
from priormtl._numerics import ROUNDING
from priormtl.data.tasks import StackedRows

Tensor = Any


def find_device(name: object) -> object:
    """The device of this name, or an error that says what is missing."""
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        raise ImportError(
            f"device={name!r} needs PyTorch: pip install 'priormtl[gpu]', or use "
            "device=None."
        ) from None
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise ValueError(
            f'device must be None, "cpu", "cuda" or "cuda:1": got {name!r}.'
        ) from None
    if device.type not in ("cpu", "cuda"):
        raise ValueError(
            f'device must be None, "cpu", "cuda" or "cuda:1": got {name!r}.'
        )
    count = torch.cuda.device_count() if device.type == "cuda" else 0
    if device.type == "cuda" and (device.index or 0) >= count:
        raise ValueError(
            f"device={name!r} must be there: PyTorch finds {count} such device(s). "
            "Use device=None to compute on the processor."
        )
    return device


def lives_on_device(X: object) -> bool:
    """Whether an array is in the memory of a device (by DLPack)."""
    if isinstance(X, np.ndarray):
        return False
    where = getattr(X, "__dlpack_device__", None)
    # 1 is DLPack's number for ordinary memory.
    return where is not None and int(where()[0]) != 1


def as_tensor(values: Any, device: object) -> Tensor:
    """Numbers as doubles on a device; those that are there already are not copied."""
    import torch  # noqa: PLC0415

    if isinstance(values, DeviceGrams):
        values = values.tensor
    if lives_on_device(values) and not isinstance(values, torch.Tensor):
        values = torch.from_dlpack(values)
    if not isinstance(values, torch.Tensor):
        plain = np.require(values, np.float64, ["C_CONTIGUOUS", "WRITEABLE"])
        values = torch.from_numpy(plain)
    return values.detach().to(device=device, dtype=torch.float64)


def tensor_device(values: Any) -> object:
    """Where an array of a device lives, as PyTorch calls it."""
    import torch  # noqa: PLC0415

    if not isinstance(values, torch.Tensor):
        values = torch.from_dlpack(values)
    return values.device


def host_array(values: object) -> Any:
    """The same in ordinary memory."""
    if not lives_on_device(values):
        return values
    return as_tensor(values, "cpu").numpy()


def as_index(values: Index, device: object) -> Tensor:
    import torch  # noqa: PLC0415

    return torch.as_tensor(values, device=device)


def to_host(values: Tensor) -> Array:
    return np.asarray(values.cpu().numpy())


@dataclass(frozen=True, eq=False)
class DeviceGrams:
    """Gram matrices (m, d, d), or (1, d, d) for all tasks, on a device."""

    tensor: Tensor

    @classmethod
    def of(cls, xx: object, device: object) -> Self:
        return cls(as_tensor(xx, device))

    @property
    def device(self) -> object:
        return self.tensor.device

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def size(self) -> int:
        return int(self.tensor.numel())

    @property
    def nbytes(self) -> int:
        return 8 * self.size

    @property
    def dtype(self) -> np.dtype[np.float64]:
        return np.dtype(np.float64)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return to_host(self.tensor).astype(dtype or np.float64, copy=bool(copy))

    def merge(self, other: "DeviceGrams", left: Array, right: Array) -> Self:
        """Sum of both, plus the outer products of rows of left and right."""
        moved = other.tensor.to(self.device)
        return self.moved(left, right, self.tensor + moved)

    def moved(self, left: Array, right: Array, start: Tensor | None = None) -> Self:
        """These (or start) plus the outer products of rows of left and right."""
        factors = (as_tensor(side, self.device) for side in (left, right))
        first, second = (side[: len(self), :, None] for side in factors)
        start = self.tensor if start is None else start
        return type(self)(start.baddbmm(first, second.transpose(1, 2)))

    def take(self, source: Index, present: NDArray[np.bool_]) -> Self:
        """Those of other tasks, in this order; zero for absent ones."""
        if len(self) == 1 and present.all():
            return type(self)(self.tensor.expand(len(source), -1, -1))
        index = as_index(np.where(present, source, 0) % len(self), self.device)
        counts = as_tensor(present, self.device)
        return type(self)(self.tensor[index] * counts[:, None, None])

    def restrict(self, features: Index) -> Self:
        chosen = as_index(features, self.device)
        return type(self)(self.tensor[:, chosen[:, None], chosen])

    def rescale(self, scale: Array) -> Self:
        factor = as_tensor(1.0 / scale, self.device)
        return type(self)(self.tensor * factor * factor[:, None])

    def products(self, factors: Array) -> Array:
        """Factors (m, l, d) times the matrices (m, l, d)."""
        return to_host(as_tensor(factors, self.device) @ self.tensor)

    def diagonals(self) -> Array:
        return to_host(self.tensor.diagonal(dim1=1, dim2=2))

    def total(self, features: Index) -> Array:
        """Rows ``features`` of the sum over tasks (k, d)."""
        chosen = as_index(features, self.device)
        return to_host(self.tensor[:, chosen].sum(0))


@dataclass(frozen=True, eq=False)
class DeviceRows(StackedRows):
    """Rows of task after task whose products are computed on a device."""

    device: object
    # X and its tensor, as it was last sent there; copies that share X share it.
    held: dict[str, Tensor] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, data: StackedRows, device: object) -> "DeviceRows":
        parts = data.X, data.y, data.weight, data.tasks, data.features, data.starts
        return cls(*parts, device, offset=data.offset)

    @property
    def tensor(self) -> Tensor:
        """X on the device (n, d)."""
        if self.held.get("X") is not self.X:
            tensor = as_tensor(self.X, self.device)
            # Others may still use what was sent before.
            self.__dict__["held"] = {"X": self.X, "tensor": tensor}
        return self.held["tensor"]

    def forward(self, P: Array) -> Array:
        columns = as_tensor(P.T, self.device)
        return to_host((self.tensor * columns[self._task]).sum(1))

    def adjoint(self, R: Array) -> Array:
        """Sums over each task's rows, in a fixed order."""
        values = self.tensor * as_tensor(R, self.device)[:, None]
        counts = np.diff(self.starts)
        longest, own = int(counts.max()), np.repeat(np.arange(len(counts)), counts)
        place = np.arange(len(own)) - self.starts[own] + own * longest
        padded = values.new_zeros(len(counts) * longest, values.shape[1])
        padded[as_index(place, self.device)] = values
        sums = padded.reshape(len(counts), longest, -1).sum(1)
        return np.ascontiguousarray(to_host(sums).T)

    def restrict(self, features: Index) -> Self:
        part = super().restrict(features)
        chosen = self.tensor[:, as_index(features, self.device)]
        return replace(part, held={"X": part.X, "tensor": chosen})

    @property
    def _task(self) -> Tensor:
        counts = np.diff(self.starts)
        return as_index(np.repeat(np.arange(len(counts)), counts), self.device)


class DeviceProducts:
    """Products of stacked rows, some tasks at a time; the fields of `Products`."""

    def __init__(
        self, X: Tensor, y: Tensor, weight: Tensor, starts: Index, device: object
    ) -> None:
        import torch  # noqa: PLC0415

        counts = np.diff(starts)
        m, d, longest = len(counts), int(X.shape[1]), int(counts.max(initial=1))
        self.xx = torch.empty(m, d, d, dtype=torch.float64, device=device)
        x_mean, xy = self.xx.new_empty(m, d), self.xx.new_empty(m, d)
        y_mean, yy = self.xx.new_empty(m), self.xx.new_empty(m)
        total = self.xx.new_empty(m)
        # 1 GB of numbers are centred at a time.
        step = max(1, 2**27 // max(1, longest * (d + 1)))
        for first in range(0, m, step):
            tasks = slice(first, min(first + step, m))
            a, b = int(starts[tasks.start]), int(starts[tasks.stop])
            own = np.repeat(np.arange(tasks.stop - first), counts[tasks])
            place = np.arange(b - a) - (starts[tasks][own] - a) + own * longest
            index = as_index(place, device)
            table = self.xx.new_zeros((tasks.stop - first) * longest, d + 1)
            table[index, :d], table[index, d] = X[a:b], y[a:b]
            w = self.xx.new_zeros(len(table))
            w[index] = weight[a:b]
            table = table.reshape(-1, longest, d + 1)
            w = w.reshape(-1, longest, 1)
            total[tasks] = w.sum((1, 2))
            share = w / total[tasks][:, None, None]
            mean = (share * table).sum(1)
            table = table - mean[:, None]
            # Means are inexact where offsets are large.
            left = (share * table).sum(1)
            table = (table - left[:, None]) * torch.sqrt(w)
            mean = mean + left
            x_mean[tasks], y_mean[tasks] = mean[:, :d], mean[:, d]
            flat, target = table[:, :, :d], table[:, :, d:]
            torch.bmm(flat.transpose(1, 2), flat, out=self.xx[tasks])
            xy[tasks] = torch.bmm(flat.transpose(1, 2), target)[:, :, 0]
            yy[tasks] = (target * target).sum((1, 2))
            # Deviations of a constant column are rounding errors, not data.
            unit = total[tasks][:, None] * (ROUNDING * mean) ** 2
            moves = (self.xx[tasks].diagonal(dim1=1, dim2=2) > unit[:, :d]).double()
            if not bool(moves.all()):
                self.xx[tasks] *= moves[:, None] * moves[:, :, None]
                xy[tasks] *= moves
            moves = (yy[tasks] > unit[:, d]).double()
            yy[tasks] *= moves
            xy[tasks] *= moves[:, None]
        self.total, self.x_mean, self.y_mean = map(to_host, (total, x_mean, y_mean))
        self.xy, self.yy = to_host(xy), to_host(yy)
