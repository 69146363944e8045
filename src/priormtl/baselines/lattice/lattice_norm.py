"""LatticeNorm: a norm over groups of tasks, where a group needs all its subsets.

Each pair of a block of features j and a group of tasks g has coefficients U_jg of its
own, and tasks add up what their groups hold. The length of U_jg counts deviations from
the group's mean fully, the mean itself by a share only (Θ); lengths are joined over
blocks (Q), over all groups that contain a group v (N), and summed over v (Ω).
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl._lazy import cached_property
from priormtl.baselines.lattice.task_groups import TaskGroups

__all__ = ["LatticeNorm", "Levels"]

LEAST_SHARE = 1e-14  # of Ω that weights let a group have, so that it can return
LARGEST_LEVEL = 1e100
TINY = 1e-280

Blocks = tuple[slice, ...]


class Levels(NamedTuple):
    """Lengths at every level of the norm."""

    group: Array  # Q (g,) of each group
    above: Array  # N (g,) of the groups that contain a group
    total: float  # Ω


@dataclass(frozen=True, eq=False)
class LatticeNorm:
    """Ω = Σ_v growth^(|v| − 1) · N_v; see the module.

    ½ Ω² is the least of ½ Σ Θ_jg² / κ_jg over weights κ in a convex set, which turns
    a problem in Ω² into ridge regressions with kernels between tasks.
    """

    groups: TaskGroups
    mean_share: float  # μ
    growth: float  # a
    p: float
    q: float

    @cached_property
    def level_weight(self) -> Array:
        """d_v (g,)."""
        most = np.log(LARGEST_LEVEL)
        return np.exp(np.minimum(np.log(self.growth) * (self.groups.sizes - 1.0), most))

    @cached_property
    def start(self) -> Array:
        """Lengths (g,) that cost each group about the same."""
        return 1.0 / (self.groups.below.T @ self.level_weight)

    @cached_property
    def _pull(self) -> Array:
        """What a group's mean counts beyond its deviations, in the dual (g,)."""
        return (1.0 / self.mean_share - 1.0) / self.groups.sizes

    def levels(self, lengths: Array) -> Levels:
        """Q, N and Ω of lengths Θ (k, g)."""
        top = float(lengths.max(initial=0.0))
        if top == 0.0:
            zeros = np.zeros(lengths.shape[1])
            return Levels(zeros, zeros, 0.0)
        group = np.sum((lengths / top) ** self.p, axis=0) ** (1.0 / self.p)
        above = (self.groups.below @ group**self.q) ** (1.0 / self.q)
        total = top * float(self.level_weight @ above)
        return Levels(top * group, top * above, total)

    def value(self, lengths: Array) -> float:
        """Ω of lengths Θ."""
        return self.levels(lengths).total

    def weights(self, lengths: Array, least: float = LEAST_SHARE) -> Array:
        """κ (k, g) at which ½ Σ Θ² / κ is ½ Ω², every group having a least share."""
        lengths = self._lift(lengths, least)
        group, above, total = self.levels(lengths)
        slope = self.groups.below.T @ (self.level_weight * above ** (1.0 - self.q))
        share = (lengths / group) ** (2.0 - self.p)
        return share * group ** (2.0 - self.q) / (total * slope)

    def dual_bound(self, lengths: Array, near: Array) -> float:
        """Upper bound of the dual norm of lengths (k, g), exact at the optimum.

        The dual norm is the least t for which the lengths of groups are sums of parts
        z_v on the groups above v with ‖z_v‖_q* ≤ t d_v. Any parts give a bound; those
        of the norm's gradient at ``near`` are the best ones where it is optimal.
        """
        group = self._dual_lengths(lengths)
        _, above, _ = self.levels(self._lift(near, LEAST_SHARE))
        force = self.level_weight * above ** (1.0 - self.q)
        portion = group / (self.groups.below.T @ force)
        parts = force * self._conjugate_above(portion)
        return float(np.max(parts / self.level_weight))

    def relative_pull(self, candidates: TaskGroups, H: Array, blocks: Blocks) -> Array:
        """‖(√D_jg)_j‖_p* / d_g of groups that need not be among ours."""
        norm = replace(self, groups=candidates)
        squares = norm.dual_squares(H, blocks)
        return norm._dual_lengths(np.sqrt(squares)) / norm.level_weight

    def kernels(self, weights: Array) -> Array:
        """B_j = Σ_g κ_jg M_g⁻¹ (k, m, m), kernels between tasks."""
        member = self.groups.member
        means = (member.T * (weights * self._pull)[:, np.newaxis]) @ member
        diagonal = np.arange(member.shape[1])
        means[:, diagonal, diagonal] += weights @ member
        return means

    def dual_squares(self, H: Array, blocks: Blocks) -> Array:
        """D_jg (k, g) = Σ_i∈g ‖h_i‖² + (1/μ − 1)/|g| ‖Σ_i∈g h_i‖² of rows of H."""
        member = self.groups.member
        sums = member @ H
        return np.stack(
            [
                member @ np.einsum("ij,ij->i", H[:, s], H[:, s])
                + self._pull * np.einsum("ij,ij->i", sums[:, s], sums[:, s])
                for s in blocks
            ]
        )

    def _lift(self, lengths: Array, least: float) -> Array:
        total = self.value(lengths)
        return np.hypot(lengths, (least * total if total > 0 else 1.0) * self.start)

    def _dual_lengths(self, lengths: Array) -> Array:
        """Joined over blocks by the conjugate of p (g,)."""
        top = float(lengths.max(initial=0.0)) or 1.0
        power = self.p / (self.p - 1.0)
        return top * np.sum((lengths / top) ** power, axis=0) ** (1.0 / power)

    def _conjugate_above(self, values: Array) -> Array:
        """Norm of the conjugate of q over the groups that contain a group (g,)."""
        top = float(values.max(initial=0.0)) or 1.0
        power = self.q / (self.q - 1.0)
        sums = self.groups.below @ (values / top) ** power
        # A sum is never below this norm; powers may leave the range of doubles.
        safe = top * (self.groups.below @ (values / top))
        return np.where(sums > TINY, top * sums ** (1.0 / power), safe)
