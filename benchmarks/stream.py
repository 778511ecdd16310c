"""Benchmark of `oahu train` on a long stream: memory is bounded, and interruptions do not change the model.

    make bench-stream        (or: python benchmarks/stream.py [--lines 1000000] [--learner OAHU])

A generator writes JSON lines to a pipe. One run is not interrupted. Another is stopped several times by SIGINT and
SIGKILL and restarted with the same command. The two model files must be the same, byte for byte.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits

console = Console(width=112)

GENERATE = """
import sys
n, items, seed = map(int, sys.argv[1:])
state = seed
for _ in range(n):
    row = []
    for _ in range(3):
        state = (6364136223846793005 * state + 1442695040888963407) % 2**64
        row.append((state >> 33) % items)
    sys.stdout.write('{"anchor": %d, "positive": %d, "negative": %d}\\n' % tuple(row))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--learner", default="OAHU")
    parser.add_argument("--stops", type=int, default=6, help="Number of times the second run is stopped.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        np.save("digits.npy", (load_digits().data / 16).astype(np.float32))
        table = Table(title="\noahu train, JSON lines from a pipe", title_style="bold", title_justify="left")
        for name in ("run", "lines", "seconds", "lines per second", "peak memory, MiB"):
            table.add_column(name, justify="left" if name == "run" else "right")
        for lines in (options.lines // 100, options.lines):
            Path("whole").unlink(missing_ok=True)
            start = time.monotonic()
            _, peak = run("whole", lines, options.learner)
            seconds = time.monotonic() - start
            table.add_row("uninterrupted", f"{lines:,}", f"{seconds:.1f}", f"{lines / seconds:,.0f}", f"{peak:.0f}")
        console.print(table)
        stops = run_with_stops(options, seconds)
        console.print(f"\nThe second run was stopped {len(stops)} times: {', '.join(stops)}.", highlight=False)
        same = Path("whole").read_bytes() == Path("stopped").read_bytes()
        console.print(f"The two model files are {'the same' if same else 'DIFFERENT'}, byte for byte.\n")
        sys.exit(not same)


Stop = tuple[signal.Signals, float]


def run(model: str, lines: int, learner: str, stop: Stop | None = None) -> tuple[int, float]:
    """Train, optionally until a signal after some seconds; return the exit code and the peak memory in MiB."""
    generator = subprocess.Popen(
        [sys.executable, "-c", GENERATE, str(lines), "1797", "1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    command = [sys.executable, "-m", "oahu", "train", "--features", "digits.npy", "--constraints", "-", "--model"]
    process = subprocess.Popen(
        [*command, model, "--learner", learner, "--save-every", "1"],
        stdin=generator.stdout,
        stderr=subprocess.DEVNULL if stop else None,
    )
    if stop:
        time.sleep(stop[1])
        os.kill(process.pid, stop[0])
    _, status, usage = os.wait4(process.pid, 0)
    generator.kill()
    generator.wait()
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss / 1024


def run_with_stops(options: argparse.Namespace, seconds: float) -> list[str]:
    """Stop runs by SIGINT and SIGKILL in turn, then run to the end; return the stops."""
    rng, stops = random.Random(0), []
    for k in range(options.stops):
        number = (signal.SIGINT, signal.SIGKILL)[k % 2]
        code, _ = run("stopped", options.lines, options.learner, (number, 3 + rng.uniform(0.05, 0.25) * seconds))
        stops.append(f"{number.name} (exit code {code})")
    code, _ = run("stopped", options.lines, options.learner)
    if code:
        sys.exit(f"the last run ended with exit code {code}")
    return stops


if __name__ == "__main__":
    main()
