"""Compiled loops of boosted trees: growing one from histograms, and sums over trees."""

from math import isnan

import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array, Index
from priormtl.solvers.kernels import compiled, in_place

LEAST_BEND = 1e-3  # sum of second derivatives in a leaf, as in scikit-learn


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

    See ``trees.Trees``: the left child of a node is the next one. A tree is read for
    all rows of ``out`` in turn, so that it and these stay in the cache.
    """
    for root in roots:
        for i in range(len(X)):
            node = root
            while feature[node] >= 0:
                value = X[i, feature[node]]
                goes_right = (value > number[node]) | (
                    isnan(value) & (missing_left[node] == 0)
                )
                node = right[node] if goes_right else node + 1
            out[i] += number[node]


@in_place
def fill_histogram(
    bins: NDArray[np.uint8],
    first: Index,
    rows: Index,
    derivatives: NDArray[np.float32],
    out: Array,
) -> None:
    """Sums of f′ and f″ and numbers of ``rows`` in each bin of each feature.

    Row by row: rows of one bin after the other would wait for each other.
    """
    out[:] = 0.0
    for row in rows:
        slope, bend = derivatives[row, 0], derivatives[row, 1]
        for j in range(bins.shape[1]):
            place = first[j] + bins[row, j]
            out[place, 0] += slope
            out[place, 1] += bend
            out[place, 2] += 1.0


@in_place
def leaf_value(
    slope: float, bend: float, low: float, high: float, ridge: float
) -> float:
    """Minimum of slope · v + (bend + ridge) v² / 2 between two bounds."""
    return min(max(-slope / (bend + ridge + 1e-15), low), high)


@in_place
def find_split(
    histogram: Array,
    first: Index,
    sizes: Index,
    signs: Index,
    drawn: NDArray[np.bool_],
    least: int,
    ridge: float,
    node: Array,
    out: Array,
) -> None:
    """Find the best split of a node among the features that are ``drawn``.

    ``node`` has its sums of f′ and f″, its number of rows, its value and the bounds of
    its children. ``out`` takes gain, feature, bin, whether missing values go left, and
    the left child's sums and number of rows; gain 0 where there is no split. Missing
    values, in the bin behind the others, are tried on both sides.
    """
    slope, bend, count, value, low, high = node
    out[0] = 0.0
    for j in range(len(sizes)):
        if not drawn[j]:
            continue
        has_missing = first[j + 1] - first[j] > sizes[j]
        # From the left, where only missing values may be alone on the right, then from
        # the right with missing values on the left.
        for missing_left in range(1 + has_missing):
            near, near_bend, near_count = 0.0, 0.0, 0.0
            for step in range(sizes[j] - 1 + (has_missing and not missing_left)):
                b = sizes[j] - 2 - step if missing_left else step
                place = first[j] + b + missing_left
                near += histogram[place, 0]
                near_bend += histogram[place, 1]
                near_count += histogram[place, 2]
                if near_count < least or near_bend < LEAST_BEND:
                    continue
                if count - near_count < least or bend - near_bend < LEAST_BEND:
                    break
                left, left_bend, left_count = near, near_bend, near_count
                if missing_left:
                    left, left_bend = slope - near, bend - near_bend
                    left_count = count - near_count
                right = slope - left
                lower = leaf_value(left, left_bend, low, high, ridge)
                upper = leaf_value(right, bend - left_bend, low, high, ridge)
                if signs[j] * (upper - lower) < 0.0:
                    continue
                gain = slope * value - left * lower - right * upper
                if gain > out[0]:
                    out[0], out[1], out[2], out[3] = gain, j, b, missing_left
                    out[4], out[5], out[6] = left, left_bend, left_count


@compiled
def grow_tree(
    bins: NDArray[np.uint8],
    first: Index,
    sizes: Index,
    signs: Index,
    draws: NDArray[np.bool_],
    derivatives: NDArray[np.float32],
    leaves: int,
    least: int,
    ridge: float,
    rate: float,
    histograms: Array,
    scores: Array,
) -> tuple[NDArray[np.int32], Array, NDArray[np.uint8], NDArray[np.int32], int]:
    """Grow a tree, the best split first, and add its values to ``scores``.

    Feature j of row i is in bin ``bins[i, j]`` of ``sizes[j]``, missing values in the
    one behind these; ``first`` (d + 1,) are places of the features' bins. Each search
    uses the next features of ``draws``. ``derivatives`` (n, 2) are f′ and f″.
    ``histograms`` (leaves, bins, 3) is room; the larger child of a node has the
    difference of the node's and its sibling's. Returns nodes as in ``trees.Trees``,
    with bins in place of thresholds, and the number of searches.
    """
    n, nodes, searches = len(bins), 1, 0
    rows, spare = np.arange(n), np.empty(n, np.int64)
    most = 2 * leaves - 1
    ends = np.zeros((most, 2), np.int64)  # of the rows of a node
    state, split = np.zeros((most, 6)), np.zeros((most, 7))
    slot, child = np.zeros(most, np.int64), np.zeros(most, np.int64)  # left child
    ends[0, 1], state[0, 4], state[0, 5] = n, -np.inf, np.inf
    fill_histogram(bins, first, rows, derivatives, histograms[0])
    for place in range(first[0], first[1]):
        for k in range(3):
            state[0, k] += histograms[0, place, k]
    settings = first, sizes, signs
    if n >= 2 * least and state[0, 1] >= LEAST_BEND:
        find_split(histograms[0], *settings, draws[0], least, ridge, state[0], split[0])
        searches = 1
    for count in range(2, leaves + 1):
        best = 0
        for k in range(nodes):
            if child[k] == 0 and split[k, 0] > split[best, 0] * (child[best] == 0):
                best = k
        if child[best] > 0 or not split[best, 0] > 0.0:
            break
        # Divide the rows in order.
        j, last = int(split[best, 1]), int(split[best, 2])
        begin, end = ends[best]
        put, kept = begin, 0
        for i in range(begin, end):
            b = bins[rows[i], j]
            if b <= last or (split[best, 3] > 0.0 and b == sizes[j]):
                rows[put] = rows[i]
                put += 1
            else:
                spare[kept] = rows[i]
                kept += 1
        rows[put:end] = spare[:kept]
        if first[j + 1] - first[j] == sizes[j]:  # none was missing: with most rows
            split[best, 3] = put - begin > kept
        a, b = nodes, nodes + 1
        child[best], nodes = a, nodes + 2
        ends[a, 0], ends[a, 1], ends[b, 0], ends[b, 1] = begin, put, put, end
        low, high = state[best, 4], state[best, 5]
        for k in range(3):
            state[a, k] = split[best, 4 + k]
            state[b, k] = state[best, k] - state[a, k]
        for k in (a, b):
            state[k, 3] = leaf_value(state[k, 0], state[k, 1], low, high, ridge)
            state[k, 4], state[k, 5] = low, high
        if signs[j] != 0:
            middle = (state[a, 3] + state[b, 3]) / 2.0
            below, above = (a, b) if signs[j] > 0 else (b, a)
            state[below, 5], state[above, 4] = middle, middle
        if count == leaves:
            break
        if max(put - begin, kept) < 2 * least:
            continue
        small, large = (a, b) if put - begin < kept else (b, a)
        slot[large], slot[small] = slot[best], count - 1
        part = rows[ends[small, 0] : ends[small, 1]]
        fill_histogram(bins, first, part, derivatives, histograms[count - 1])
        histograms[slot[large]] -= histograms[count - 1]
        for k in (a, b):
            if ends[k, 1] - ends[k, 0] >= 2 * least:
                find_split(
                    histograms[slot[k]],
                    *settings,
                    draws[searches],
                    least,
                    ridge,
                    state[k],
                    split[k],
                )
                searches += 1
    # Nodes stand before their left and right subtrees.
    feature, number = np.full(nodes, -1, np.int32), np.zeros(nodes)
    missing_left, right = np.zeros(nodes, np.uint8), np.zeros(nodes, np.int32)
    stack, parent = np.zeros(leaves + 1, np.int64), np.full(leaves + 1, -1, np.int64)
    height, place = 1, 0
    while height > 0:
        height -= 1
        node = stack[height]
        if parent[height] >= 0:
            right[parent[height]] = place
        if child[node] > 0:
            feature[place], number[place] = int(split[node, 1]), split[node, 2]
            missing_left[place] = int(split[node, 3])
            stack[height], parent[height] = child[node] + 1, place
            stack[height + 1], parent[height + 1] = child[node], -1
            height += 2
        else:
            number[place] = rate * state[node, 3]
            for i in range(ends[node, 0], ends[node, 1]):
                scores[rows[i]] += number[place]
        place += 1
    return feature, number, missing_left, right, searches
