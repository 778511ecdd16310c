"""Compiled code on disk: used again, and never for other sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import oahu

SCRIPT = """
import numpy as np
from oahu import OAHU
learner = OAHU(n_layers=1, hidden_size=2, embedding_size=2, random_state=0)
learner.partial_fit(np.random.default_rng(0).standard_normal((5, 3, 2)))
from oahu.learners.oahu.triplet_step import learn
print(sum(learn.stats.cache_hits.values()), learner.loss_history_[0, 0])
"""


def test_an_edited_formula_is_compiled_anew_and_an_unchanged_one_is_not(tmp_path: Path) -> None:
    package = tmp_path / "oahu"
    shutil.copytree(Path(oahu.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def run() -> tuple[int, float]:
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path)
        hits, loss = done.stdout.split()
        return int(hits), float(loss)

    hits, loss = run()
    assert hits == 0
    assert run() == (1, loss)
    formulas = package / "learners" / "oahu" / "loss.py"
    formulas.write_text(formulas.read_text().replace("return 0.5 * (attraction", "return 0.25 * (attraction"))
    assert run() == (0, loss / 2)
