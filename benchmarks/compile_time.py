"""Benchmark of first calls: CPU time in a new process with an empty cache of compiled code, then with a filled one.

    python benchmarks/compile_time.py [--repeats 3]

CPU time is the user plus system time of the first call alone, in one thread. The import of numba has its own
column, because every program that compiles needs it once. The last column is the time of the first call divided by
that of the import. This ratio does not depend on the speed of the machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

from rich.console import Console
from rich.table import Table

_PREPARE = """
import time
import numpy as np
import oahu
def cpu_seconds(call):
    start = time.process_time()
    call()
    return time.process_time() - start
triplets = np.random.default_rng(0).standard_normal((32, 3, 20)).astype(np.float32)
import_numba = cpu_seconds(lambda: __import__("numba"))
"""

_FIRST_CALLS = {
    "OAHU.partial_fit": """
learner = oahu.OAHU(random_state=0)
print(import_numba, cpu_seconds(lambda: learner.partial_fit(triplets)))
""",
    "Retriever: add and search (EuclideanMetric)": """
retriever = oahu.Retriever(oahu.EuclideanMetric(20))
def add_and_search():
    retriever.add(range(96), triplets.reshape(-1, 20))
    retriever.search(triplets[0, 0], k=3)
print(import_numba, cpu_seconds(add_and_search))
""",
    "Retriever: add and search (OAHU's metric)": """
retriever = oahu.Retriever(oahu.OAHU(random_state=0).initialize(20).metric())
def add_and_search():
    retriever.add(range(96), triplets.reshape(-1, 20))
    retriever.search(triplets[0, 0], k=3)
print(import_numba, cpu_seconds(add_and_search))
""",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3, help="new processes per figure; the table shows medians")
    repeats = parser.parse_args().repeats
    table = Table(title="CPU seconds of the first call")
    table.add_column("first call")
    for heading in ("empty cache", "filled cache", "import numba", "empty cache / import numba"):
        table.add_column(heading, justify="right")
    for name, script in _FIRST_CALLS.items():
        empty, filled, imports = [], [], []
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as cache:
                for seconds in (empty, filled):
                    import_numba, first_call = run(script, cache)
                    imports.append(import_numba)
                    seconds.append(first_call)
        compiling, loading, importing = (statistics.median(seconds) for seconds in (empty, filled, imports))
        table.add_row(
            name, f"{compiling:.2f}", f"{loading:.2f}", f"{importing:.2f}", f"{compiling / importing:.1f}"
        )
    Console(width=112).print(table)


def run(script: str, cache: str) -> tuple[float, float]:
    """Run a first call in a new process; return the CPU seconds of importing numba and of the call."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    environment = os.environ | one_thread | {"NUMBA_CACHE_DIR": cache}
    command = [sys.executable, "-c", _PREPARE + script]
    output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    import_numba, first_call = map(float, output.split())
    return import_numba, first_call


if __name__ == "__main__":
    main()
