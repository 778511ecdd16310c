"""Benchmark of search: speed and memory compared with faiss, scikit-learn and matrix products in the same run.

    make bench-search        (or: python benchmarks/search.py [--quick] [--items images.npy])

It uses two threads and float32. All variants are measured in turns, and the tables show medians. The embeddings are
those of OAHU after 10,000 triplets: six experts of 50 dimensions. The items are images in a file (such as the
70,000 x 784 pixels of Fashion-MNIST), or synthetic: ten clusters in a 40-dimensional subspace.
"""

from __future__ import annotations

import os

for _pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_pool] = "2"

import argparse
import platform
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import usearch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn import __version__ as sklearn_version
from sklearn.neighbors import NearestNeighbors

import oahu
from oahu.index.approximate import ApproximateIndex
from oahu.index.exact import ExactIndex, search_all
from oahu.tasks.indexed_items import IndexedItems

console = Console(width=112)
Floats = NDArray[np.float32]
K = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="Use a tenth of the queries and fewer repeats: faster, noisier."
    )
    parser.add_argument("--items", type=Path, help="Images to embed: an .npy file of shape (n, 784).")
    options = parser.parse_args()
    versions = f"faiss {faiss.__version__}, scikit-learn {sklearn_version}, usearch {usearch.__version__}"
    console.print(f"[bold]{platform.machine()}, numpy {np.__version__}, {versions}[/bold]", highlight=False)
    X = (
        synthetic_items()
        if options.items is None
        else np.load(options.items).reshape(-1, 784).astype(np.float32) / 255
    )
    metric = learn_metric(X)
    console.print(
        f"six experts, weights {metric.metric_weights.round(2)}; {len(X):,} items of {X.shape[1]} features"
    )
    repeats = 3 if options.quick else 7
    many_against_many(metric, X, 3_500 if options.quick else 35_000, 1 if options.quick else 2)
    one_against_many(metric, X, repeats)
    one_against_long_vectors(X, repeats)
    encoding(metric, X, repeats)
    approximate_search(metric, X)


# -- data ------------------------------------------------------------------------------------------------


def synthetic_items() -> Floats:
    rng = np.random.default_rng(0)
    centres, plane = rng.normal(size=(10, 40)), rng.normal(size=(40, 784))
    points = centres[np.arange(70_000) % 10] + rng.normal(size=(70_000, 40))
    return np.asarray(points @ plane / 40 + rng.normal(size=(70_000, 784)) / 10, np.float32)


def learn_metric(X: Floats) -> Any:
    """Return OAHU's metric after 10,000 triplets."""
    learner = oahu.OAHU(learning_rate=0.05, preprocessor=X[:10_000], random_state=0)
    return learner.partial_fit(triplets_of(X)).metric()


def triplets_of(X: Floats) -> Any:
    """Return 10,000 triplets of the first items, with k-means clusters as labels."""
    from sklearn.cluster import MiniBatchKMeans

    labels = MiniBatchKMeans(10, random_state=0, n_init=3).fit_predict(X[:10_000])
    return oahu.sample_triplets(labels, 10_000, random_state=0)


# -- measuring -------------------------------------------------------------------------------------------


