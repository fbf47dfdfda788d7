"""The transport problem: the least cost of turning one distribution into another.

A network simplex (Ahuja, Magnanti & Orlin 1993, chapter 11) on the complete bipartite graph of rows and columns. The
basis is a tree over rows, columns and an artificial root, kept as arrays: the parent of every node, the flow on the arc
between them, and whether that arc leads up to the parent. Strongly feasible trees keep the method from cycling.
"""

from __future__ import annotations

import numpy as np

from nlgauge.arrays import Array
from nlgauge.compiled import kernel

_TOLERANCE = 1e-12


@kernel
def least_cost(supply: Array, demand: Array, costs: Array, most_steps: int = 10_000_000) -> float:
    """The least cost of moving `supply`, one share per row, to `demand`, one share per column; both have the same sum.

    Shares are positive. NaN where no optimum was found within `most_steps`.
    """
    rows, columns = costs.shape
    root = rows + columns
    parent = np.full(root + 1, root)
    parent[root] = -1
    flow = np.concatenate((supply, demand, np.zeros(1)))
    upward = np.arange(root + 1) < rows
    outside = (costs.max() + 1.0) * (root + 1)
    prices = np.where(upward, -outside, outside)
    prices[root] = 0.0
    stamps = np.full(root + 1, -1)
    inside = np.zeros(root + 1, np.bool_)
    path = np.empty(root + 1, np.int64)
    arc = 0
    for step in range(most_steps):
        found, arc = _entering_arc(costs, prices, arc, -_TOLERANCE * outside / (root + 1))
        if found < 0:
            return _cost(parent, flow, costs)
        first, second = found // columns, rows + found % columns
        gain = prices[first] + costs[first, second - rows] - prices[second]
        amount, leaving, is_below_first = _push(parent, flow, upward, stamps, 2 * step, first, second)
        moved, other = (first, second) if is_below_first else (second, first)
        _hang(parent, flow, upward, moved, other, leaving, amount, is_below_first)
        _reprice(parent, prices, stamps, inside, path, 2 * step + 1, moved, -gain if is_below_first else gain)
    return np.nan


@kernel
def _entering_arc(costs: Array, prices: Array, start: int, least: float) -> tuple[int, int]:
    """The arc with the largest gain in the next block that has one (-1: none), and where the search continues."""
    rows, columns = costs.shape
    arcs = rows * columns
    block = max(int(np.sqrt(arcs)), 10)
    best, lowest = -1, least
    i, j = start // columns, start % columns
    for seen in range(1, arcs + 1):
        value = prices[i] + costs[i, j] - prices[rows + j]
        if value < lowest:
            lowest, best = value, i * columns + j
        j += 1
        if j == columns:
            i, j = (i + 1) % rows, 0
        if best >= 0 and seen % block == 0:
            break
    return best, i * columns + j


@kernel
def _push(
    parent: Array, flow: Array, upward: Array, stamps: Array, stamp: int, first: int, second: int
) -> tuple[float, int, bool]:
    """Send as much as possible around the cycle that the arc from `first` to `second` closes.

    The amount, the node whose arc to its parent leaves the tree, and whether it is on the side of `first`. Of several
    blocking arcs, the last one of the cycle leaves: the tree stays strongly feasible.
    """
    node = first
    while node >= 0:
        stamps[node] = stamp
        node = parent[node]
    apex = second
    while stamps[apex] != stamp:
        apex = parent[apex]
    amount, leaving, is_below_first = np.inf, -1, True
    node = first
    while node != apex:
        if upward[node] and flow[node] < amount:
            amount, leaving = flow[node], node
        node = parent[node]
    node = second
    while node != apex:
        if not upward[node] and flow[node] <= amount:
            amount, leaving, is_below_first = flow[node], node, False
        node = parent[node]
    node = first
    while node != apex:
        flow[node] += -amount if upward[node] else amount
        node = parent[node]
    node = second
    while node != apex:
        flow[node] += amount if upward[node] else -amount
        node = parent[node]
    return amount, leaving, is_below_first


@kernel
def _hang(
    parent: Array, flow: Array, upward: Array, moved: int, other: int, leaving: int, amount: float, leads_up: bool
) -> None:
    """Cut the arc above `leaving` and hang its subtree by `moved` under `other`, reversing the path between them."""
    node, above = moved, other
    while True:
        old_above, old_amount, old_leads_up = parent[node], flow[node], upward[node]
        parent[node], flow[node], upward[node] = above, amount, leads_up
        if node == leaving:
            return
        node, above, amount, leads_up = old_above, node, old_amount, not old_leads_up


@kernel
def _reprice(
    parent: Array, prices: Array, stamps: Array, inside: Array, path: Array, stamp: int, top: int, change: float
) -> None:
    """Add `change` to the prices of the subtree under `top`."""
    root = len(parent) - 1
    stamps[root], inside[root] = stamp, False
    stamps[top], inside[top] = stamp, True
    for start in range(root):
        node, length = start, 0
        while stamps[node] != stamp:
            path[length] = node
            length += 1
            node = parent[node]
        for place in range(length):
            stamps[path[place]], inside[path[place]] = stamp, inside[node]
        if inside[start]:
            prices[start] += change


@kernel
def _cost(parent: Array, flow: Array, costs: Array) -> float:
    rows, total = len(costs), 0.0
    for node in range(len(parent) - 1):
        above = parent[node]
        if above < len(parent) - 1:
            total += flow[node] * (costs[node, above - rows] if node < rows else costs[above, node - rows])
    return total
