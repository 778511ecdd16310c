"""Benchmark of every learner: speed relative to a simple numpy implementation and to memory bandwidth.

    make bench-learners        (or: python benchmarks/learners.py [--quick])

It uses one thread and float32. Nearly every constraint of the streams changes the model. Other constraints take
less time. All variants are measured in turns, and the tables show medians. "numpy" is the formula of the update,
written in numpy. "difference" is that of the two models after the same constraints, relative to the largest number.
"bound" is the time to read and write the d x d floats of the model once. "learn_one / bulk" is the time of
`learn_one` divided by the time per constraint of a long `partial_fit`.
"""

from __future__ import annotations

import os

for _pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_pool] = "1"

import argparse
import copy
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy import sparse

import oahu

console = Console(width=112)
Floats = NDArray[np.float32]
Plain = Callable[[Any, NDArray[Any], NDArray[Any]], Any]  # (state, constraints, same) -> state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="Use fewer repeats: faster, noisier.")
    repeats = 3 if parser.parse_args().quick else 9
    versions = f"numpy {np.__version__}, numba {numba.__version__}, oahu {oahu.__version__}"
    console.print(f"[bold]{platform.processor() or platform.machine()}, {versions}[/bold]", highlight=False)
    for d in (64, 256, 784):
        console.print(speeds(d, repeats))
    console.print(one_by_one(784, repeats))
    console.print(similar_steps(repeats))
    console.print(sparse_growth(repeats))


# -- streams ---------------------------------------------------------------------------------------------


def unit(rows: NDArray[Any]) -> Floats:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True), np.float32)


def triplets_of(n: int, d: int) -> Floats:
    return unit(np.random.default_rng(0).normal(size=(n, 3, d)))


