"""Run the property tests repeatedly with random seeds, and print how to reproduce a failure.

python tools/fuzz.py --minutes 60
python tools/fuzz.py --seed 123 tests/index/test_exact.py
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import subprocess
import sys
import time

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+(?:\[.*\])?)", re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="start no new round after this time")
    parser.add_argument("--seed", type=int, help="run one round with this seed")
    parser.add_argument("--processes", default="auto", help="number of processes, or 'auto'")
    parser.add_argument("tests", nargs="*", help="files or tests; all property tests if none are given")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    failures: dict[str, int] = {}
    rounds = 0
    while True:
        seed = secrets.randbelow(2**32) if options.seed is None else options.seed
        for test in run_round(seed, options.processes, options.tests):
            failures.setdefault(test, seed)
        rounds += 1
        if options.seed is not None or time.monotonic() > end:
            break
    print(f"{rounds} rounds, {len(failures)} failing tests.")
    for test, seed in failures.items():
        print(f"Reproduce: make fuzz SEED={seed} TESTS='{test}'")
    if failures:
        print("Add each failing input to its test as an @example, then fix the cause.")
    return 1 if failures else 0


def run_round(seed: int, processes: str, tests: list[str]) -> list[str]:
    """Run the property tests once; return the names of those that failed."""
    print(f"Seed {seed} ...", flush=True)
    command = [sys.executable, "-m", "pytest", "-m", "hypothesis", f"--hypothesis-seed={seed}", *tests]
    command += ["--numprocesses", processes, "--dist", "worksteal", "--override-ini", "verbosity_test_cases=0"]
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "fuzz"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        print(done.stdout)
    return _FAILED.findall(done.stdout) or (["the whole round"] if done.returncode else [])


if __name__ == "__main__":
    sys.exit(main())