def in_turns(repeats: int, **functions: Callable[[], Any]) -> dict[str, float]:
    """Return the median seconds of each function, measured in turns, so that a busy machine slows all of them."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            time.sleep(0.1)  # BLAS threads spin for a while after a product
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(duration) for name, duration in times.items()}


def memory_of(function: Callable[[], Any]) -> float:
    """Return the peak memory of a function in MiB, including its result."""
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def table(title: str, rows: Sequence[Sequence[str]], *columns: str) -> None:
    shown = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        shown.add_column(column, justify="left" if column == columns[0] else "right")
    for row in rows:
        shown.add_row(*row)
    console.print(shown)


# -- measurements ---------------------------------------------------------------------------------------


def many_against_many(metric: Any, X: Floats, n_queries: int, repeats: int) -> None:
    """Measure 35,000 queries against 35,000 items, in six spaces and with joint vectors."""
    items, queries = X[:35_000], X[35_000 : 35_000 + n_queries]
    spaces, query_vectors = list(metric.embed(items)), list(metric.embed(queries))
    joint, joint_queries = metric.transform(items), metric.transform(queries)
    ours = [ExactIndex.empty(50).add(space) for space in spaces]
    ours_joint = ExactIndex.empty(joint.shape[1]).add(joint)
    flat = [faiss_flat(space) for space in spaces]
    brute = [NearestNeighbors(n_neighbors=K, algorithm="brute").fit(space) for space in spaces]
    flat_joint = faiss_flat(joint)
    search_all(ours, [vectors[:4] for vectors in query_vectors], K)  # compiles
    ours_joint.search(joint_queries[:4], K)
    seconds = in_turns(
        repeats,
        oahu=lambda: search_all(ours, query_vectors, K),
        faiss=lambda: [index.search(vectors, K) for index, vectors in zip(flat, query_vectors, strict=True)],
        sklearn=lambda: [one.kneighbors(vectors) for one, vectors in zip(brute, query_vectors, strict=True)],
        joint=lambda: ours_joint.search(joint_queries, K),
        faiss_joint=lambda: flat_joint.search(joint_queries, K),
    )
    rows = [
        row("oahu, six spaces", seconds["oahu"], n_queries, seconds["oahu"]),
        row("faiss IndexFlatL2, six spaces", seconds["faiss"], n_queries, seconds["oahu"]),
        row("scikit-learn brute force, six spaces", seconds["sklearn"], n_queries, seconds["oahu"]),
        row("oahu, joint vector", seconds["joint"], n_queries, seconds["oahu"]),
        row("faiss IndexFlatL2, joint vector", seconds["faiss_joint"], n_queries, seconds["oahu"]),
    ]
    title = f"\n{n_queries:,} queries against {len(items):,} items, k={K}, two threads"
    table(title, rows, "", "seconds", "µs per query", "times oahu's six spaces")
    console.print(
        f"oahu's joint search is {seconds['oahu'] / seconds['joint']:.2f} times as fast as its six spaces"
    )
    needed = memory_of(lambda: search_all(ours, query_vectors, K))
    joint_needed = memory_of(lambda: ours_joint.search(joint_queries, K))
    stored = sum(space.nbytes for space in spaces) / 2**20
    console.print(
        f"memory beyond the {stored:.0f} MiB of embeddings: {needed:.0f} MiB in six spaces, {joint_needed:.0f} MiB "
        "by the joint vector"
    )
    for name, index, other, vectors in zip(("E_0", "E_5"), ours[::5], flat[::5], query_vectors[::5], strict=True):
        same = index.search(vectors[:1000], K).positions == other.search(vectors[:1000], K)[1]
        console.print(f"{name}: faiss finds the same items in the same order for {same.all(axis=1).mean():.1%}")


def row(name: str, seconds: float, n: int, unit: float) -> list[str]:
    return [name, f"{seconds:.2f}", f"{seconds / n * 1e6:.0f}", f"{seconds / unit:.2f}"]


def faiss_flat(vectors: Floats) -> Any:
    index = faiss.IndexFlatL2(vectors.shape[1])
    index.add(vectors)
    return index


def one_against_many(metric: Any, X: Floats, repeats: int) -> None:
    """Measure single queries against 65,000 items, compared with a matrix-vector product of the same size."""
    items, queries = X[:65_000], X[65_000:]
    spaces, joint = list(metric.embed(items)), metric.transform(items)
    side_by_side = np.concatenate(spaces, axis=1)  # all six spaces in one row, for one large product
    ours = [ExactIndex.empty(50).add(space) for space in spaces]
    ours_joint = ExactIndex.empty(joint.shape[1]).add(joint)
    query_vectors, joint_queries = metric.embed(queries[:50]), metric.transform(queries[:50])
    vectors = np.concatenate(list(query_vectors), axis=1)
    search_all(ours, [vector[:1] for vector in query_vectors], K)
    ours_joint.search(joint_queries[:1], K)
    seconds = in_turns(
        repeats * 3,
        six=lambda: [search_all(ours, list(query_vectors[:, i : i + 1]), K) for i in range(50)],
        joint=lambda: [ours_joint.search(joint_queries[i : i + 1], K) for i in range(50)],
        product=lambda: [side_by_side @ vector for vector in vectors],
        products=lambda: [
            space @ vector for i in range(50) for space, vector in zip(spaces, query_vectors[:, i], strict=True)
        ],
    )
    bound = seconds["product"]
    names = {
        "six": "oahu, six spaces",
        "joint": "oahu, joint vector",
        "product": "one product with all 300 dimensions",
        "products": "six products with 50 dimensions each",
    }
    rows = [
        [names[name], f"{duration / 50 * 1e3:.2f}", f"{duration / bound:.2f}"] for name, duration in seconds.items()
    ]
    table("\nOne query against 65,000 items, k=5, two threads", rows, "", "ms per query", "times the product")
    console.print(f"oahu's joint search is {seconds['six'] / seconds['joint']:.2f} times as fast as its six spaces")


def one_against_long_vectors(X: Floats, repeats: int) -> None:
    """Measure single queries against 65,000 long vectors without a projection: joint vectors of AnchoredOAHU."""
    metric = oahu.AnchoredOAHU(preprocessor=X[:10_000], random_state=0).partial_fit(triplets_of(X)).metric()
    items, queries = metric.transform(X[:65_000]), metric.transform(X[65_000:65_020])
    index, flat = ExactIndex.empty(items.shape[1]).add(items), faiss_flat(items)
    index.search(queries[:1], K)
    seconds = in_turns(
        repeats * 3,
        five=lambda: [index.search(query[None], K) for query in queries],
        fifty=lambda: [index.search(query[None], 50) for query in queries],
        faiss=lambda: [flat.search(query[None], K) for query in queries],
        product=lambda: [items @ query for query in queries],
    )
    names = {
        "five": f"oahu, k={K}",
        "fifty": "oahu, k=50",
        "faiss": f"faiss IndexFlatL2, k={K}",
        "product": "one matrix-vector product",
    }
    rows = [
        [names[name], f"{duration / len(queries) * 1e3:.2f}", f"{duration / seconds['product']:.2f}"]
        for name, duration in seconds.items()
    ]
    title = f"\nOne query against {len(items):,} items of {items.shape[1]:,} dimensions"
    table(title, rows, "", "ms per query", "times one product")


def encoding(metric: Any, X: Floats, repeats: int) -> None:
    """Measure the encoding and indexing of 65,000 items, compared with the matrix products alone."""
    items = X[:65_000]

    def products() -> None:
        for start in range(0, len(items), 4096):
            hidden = items[start : start + 4096]
            hidden @ metric.embedding_weights[0].T
            for weights, outputs in zip(metric.hidden_weights, metric.embedding_weights[1:], strict=True):
                hidden = hidden @ weights.T
                hidden @ outputs.T

    IndexedItems.empty(metric, "experts").add(items)
    seconds = in_turns(
        repeats,
        products=products,
        six=lambda: IndexedItems.empty(metric, "experts").add(items),
        joint=lambda: IndexedItems.empty(metric, "joint").add(items),
    )
    names = {
        "products": "the matrix products alone",
        "six": "encoded, normalised and indexed in six spaces",
        "joint": "encoded, normalised and indexed by the joint vector",
    }
    rows = [
        [names[n], f"{duration:.3f}", f"{duration / seconds['products']:.2f}"] for n, duration in seconds.items()
    ]
    table("\nEncoding 65,000 x 784 items, two threads", rows, "", "seconds", "times the products")


def approximate_search(metric: Any, X: Floats) -> None:
    """Compare the speed and recall of usearch with exact search, for joint vectors."""
    joint, query_vectors = metric.transform(X[:65_000]), metric.transform(X[65_000:66_000])
    exact = ExactIndex.empty(joint.shape[1]).add(joint)
    start = time.perf_counter()
    graph = ApproximateIndex.empty(joint.shape[1]).add(joint)
    building = time.perf_counter() - start
    truth, found = exact.search(query_vectors, 10).positions, graph.search(query_vectors, 10).positions
    recall = np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(truth, found, strict=True)])
    seconds = in_turns(
        3,
        exact=lambda: [exact.search(query_vectors[i : i + 1], 10) for i in range(200)],
        graph=lambda: [graph.search(query_vectors[i : i + 1], 10) for i in range(200)],
    )
    rows = [
        ["exact", "-", "1.000", f"{seconds['exact'] / 200 * 1e3:.2f}"],
        ["usearch", f"{building:.1f}", f"{recall:.3f}", f"{seconds['graph'] / 200 * 1e3:.2f}"],
    ]
    table(
        "\nExact and approximate, 65,000 joint vectors", rows, "", "seconds to build", "recall@10", "ms per query"
    )


if __name__ == "__main__":
    main()
