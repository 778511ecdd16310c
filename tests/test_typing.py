"""mypy reports misspelled names of the public API: nothing public has the type Any by accident."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from mypy import api

SOURCE = Path(__file__).parents[1] / "src"

#: Lines that must pass, and lines with a mistake that mypy must report.
SNIPPET = """
import numpy as np
import oahu
from oahu import learners

X = np.zeros((4, 3, 2))
oahu.AnchoredOAHU().partial_fit(X).metric().transform(X[0])
oahu.OAHU().fit(X).metric().embed(X[0])
oahu.load("model", oahu.OAHU).partial_fit(X)
oahu.AnchoredOAHU().metric().trnsform(X[0])  # error
oahu.OAHU().metric().n_expert  # error
oahu.LEGO().metric().transfrm(X[0])  # error
oahu.OASIS().metric().nearest_distances()  # error
oahu.Cosine().metric().sore(X, X)  # error
oahu.OAHU().partial_fti(X)  # error
oahu.AnchoredOAHU().learn_on(*X[0])  # error
oahu.AnchoredOHAU()  # error
oahu.laod("model")  # error
learners.OAHUU()  # error
oahu.load("model", oahu.OAHU).partial_fitt(X)  # error
oahu.load("model").savee("model")  # error
"""


def test_mypy_reports_every_misspelled_name(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    file = tmp_path / "snippet.py"
    file.write_text(SNIPPET)
    config = tmp_path / "mypy.ini"
    config.write_text(f"[mypy]\nmypy_path = {SOURCE}\nfollow_imports = silent\nignore_missing_imports = True\n")
    cache = tmp_path if pytestconfig.cache is None else pytestconfig.cache.mkdir("mypy")  # later runs are fast
    arguments = ["--config-file", str(config), "--cache-dir", str(cache), "--python-executable", sys.executable]
    report, problems, _ = api.run([*arguments, str(file)])
    assert not problems
    # A cached report has the path of the run that wrote the cache, so that only the name of the file is compared.
    reported = {int(number) for number in re.findall(r"^.*snippet\.py:(\d+): error", report, re.MULTILINE)}
    expected = {n for n, line in enumerate(SNIPPET.splitlines(), 1) if line.endswith("# error")}
    assert reported == expected, report
