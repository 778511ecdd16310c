"""Growth, memory and draws of the constraint graph. Every speed is a ratio against something of the same run.

    python benchmarks/graph.py [--quick]

One thread. The peer is scipy's connected_components, which gets all alike pairs at once and does less: no unlike
edges, no proofs, no answer after each constraint.
"""

from __future__ import annotations

import argparse
import gc
import platform
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import scipy
from rich.console import Console
from rich.table import Table
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import oahu
from oahu import ConstraintGraph, Pair

console = Console(width=112)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the constraints: seconds, noisier")
    n = 100_000 if parser.parse_args().quick else 1_000_000
    console.print(
        f"[bold]Python {platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}, "
        f"oahu {oahu.__version__}[/bold]",
        highlight=False,
    )
    growth = Table(title="\nAdding constraints one by one", title_justify="left")
    for heading in ("", *(f"{n * k // 8:,}" for k in (1, 2, 4, 8)), "µs each", "bytes each", "x scipy's batch"):
        growth.add_column(heading, justify="right" if heading else "left")
    draws = Table(title="\nDrawing 10,000 of what follows and was not given, seconds", title_justify="left")
    for heading in ("", "pairs that follow", "drawn in", "triplets that follow", "drawn in"):
        draws.add_column(heading, justify="right" if "follow" in heading or "drawn" in heading else "left")
    for name, make in STREAMS.items():
        measure(name, make, n, growth, draws)
    console.print(growth)
    console.print(
        "Under the counts: time per constraint of a stream of that length, relative to the first. 1.00 is linear."
    )
    console.print(draws)


def measure(name: str, make: Callable[[int], list[Pair]], n: int, growth: Table, draws: Table) -> None:
    marks = []
    for k in (1, 2, 4, 8):
        stream = make(n * k // 8)
        gc.collect()
        graph, start = ConstraintGraph(), time.perf_counter()
        for pair in stream:
            graph.add(pair)
        marks.append((time.perf_counter() - start) / len(stream))
    peer, n_components = batch(stream, graph.n_items)
    assert n_components == len(graph.components())
    ratios = (f"{mark / marks[0]:.2f}" for mark in marks)
    growth.add_row(
        name,
        *ratios,
        f"{1e6 * marks[-1]:.1f}",
        f"{in_new_process(memory, name, n):.0f}",
        f"{marks[-1] * len(stream) / peer:.0f}",
    )
    row = []
    for implied, draw in ((graph.implied_pairs, "pairs"), (graph.implied_triplets, "triplets")):
        start = time.perf_counter()
        graph.sample_implied(10_000, 0, kind=draw)
        row += [f"{implied.count:,}", f"{time.perf_counter() - start:.2f}"]
    draws.add_row(name, *row)


def batch(stream: list[Pair], n_items: int) -> tuple[float, int]:
    """Seconds of scipy for the alike pairs, from arrays that are ready; and how many components there are."""
    names = {item: i for i, item in enumerate(dict.fromkeys(x for pair in stream for x in pair[:2]))}
    edges = np.array([(names[pair.first], names[pair.second]) for pair in stream if pair.same]).T
    start = time.perf_counter()
    table = coo_array((np.ones(edges.shape[1], dtype=bool), (edges[0], edges[1])), shape=(n_items, n_items))
    n_components, _ = connected_components(table, directed=False)
    return time.perf_counter() - start, n_components


def in_new_process(function: Callable[[str, int], float], name: str, n: int) -> float:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, name, n).result()


def memory(name: str, n: int) -> float:
    """Bytes per constraint that the graph adds to this process, which must be a new one: others reuse memory."""
    stream = STREAMS[name](n)
    before, graph = _resident(), ConstraintGraph()
    for pair in stream:
        graph.add(pair)
    return (_resident() - before) / len(stream)


def _resident() -> int:
    """What this process holds now. Not its peak: a new process inherits that from the one that started it."""
    return resource.getpagesize() * int(Path("/proc/self/statm").read_text().split()[1])


# -- streams -------------------------------------------------------------------------------------------------


def from_labels(n: int) -> list[Pair]:
    """Pairs of n / 5 items in n / 1000 classes, half of them alike."""
    rng = np.random.default_rng(0)
    n_classes = max(n // 1000, 2)
    size = n // 5 // n_classes
    first, second = rng.integers(n_classes * size, size=(2, n))
    # Items of one class are numbered one after the other.
    second = np.where(rng.random(n) < 0.5, first // size * size + second % size, second)
    same = first // size == second // size
    return [Pair(*pair) for pair in zip(first.tolist(), second.tolist(), same.tolist(), strict=True)]


def chain_and_hub(n: int) -> list[Pair]:
    """In turns: a chain grows at its end, and its first item is unlike one more."""
    return [Pair(i // 2, i // 2 + 1, True) if i % 2 else Pair(0, -1 - i, False) for i in range(n)]


def tournament(n: int) -> list[Pair]:
    """Every item has an unlike one of its own; then equals are merged, round by round: edges move most often."""
    m = 1 << (n // 2).bit_length() - 1
    stream = [Pair(i, -1 - i, False) for i in range(m)]
    step = 1
    while step < m:
        stream += [Pair(i, i + step, True) for i in range(0, m, 2 * step)]
        step *= 2
    return stream


STREAMS: dict[str, Callable[[int], list[Pair]]] = {
    "pairs from labels": from_labels,
    "a chain and a hub": chain_and_hub,
    "a tournament": tournament,
}

if __name__ == "__main__":
    main()
