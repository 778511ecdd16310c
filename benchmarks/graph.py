"""Benchmark of the constraint graph: growth, memory and sampling. Speeds are ratios within one run.

    python benchmarks/graph.py [--quick]

The benchmark uses one thread. The reference is scipy's connected_components. It gets all similar pairs at once and
does less: no dissimilar edges, no proofs, and no result after each constraint.
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
    parser.add_argument("--quick", action="store_true", help="Use a tenth of the constraints: faster, noisier.")
    n = 100_000 if parser.parse_args().quick else 1_000_000
    console.print(
        f"[bold]Python {platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}, "
        f"oahu {oahu.__version__}[/bold]",
        highlight=False,
    )
    growth = Table(title="\nAdding constraints one by one", title_justify="left")
    for heading in ("", *(f"{n * k // 8:,}" for k in (1, 2, 4, 8)), "µs each", "bytes each", "x scipy"):
        growth.add_column(heading, justify="right" if heading else "left")
    draws = Table(title="\nSampling 10,000 implied constraints, seconds", title_justify="left")
    for heading in ("", "implied pairs", "sampled in", "implied triplets", "sampled in"):
        draws.add_column(heading, justify="right" if heading else "left")
    for name, make in STREAMS.items():
        measure(name, make, n, growth, draws)
    console.print(growth)
    console.print(
        "Below the counts: time per constraint at that stream length, relative to the shortest (1.00 is linear)."
    )
    console.print(draws)


def measure(name: str, make: Callable[[int], list[Pair]], n: int, growth: Table, draws: Table) -> None:
    seconds_each = []
    for k in (1, 2, 4, 8):
        stream = make(n * k // 8)
        gc.collect()
        graph, start = ConstraintGraph(), time.perf_counter()
        for pair in stream:
            graph.add(pair)
        seconds_each.append((time.perf_counter() - start) / len(stream))
    reference, n_components = run_scipy(stream, graph.n_items)
    assert n_components == len(graph.components())
    ratios = (f"{seconds / seconds_each[0]:.2f}" for seconds in seconds_each)
    growth.add_row(
        name,
        *ratios,
        f"{1e6 * seconds_each[-1]:.1f}",
        f"{in_new_process(memory, name, n):.0f}",
        f"{seconds_each[-1] * len(stream) / reference:.0f}",
    )
    row = []
    for implied, kind in ((graph.implied_pairs, "pairs"), (graph.implied_triplets, "triplets")):
        start = time.perf_counter()
        graph.sample_implied(10_000, 0, kind=kind)
        row += [f"{implied.count:,}", f"{time.perf_counter() - start:.2f}"]
    draws.add_row(name, *row)


def run_scipy(stream: list[Pair], n_items: int) -> tuple[float, int]:
    """Return scipy's time in seconds for the similar pairs, given as arrays, and the number of components."""
    numbers = {item: i for i, item in enumerate(dict.fromkeys(x for pair in stream for x in pair[:2]))}
    edges = np.array([(numbers[pair.first], numbers[pair.second]) for pair in stream if pair.same]).T
    start = time.perf_counter()
    table = coo_array((np.ones(edges.shape[1], dtype=bool), (edges[0], edges[1])), shape=(n_items, n_items))
    n_components, _ = connected_components(table, directed=False)
    return time.perf_counter() - start, n_components


def in_new_process(function: Callable[[str, int], float], name: str, n: int) -> float:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, name, n).result()


def memory(name: str, n: int) -> float:
    """Return the memory of a graph in bytes per constraint. It must run in a new process."""
    stream = STREAMS[name](n)
    before, graph = _resident(), ConstraintGraph()
    for pair in stream:
        graph.add(pair)
    return (_resident() - before) / len(stream)


def _resident() -> int:
    """Return the current resident memory of this process. The peak would include the parent process."""
    return resource.getpagesize() * int(Path("/proc/self/statm").read_text().split()[1])


# -- streams -------------------------------------------------------------------------------------------------


def from_labels(n: int) -> list[Pair]:
    """Return pairs of n / 5 items in n / 1000 classes, half of them similar."""
    rng = np.random.default_rng(0)
    n_classes = max(n // 1000, 2)
    size = n // 5 // n_classes
    first, second = rng.integers(n_classes * size, size=(2, n))
    # The items of a class have consecutive numbers.
    second = np.where(rng.random(n) < 0.5, first // size * size + second % size, second)
    same = first // size == second // size
    return [Pair(*pair) for pair in zip(first.tolist(), second.tolist(), same.tolist(), strict=True)]


def chain_and_hub(n: int) -> list[Pair]:
    """Return pairs that extend a chain of similar items, alternating with dissimilar pairs of its first item."""
    return [Pair(i // 2, i // 2 + 1, True) if i % 2 else Pair(0, -1 - i, False) for i in range(n)]


def tournament(n: int) -> list[Pair]:
    """Return a dissimilar pair for each item, then pairs that merge components of equal size.

    This stream moves the largest number of edges.
    """
    m = 1 << (n // 2).bit_length() - 1
    stream = [Pair(i, -1 - i, False) for i in range(m)]
    step = 1
    while step < m:
        stream += [Pair(i, i + step, True) for i in range(0, m, 2 * step)]
        step *= 2
    return stream


STREAMS: dict[str, Callable[[int], list[Pair]]] = {
    "pairs from labels": from_labels,
    "chain and hub": chain_and_hub,
    "tournament": tournament,
}

if __name__ == "__main__":
    main()
