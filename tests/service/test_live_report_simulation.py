"""A short form of benchmarks/live_report.py: the interval of the report contains the true improvement."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "live_report.py"

pytestmark = [pytest.mark.slow, pytest.mark.server]


@pytest.fixture(scope="module")
def simulation() -> Iterator[Any]:
    """The module of the simulation."""
    spec = util.spec_from_file_location("live_report", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules["live_report"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["live_report"]


@pytest.fixture(scope="module")
def server(simulation: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with simulation.server(tmp_path_factory.mktemp("data")) as (app, url):
        yield app, url


@pytest.mark.parametrize(("noise", "one_sided"), [(0.0, True), (0.05, False), (0.2, False)])
def test_the_report_agrees_with_the_true_improvement(
    simulation: Any, server: Any, noise: float, one_sided: bool
) -> None:
    data = simulation.sample_data("tiles:colour", 200, np.random.default_rng(0))
    run = simulation.coverage_run(*server, data, 0, noise=noise, one_sided=one_sided, n_measured=40)
    width = run.high - run.low
    assert run.low - width / 2 <= run.expected <= run.high + width / 2  # a 99.99 % interval: the seeds vary
    assert run.true > 0.1
    assert run.low > 0
    assert run.factor == 1


def test_a_report_on_harmful_learning_agrees_with_the_truth(simulation: Any, server: Any) -> None:
    data = simulation.sample_data("tiles:colour", 200, np.random.default_rng(1))
    run = simulation.coverage_run(*server, data, 1, harmful=True, n_measured=40)
    width = run.high - run.low
    assert run.low - width / 2 <= run.expected <= run.high + width / 2
    assert run.estimate < 0.1
