"""Benchmark of the online update step: speed and memory. Speeds are ratios within one run.

    make bench-step        (or: python benchmarks/step.py [--quick])

It uses one thread and float32. Unless a table shows other sizes, they are those of the paper: d = 784, L = 5, 100
hidden units, 50 embedding dimensions.
"""

from __future__ import annotations

import os

for _pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_pool] = "1"

import argparse
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import oahu
from oahu import OAHU, AnchoredOAHU, Click
from oahu.learners.network.layers import Shape
from oahu.torch import OAHUHead

try:
    from onn.OnlineNeuralNetwork import ONN
except ImportError:  # its row is left out
    ONN = None

console = Console(width=112)
PAPER = Shape(n_features=784, n_layers=5, hidden_size=100, embedding_size=50)

Triplets = NDArray[np.float32]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="Use fewer repeats: faster, noisier.")
    repeats = 5 if parser.parse_args().quick else 15
    torch.set_num_threads(1)
    console.print(f"[bold]{machine()}[/bold]", highlight=False)
    console.print(start_up())
    console.print(compare_implementations(repeats))
    console.print(click_times(repeats))
    console.print(growth(repeats))
    console.print(memory())


def machine() -> str:
    """Return the processor and the versions of the libraries."""
    cpu = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    versions = f"numpy {np.__version__}, numba {numba.__version__}, torch {torch.__version__}"
    return f"{cpu}, Python {platform.python_version()}, {versions}, oahu {oahu.__version__}"


# -- start-up ------------------------------------------------------------------------------------------------


def start_up() -> Table:
    """Measure imports and the first call in new processes, first with an empty cache of compiled code."""
    timed_import = "import time; t = time.perf_counter(); {}; seconds = time.perf_counter() - t\n"
    scripts = (
        timed_import.format("import sklearn.base") + "print(seconds)",
        timed_import.format("import oahu") + "print(seconds)",
        timed_import.format("from oahu import OAHU")
        + "import numpy as np; x = np.eye(3, 784)[None]; t = time.perf_counter()\n"
        + "OAHU(random_state=0).partial_fit(x); print(seconds, time.perf_counter() - t)",
    )
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        runs = [
            [float(x) for text in scripts for x in _output([sys.executable, "-c", text], environment).split()]
            for _ in range(8)
        ]
    table = Table(title="\nStart-up, seconds", title_justify="left")
    for heading in ("", "import sklearn.base", "import oahu", "from oahu import OAHU", "first partial_fit"):
        table.add_column(heading, justify="right" if heading else "left")
    table.add_row("first process: compiles", *(f"{seconds:.2f}" for seconds in runs[0]))
    medians = (statistics.median(column) for column in zip(*runs[1:], strict=True))
    table.add_row("later processes, median of 7", *(f"{seconds:.2f}" for seconds in medians))
    return table


# -- comparison with other implementations and with a lower bound --------------------------------------------


