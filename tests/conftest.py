"""What every test shares: Hypothesis profiles and the line about tests that did not run."""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import HealthCheck, settings

# One thread for the matrix products of torch and BLAS: each worker of `make test` has one core. The libraries read
# the variable when they are loaded, which is after this file.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# `make test` draws the same examples on every machine. `make fuzz` draws new ones, and many more.
settings.register_profile("test", deadline=None, derandomize=True, database=None, max_examples=30)
settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "2000")),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))

INSTALL = "sudo apt-get install --no-install-recommends chromium curl"


def pytest_runtest_setup() -> None:
    """Limit torch to one thread again: compiled searches share its thread pool and set another number."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line what was skipped, and what to install."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        reasons = sorted({str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped})
        terminalreporter.write_line(f"{len(skipped)} tests skipped ({'; '.join(reasons)}). To run them: {INSTALL}")
