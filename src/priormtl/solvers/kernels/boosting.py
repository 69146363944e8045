"""Compiled loop through boosted trees."""

from math import isnan

from priormtl._arrays import Array, Index
from priormtl.solvers.kernels import in_place


@in_place
def add_trees(
    X: Array,
    roots: Index,
    feature: Index,
    number: Array,
    missing_left: Index,
    right: Index,
    out: Array,
) -> None:
    """Add the sum over trees for each row of X (n, d) to ``out`` (n,).

    See ``trees.Trees``: the left child of a node is the next one.
    """
    for i in range(len(X)):
        total = 0.0
        for root in roots:
            node = root
            while feature[node] >= 0:
                value = X[i, feature[node]]
                if value <= number[node] or (isnan(value) and missing_left[node]):
                    node += 1
                else:
                    node = right[node]
            total += number[node]
        out[i] += total