def pairs_of(n: int, d: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Return similar pairs that are far apart and dissimilar pairs that are close; most change the model."""
    rng = np.random.default_rng(0)
    pairs, same = unit(rng.normal(size=(n, 2, d))), np.arange(n) % 2 == 0
    pairs[~same, 1] = unit(pairs[~same, 0] + 0.3 * pairs[~same, 1])
    return pairs, same


# -- the updates, written from their formulas ----------------------------------------------------------------


def plain_lego(A: Any, pairs: Any, same: Any) -> Any:
    rate, upper, lower = 0.01, 0.0, 100.0
    for (x, q), similar in zip(pairs, same, strict=True):
        z = x - q
        along = A @ z
        apart = float(z @ along)
        target = upper if similar else lower
        if (apart > target) if similar else (apart < target):
            inner = rate * target * apart - 1
            after = (inner + np.sqrt(inner**2 + 4 * rate * apart**2)) / (2 * rate * apart)
            A -= np.float32(rate * (after - target) * after / apart) * np.outer(along, along)
    return A


def nearest_psd(A: Any) -> Any:
    values, vectors = np.linalg.eigh(A)
    return (vectors * np.maximum(values, 0)) @ vectors.T


def plain_rdml(A: Any, pairs: Any, same: Any) -> Any:
    rate = 1e-3
    for (x, q), similar in zip(pairs, same, strict=True):
        z = x - q
        apart = float(z @ A @ z)
        if similar and apart >= 1:
            A = nearest_psd(A - np.float32(rate) * np.outer(z, z))
        elif not similar and apart <= 1:
            A = A + np.float32(rate) * np.outer(z, z)
    return A


def plain_pola(state: Any, pairs: Any, same: Any) -> Any:
    A, b = state
    for (x, q), similar in zip(pairs, same, strict=True):
        z, y = x - q, 1 if similar else -1
        loss = y * (float(z @ A @ z) - b) + 1
        if loss > 0:
            step = loss / (float(z @ z) ** 2 + 1)
            A = A - np.float32(y * step) * np.outer(z, z)
            A = nearest_psd(A) if similar else A
            b = max(1.0, b + y * step)
    return A, b


def plain_oasis(W: Any, triplets: Any, _: Any) -> Any:
    for x, p, n in triplets:
        difference = p - n
        loss = 1 - float(x @ (W @ difference))
        if loss > 0:
            W += np.float32(min(1e-3, loss / float((x @ x) * (difference @ difference)))) * np.outer(x, difference)
    return W


def plain_opml(L: Any, triplets: Any, _: Any) -> Any:
    gamma = 1e-4
    for x, p, n in triplets:
        a, b = x - p, x - n
        along_a, along_b = L @ a, L @ b
        if 1 + along_a @ along_a - along_b @ along_b > 0:
            aa, bb, ab = float(a @ a), float(b @ b), float(a @ b)
            det = (1 + gamma * aa) * (1 - gamma * bb) + gamma**2 * ab**2
            u = ((1 - gamma * bb) * along_a + gamma * ab * along_b) / det
            v = ((1 + gamma * aa) * along_b - gamma * ab * along_a) / det
            L += np.float32(gamma) * (np.outer(v, b) - np.outer(u, a))
    return L


def soft(values: Any, threshold: Any) -> Any:
    return np.sign(values) * np.maximum(np.abs(values) - threshold, 0)


def plain_soml(w: Any, triplets: Any, _: Any) -> Any:
    rate, sparsity = 1e-3, 1e-4
    for x, p, n in triplets:
        f = x * (p - n)
        w = soft(w + np.float32(rate) * f if 1 - float(w @ f) > 0 else w, np.float32(rate * sparsity))
    return w


def plain_sors(M: Any, triplets: Any, _: Any) -> Any:
    rate, sparsity = 1e-3, 1e-2
    for x, p, n in triplets:
        difference = p - n
        if 1 - float(x @ (M @ difference)) > 0:
            M = M + np.float32(rate) * np.outer(x, difference)
        diagonal = M.diagonal().copy()
        M = soft(M, np.float32(rate * sparsity))
        np.fill_diagonal(M, diagonal)
    return M


def plain_adasors(state: Any, triplets: Any, _: Any) -> Any:
    M, squares = state
    rate, sparsity, delta = np.float32(1e-4), np.float32(1e-4), np.float32(1e-2)
    for x, p, n in triplets:
        difference = p - n
        active = 1 - float(x @ (M @ difference)) > 0
        gradient = np.outer(x, difference) if active else np.zeros_like(M)
        squares = squares + gradient**2
        step = rate / (delta + np.sqrt(squares))
        moved = M + step * gradient
        M = soft(moved, step * sparsity)
        np.fill_diagonal(M, moved.diagonal())
    return M, squares


#: By name: the learner, its numpy update, the initial state for numpy, and functions that return the two models.
CASES: dict[str, tuple[Any, Plain, Callable[[int], Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "LEGO": (
        lambda: oahu.LEGO(0.01, bounds=(0.0, 100.0)),
        plain_lego,
        lambda d: np.eye(d, dtype=np.float32),
        lambda learner: learner.matrix_,
        lambda state: state,
    ),
    "RDML": (
        lambda: oahu.RDML(1e-3),
        plain_rdml,
        lambda d: np.eye(d, dtype=np.float32),
        lambda learner: learner.matrix_,
        lambda state: state,
    ),
    "POLA": (
        lambda: oahu.POLA(),
        plain_pola,
        lambda d: (np.eye(d, dtype=np.float32), 1.0),
        lambda learner: learner.matrix_,
        lambda state: state[0],
    ),
    "OASIS": (
        lambda: oahu.OASIS(1e-3, normalize=False),
        plain_oasis,
        lambda d: np.eye(d, dtype=np.float32),
        lambda learner: learner.matrix_,
        lambda state: state,
    ),
    "OPML": (
        lambda: oahu.OPML(1e-4),
        plain_opml,
        lambda d: np.eye(d, dtype=np.float32),
        lambda learner: learner.factor_,
        lambda state: state,
    ),
    "SOML": (
        lambda: oahu.SOML(learning_rate=1e-3, sparsity=1e-4, normalize=False),
        plain_soml,
        lambda d: np.ones(d, np.float32),
        lambda learner: learner.weights_,
        lambda state: state,
    ),
    "SORS": (
        lambda: oahu.SORS(1e-3, sparsity=1e-2, normalize=False),
        plain_sors,
        lambda d: np.eye(d, dtype=np.float32),
        lambda learner: learner.matrix_,
        lambda state: state,
    ),
    "AdaSORS": (
        lambda: oahu.AdaSORS(1e-4, sparsity=1e-4, delta=1e-2, normalize=False),
        plain_adasors,
        lambda d: (np.eye(d, dtype=np.float32), np.zeros((d, d), np.float32)),
        lambda learner: learner.matrix_,
        lambda state: state[0],
    ),
}


# -- measuring -------------------------------------------------------------------------------------------


def seconds(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def in_turns(actions: list[Callable[[], Any]], repeats: int) -> list[float]:
    """Return the median time of each action. The actions are measured in turns."""
    times = [[seconds(action) for action in actions] for _ in range(repeats)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def passes(matrix: Floats, n: int) -> None:
    """Read and write a matrix n times."""
    for _ in range(n):
        np.multiply(matrix, np.float32(1.0000001), out=matrix)


def from_start(plain: Plain, start: Callable[[int], Any], d: int, data: Any, same: Any) -> Any:
    return plain(start(d), data, same)


def speeds(d: int, repeats: int) -> Table:
    table = Table(title=f"\nd = {d}", title_style="bold", title_justify="left")
    names = (
        "",
        "used",
        "µs each",
        "per second",
        "numpy, µs",
        "numpy / oahu",
        "bound, µs",
        "oahu / bound",
        "difference",
    )
    for name in names:
        table.add_column(name, justify="right" if name else "left")
    table.add_row(*oahu_row(d, repeats))
    for name, (make, plain, start, ours, theirs) in CASES.items():
        pairs = name in ("LEGO", "RDML", "POLA")
        data, same = pairs_of(1024, d) if pairs else (triplets_of(1024, d), None)
        n_slow = 24 if d > 300 else 128  # numpy needs much time for eigenvalues
        few = n_slow if name in ("RDML", "POLA") else 256
        some = None if same is None else same[:few]
        learner = make()
        learner.fit(data, same)
        apart = difference(make(), plain, start(d), ours, theirs, data[:few], some)
        matrix = np.ones((d, d) if name != "SOML" else (d,), np.float32)
        run = [
            partial(learner.fit, data, same),
            partial(from_start, plain, start, d, data[:few], some),
            partial(passes, matrix, 200),
        ]
        own, numpys, bound = in_turns(run, repeats)
        own, numpys, bound = own / len(data) * 1e6, numpys / few * 1e6, bound / 200 * 1e6
        table.add_row(
            name, f"{learner.utilization_:.2f}", f"{own:.1f}", f"{1e6 / own:,.0f}", f"{numpys:,.1f}",
            f"{numpys / own:.1f}", f"{bound:.1f}", f"{own / bound:.2f}", f"{apart:.0e}",
        )  # fmt: skip
    return table


def difference(learner: Any, plain: Plain, start: Any, ours: Any, theirs: Any, data: Any, same: Any) -> float:
    """Return the difference of the two models after the same constraints, relative to the largest number."""
    learner.fit(data, same)
    expected = theirs(plain(start, data, same))
    return float(np.abs(ours(learner) - expected).max() / np.abs(expected).max())


def oahu_row(d: int, repeats: int) -> list[str]:
    """Return the row of OAHU at the paper's sizes. benchmarks/step.py compares it with other implementations."""
    data, learner = triplets_of(1024, d), oahu.OAHU(random_state=0)
    learner.fit(data)
    few = 64
    own, numpys = in_turns([lambda: learner.fit(data), lambda: plain_oahu(learner, data[:few])], repeats)
    own, numpys = own / len(data) * 1e6, numpys / few * 1e6
    apart = oahu_difference(data[:few], d)
    ratio = f"{numpys / own:.1f}"
    row = ["OAHU", f"{learner.utilization_:.2f}", f"{own:.1f}", f"{1e6 / own:,.0f}", f"{numpys:,.1f}", ratio]
    return [*row, "", "", f"{apart:.0e}"]


def oahu_difference(data: Floats, d: int) -> float:
    learner = oahu.OAHU(random_state=0).initialize(d)
    expected = plain_oahu(learner, data)
    learner.partial_fit(data)
    return max(
        float(np.abs(a - b).max())
        for a, b in zip(learner.embedding_weights_ + learner.hidden_weights_, expected, strict=True)
    )


def plain_oahu(learner: Any, triplets: Floats) -> Any:
    """Run Algorithm 1 with numpy from the learner's state. The thresholds are constants within a round."""
    W, bias = learner.hidden_weights_, learner.hidden_biases_
    T, bias_T = learner.embedding_weights_, learner.embedding_biases_
    alpha = learner.metric_weights_
    tau, rate, n_layers = learner.tau, np.float32(learner.learning_rate), len(W)
    for x in triplets:
        h = [x]
        for weights, offset in zip(W, bias, strict=True):
            h.append(np.maximum(h[-1] @ weights.T + offset, 0))
        losses, gradients, through = np.empty(n_layers + 1), [], None
        for level in range(n_layers, -1, -1):
            raw = h[level] @ T[level].T + bias_T[level]
            lengths = np.linalg.norm(raw, axis=1, keepdims=True)
            f = raw / lengths
            near, far = f[0] - f[1], f[0] - f[2]
            close, apart = float(np.linalg.norm(near)), float(np.linalg.norm(far))
            c1 = tau * np.expm1(close) / np.expm1(2.0)
            c2 = (2 - tau) - tau * np.expm1(-apart) / -np.expm1(-2.0)
            losses[level] = 0.5 * ((close - c1) / (2 - c1) + 1 - apart / c2)
            pull, push = near / (2 * close * (2 - c1)), -far / (2 * apart * c2)
            g = np.float32(alpha[level]) * np.stack([pull + push, -pull, -push])
            g = (g - f * (g * f).sum(axis=1, keepdims=True)) / lengths
            gradients.append((T[level], g.T @ h[level]))
            gradients.append((bias_T[level], g.sum(axis=0)))
            back = g @ T[level] if through is None else through @ W[level] + g @ T[level]
            if level:
                through = back * (h[level] > 0)
                gradients.append((W[level - 1], through.T @ h[level - 1]))
                gradients.append((bias[level - 1], through.sum(axis=0)))
        for array, gradient in gradients:
            array -= rate * gradient.astype(np.float32)
        least = learner.beta ** losses.min() * np.log(losses)
        alpha = alpha * np.where(least > learner.beta - 1, learner.beta**losses, 1 - (1 - learner.beta) * losses)
        alpha = np.maximum(alpha, learner.smoothing / (n_layers + 1))
        alpha /= alpha.sum()
    return T + W


def one_by_one(d: int, repeats: int) -> Table:
    """Compare the time of `learn_one`, which must not copy the model, with that per constraint of a long call."""
    table = Table(title=f"\nlearn_one, d = {d}", title_style="bold", title_justify="left")
    for name in ("", "learn_one, µs", "bulk, µs", "learn_one / bulk"):
        table.add_column(name, justify="right" if name else "left")
    learners = {
        "OAHU": lambda: oahu.OAHU(random_state=0),
        "AnchoredOAHU": lambda: oahu.AnchoredOAHU(random_state=0),
    }
    for name, make in (learners | {name: case[0] for name, case in CASES.items()}).items():
        pairs = name in ("LEGO", "RDML", "POLA")
        data, same = pairs_of(256, d) if pairs else (triplets_of(256, d), None)
        single, bulk = make().fit(data[:16], None if same is None else same[:16]), make().fit(data, same)
        items = [tuple(rows) for rows in data]  # cutting the rows takes time, but is not part of learn_one
        actions = [partial(learn_one_by_one, single, items, same), partial(bulk.partial_fit, data, same)]
        in_turns(actions, 1)  # compile
        times = [[seconds(action) for action in actions] for _ in range(repeats)]
        one, whole = (statistics.median(column) / len(data) * 1e6 for column in zip(*times, strict=True))
        ratio = statistics.median(ours / bulks for ours, bulks in times)
        table.add_row(name, f"{one:.1f}", f"{whole:.1f}", f"{ratio:.2f}")
    return table


def learn_one_by_one(learner: Any, constraints: list[tuple[Floats, ...]], same: Any) -> None:
    """Learn constraints one by one."""
    for t, items in enumerate(constraints):
        learner.learn_one(*items, y=None if same is None else bool(same[t]))


def similar_steps(repeats: int) -> Table:
    """Measure similar pairs that change the models of RDML and POLA. Each needs at most one eigenpair."""
    title = "\nA similar pair that changes the model, compared with all eigenpairs of the matrix"
    table = Table(title=title, title_style="bold", title_justify="left")
    for name in ("", "d", "used", "µs each", "eigh, µs", "eigh / oahu"):
        table.add_column(name, justify="right" if name else "left")
    for d in (64, 256, 784):
        pairs, same = pairs_of(1024, d)
        new, labels = unit(np.random.default_rng(1).normal(size=(32, 2, d))), np.ones(32)
        for name, learner in (("RDML", oahu.RDML(0.01)), ("POLA", oahu.POLA())):
            learner.fit(pairs, same)
            matrix, own, everything, used = learner.matrix_, [], [], 0
            for _ in range(repeats):
                again = copy.deepcopy(learner)
                duration = seconds(partial(again.partial_fit, new, labels))
                used = round(again.utilization_similar_ * 544 - learner.utilization_similar_ * 512)
                own.append(duration / max(used, 1) * 1e6)
                everything.append(seconds(partial(np.linalg.eigh, matrix)) * 1e6)
            each, all_pairs = statistics.median(own), statistics.median(everything)
            table.add_row(
                name, f"{d}", f"{used} of 32", f"{each:,.0f}", f"{all_pairs:,.0f}", f"{all_pairs / each:.1f}"
            )
    return table


def sparse_growth(repeats: int) -> Table:
    table = Table(title="\nOASIS with sparse items", title_style="bold", title_justify="left")
    for name in ("d", "density", "non-zeros of x, of p - n", "µs per triplet", "ns per product", "dense, µs"):
        table.add_column(name, justify="right")
    for d, density in ((1024, 0.01), (2048, 0.01), (4096, 0.01), (4096, 0.02), (4096, 0.04)):
        items = sparse.random_array(
            (600, d), density=density, rng=np.random.default_rng(0), format="csr", dtype=np.float32
        )
        rows = np.random.default_rng(1).integers(0, 600, (2048, 3))
        x, change = items[rows[:, 0]], items[rows[:, 1]] - items[rows[:, 2]]
        widths = np.diff(x.indptr).mean(), np.diff(change.indptr).mean()
        learner, full = oahu.OASIS(1e-3, preprocessor=items), oahu.OASIS(1e-3, preprocessor=items.toarray())
        learner.fit(rows)
        full.fit(rows[:64])
        matrix = learner.matrix_
        # A call copies the model once. This time is subtracted.
        actions = [partial(learner.partial_fit, rows), partial(full.partial_fit, rows[:64]), matrix.copy]
        own, whole, copying = in_turns(actions, repeats)
        own, whole = (own - copying) / len(rows) * 1e6, (whole - copying) / 64 * 1e6
        table.add_row(
            f"{d:,}", f"{density:.0%}", f"{widths[0]:.0f}, {widths[1]:.0f}", f"{own:.1f}",
            f"{own * 1e3 / widths[0] / widths[1]:.2f}", f"{whole:,.0f}",
        )  # fmt: skip
    return table


if __name__ == "__main__":
    main()