def compare_implementations(repeats: int) -> Table:
    """Measure the time per constraint of all implementations, in turns, so that noise affects all equally."""
    n = 1024
    triplets = np.random.default_rng(0).standard_normal((n, 3, PAPER.n_features)).astype(np.float32)
    implementations: dict[str, tuple[int, Callable[[int], object]]] = {
        "oahu.OAHU, partial_fit": (n, _learner(triplets)),
        "oahu.OAHU, learn_one": (n // 4, _learner_one_by_one(triplets)),
        "oahu.AnchoredOAHU, partial_fit": (n, _learning(_anchored(triplets), triplets)),
        "oahu.OAHU, partial_fit in float64": (n // 2, _learner(triplets.astype(np.float64), "float64")),
        "bound: one pass, two rows at a time": (n, _bound(triplets, _one_pass_by_two)),
        "bound: one pass, simple loop": (n, _bound(triplets, _one_pass)),
        "PyTorch eager, OAHUHead + SGD": (n // 16, _eager(triplets)),
    }
    if ONN is not None:
        implementations["onn from PyPI: one labelled sample"] = n // 64, _onn(triplets)
    for _, run in implementations.values():
        run(8)
    times: dict[str, list[float]] = {name: [] for name in implementations}
    for _ in range(repeats):
        for name, (count, run) in implementations.items():
            times[name].append(_timed(run, count) / count)
    ours = times["oahu.OAHU, partial_fit"]
    table = Table(
        title=f"\nOne constraint at d=784, L=5, 100 hidden, 50 embedding; {repeats} turns", title_justify="left"
    )
    for heading in ("", "µs, median", "constraints/s", "time / OAHU's time", "OAHU's time / time"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, others in times.items():
        ratio = statistics.median(other / own for other, own in zip(others, ours, strict=True))
        median = statistics.median(others)
        table.add_row(name, f"{1e6 * median:.1f}", f"{1 / median:,.0f}", f"{ratio:.2f}", f"{1 / ratio:.2f}")
    return table


def _learner(triplets: NDArray[np.floating], dtype: str = "float32") -> Callable[[int], object]:
    return _learning(OAHU(random_state=0, dtype=dtype).partial_fit(triplets[:8]), triplets)


def _anchored(triplets: NDArray[np.floating]) -> AnchoredOAHU:
    return AnchoredOAHU(random_state=0).partial_fit(triplets[:8])


def _learning(learner: OAHU | AnchoredOAHU, triplets: NDArray[np.floating]) -> Callable[[int], object]:
    return lambda count: learner.partial_fit(triplets[:count])


def _learner_one_by_one(triplets: Triplets) -> Callable[[int], object]:
    learner = OAHU(random_state=0).partial_fit(triplets[:8])

    def run(count: int) -> None:
        for anchor, positive, negative in triplets[:count]:
            learner.learn_one(anchor, positive, negative)

    return run


def _eager(triplets: Triplets) -> Callable[[int], object]:
    """Return the usual PyTorch program: one round of the paper's Algorithm 1 for every triplet."""
    head = OAHUHead(PAPER.n_features)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.3)
    tensors = torch.from_numpy(triplets)

    def run(count: int) -> None:
        for triplet in tensors[:count]:
            losses = head.losses(*triplet[:, None])
            optimizer.zero_grad()
            head.overall(losses).backward()
            optimizer.step()
            head.hedge_step(losses)

    return run


def _onn(triplets: Triplets) -> Callable[[int], object]:
    """Return Hedge Backpropagation, which OAHU extends: the same hidden layers, one labelled sample per step."""
    network = ONN(PAPER.n_features, PAPER.n_layers, PAPER.hidden_size, n_classes=PAPER.embedding_size)
    labels = np.random.default_rng(0).integers(PAPER.embedding_size, size=len(triplets))

    def run(count: int) -> None:
        for i in range(count):
            network.partial_fit(triplets[i, :1], labels[i : i + 1])

    return run


def _bound(triplets: Triplets, one_pass: Callable[..., None], shape: Shape = PAPER) -> Callable[[int], object]:
    """Return a lower bound of a step: read and write all parameters once, with three updates and dot products."""
    rows = 2 * -(-shape.n_parameters // (2 * shape.n_features))
    weights = np.random.default_rng(0).standard_normal((rows, shape.n_features)).astype(np.float32)
    steps, out = np.full((3, rows), 1e-9, np.float32), np.empty((3, rows), np.float32)

    def run(count: int) -> None:
        _passes(one_pass, weights, steps, triplets[:count], out)

    return run


@numba.njit(fastmath={"reassoc", "contract"})
def _passes(one_pass, weights, steps, triplets, out):  # type: ignore[no-untyped-def]
    for t in range(len(triplets)):
        one_pass(weights, steps, triplets[t - 1], triplets[t], out)


@numba.njit(fastmath={"reassoc", "contract"})
def _one_pass(weights, steps, old, new, out):  # type: ignore[no-untyped-def]
    x0, x1, x2, y0, y1, y2 = old[0], old[1], old[2], new[0], new[1], new[2]
    for i in range(weights.shape[0]):
        row, a, b, c = weights[i], steps[0, i], steps[1, i], steps[2, i]
        p = q = r = np.float32(0)
        for j in range(weights.shape[1]):
            w = row[j] + a * x0[j] + b * x1[j] + c * x2[j]
            row[j] = w
            p += w * y0[j]
            q += w * y1[j]
            r += w * y2[j]
        out[0, i], out[1, i], out[2, i] = p, q, r


@numba.njit(fastmath={"reassoc", "contract"})
def _one_pass_by_two(weights, steps, old, new, out):  # type: ignore[no-untyped-def]
    """Do the same for two rows at a time, which share the loads of the vectors. The fastest version found."""
    x0, x1, x2, y0, y1, y2 = old[0], old[1], old[2], new[0], new[1], new[2]
    for i in range(0, weights.shape[0] - 1, 2):
        u, a, b, c = weights[i], steps[0, i], steps[1, i], steps[2, i]
        v, d, e, f = weights[i + 1], steps[0, i + 1], steps[1, i + 1], steps[2, i + 1]
        p = q = r = s = t = o = np.float32(0)
        for j in range(weights.shape[1]):
            g = u[j] + a * x0[j] + b * x1[j] + c * x2[j]
            h = v[j] + d * x0[j] + e * x1[j] + f * x2[j]
            u[j] = g
            v[j] = h
            p += g * y0[j]
            q += g * y1[j]
            r += g * y2[j]
            s += h * y0[j]
            t += h * y1[j]
            o += h * y2[j]
        out[0, i], out[1, i], out[2, i] = p, q, r
        out[0, i + 1], out[1, i + 1], out[2, i + 1] = s, t, o


# -- AnchoredOAHU, click by click ------------------------------------------------------------------------------


def click_times(repeats: int) -> Table:
    """Measure AnchoredOAHU's usual and its slowest click.

    Small clicks, such as triplets, are trained in rounds of several clicks. The slowest click ends a round.
    """
    table = Table(title="\nAnchoredOAHU: clicks one by one, after 200 clicks", title_justify="left")
    for heading in ("d", "marks", "µs, median", "µs, mean", "µs, 99th percentile", "99th percentile / mean"):
        table.add_column(heading, justify="right")
    for d in (2, 64, 784, 2048):
        items = np.random.default_rng(0).standard_normal((1_000, d)).astype(np.float32)
        for n_marks in (2, 10):
            clicks = _clicks(len(items), n_marks, 200 + 40 * repeats)
            learner = AnchoredOAHU(preprocessor=items, random_state=0).partial_fit(clicks[:200])
            micros = [
                1e6 * _timed(lambda _, click=click, learner=learner: learner.partial_fit([click]), 1)
                for click in clicks[200:]
            ]
            mean, slow = statistics.mean(micros), float(np.quantile(micros, 0.99))
            cells = [f"{statistics.median(micros):.0f}", f"{mean:.0f}", f"{slow:.0f}", f"{slow / mean:.1f}"]
            table.add_row(f"{d:,}", str(n_marks), *cells)
    return table


def _clicks(n_items: int, n_marks: int, n: int) -> list[Click]:
    """Return random clicks with as many positives as negatives."""
    rng = np.random.default_rng(0)
    rows = [rng.choice(n_items, n_marks + 1, replace=False).tolist() for _ in range(n)]
    return [Click(row[0], row[1 : 1 + n_marks // 2], row[1 + n_marks // 2 :]) for row in rows]


# -- growth with the sizes of the network ----------------------------------------------------------------------


def growth(repeats: int) -> Table:
    """Measure time and memory by d, S_hidden and L, with the paper's Section 3.7 and the lower bound."""
    shapes = (
        [Shape(d, 5, 100, 50) for d in (64, 256, 784, 2048, 4096)]
        + [Shape(784, 5, hidden, 50) for hidden in (25, 50, 200, 400)]
        + [Shape(784, layers, 100, 50) for layers in (0, 1, 2, 10, 20)]
    )
    runs = []
    for shape in shapes:
        triplets = np.random.default_rng(0).standard_normal((256, 3, shape.n_features)).astype(np.float32)
        learner = OAHU(shape.n_layers, shape.hidden_size, shape.embedding_size, random_state=0)
        learner.partial_fit(triplets[:8])
        stored = learner._network.flat.nbytes
        runs.append((shape, stored, _learning(learner, triplets), _bound(triplets, _one_pass_by_two, shape), []))
    for _ in range(repeats):
        for _, _, learn, bound, times in runs:
            times.append((_timed(learn, 256) / 256, _timed(bound, 256) / 256))
    table = Table(title="\nTime and memory by network size", title_justify="left")
    for heading in (
        "d",
        "L",
        "hidden",
        "parameters",
        "paper's space",
        "MiB stored",
        "µs per triplet",
        "ns per parameter",
        "time / bound",
    ):
        table.add_column(heading, justify="right")
    for number, (shape, stored, _, _, times) in enumerate(runs):
        micros = 1e6 * statistics.median(ours for ours, _ in times)
        table.add_row(
            str(shape.n_features), str(shape.n_layers), str(shape.hidden_size), f"{shape.n_parameters:,}",
            f"{papers_space(shape):,}", f"{stored / 2**20:.2f}", f"{micros:.1f}",
            f"{1e3 * micros / shape.n_parameters:.3f}",
            f"{statistics.median(ours / its for ours, its in times):.2f}",
            end_section=number in (4, 8),
        )  # fmt: skip
    return table


def papers_space(shape: Shape) -> int:
    """Return the space of Section 3.7: d S_emb + L S_hidden (d + S_emb) + L (L - 1) / 2 S_hidden^2."""
    d, L, H, E = shape.n_features, shape.n_layers, shape.hidden_size, shape.embedding_size
    return d * E + L * H * (d + E) + L * (L - 1) // 2 * H * H


# -- memory ----------------------------------------------------------------------------------------------------


def memory() -> Table:
    """Measure the memory of training from row numbers of a memory map, in a new process."""
    rows, features = 35_000, 784
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.npy"
        features_file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, features))
        features_file[:] = np.random.default_rng(0).standard_normal((rows, features), dtype=np.float32)
        features_file.flush()
        script = (
            "import sys, tracemalloc, numpy as np; from oahu import OAHU\n"
            "def anonymous(): return next(int(l.split()[1]) for l in open('/proc/self/status') if 'RssAnon' in l)\n"
            "table = np.load(sys.argv[1], mmap_mode='r')\n"
            "triplets = np.random.default_rng(0).integers(len(table), size=(20_000, 3))\n"
            "learner = OAHU(random_state=0, preprocessor=table).partial_fit(triplets[:8])\n"
            "before = anonymous(); tracemalloc.start(); learner.partial_fit(triplets)\n"
            "print(tracemalloc.get_traced_memory()[1], (anonymous() - before) * 1024)"
        )
        traced, grown = map(int, _output([sys.executable, "-c", script, str(path)], dict(os.environ)).split())
    table = Table(title=f"\nMemory of learning 20,000 index triplets from a {rows:,} x {features} memory map, MiB",
                  title_justify="left")  # fmt: skip
    for heading in ("table", "triplets as values", "peak allocation of partial_fit", "growth of the process"):
        table.add_column(heading, justify="right")
    sizes = (4 * rows * features, 20_000 * 3 * features * 4, traced, grown)
    table.add_row(*(f"{size / 2**20:.1f}" for size in sizes))
    return table


# -- helpers ---------------------------------------------------------------------------------------------------


def _timed(run: Callable[[int], object], count: int) -> float:
    start = time.perf_counter()
    run(count)
    return time.perf_counter() - start


def _output(command: list[str], environment: dict[str, str]) -> str:
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().splitlines() if file.exists() else []


if __name__ == "__main__":
    main()
