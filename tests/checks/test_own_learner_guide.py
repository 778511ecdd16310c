"""The code of docs/guides/own-learner.md runs as it is written."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import oahu
from oahu.evaluation.protocols import as_method
from oahu.io.class_registry import REGISTRY

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "own-learner.md"
LEARNER, USAGE = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of diagonal.py, which is the current folder and can be imported from."""
    (tmp_path / "diagonal.py").write_text(LEARNER, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    forget()


def forget() -> None:
    """Make the module and its class unknown again."""
    sys.modules.pop("diagonal", None)
    REGISTRY._registered.pop("diagonal:Diagonal", None)


def test_the_learner_has_about_25_lines() -> None:
    assert len(LEARNER.strip().splitlines()) <= 27


def test_the_guide_runs(module: Path) -> None:
    exec(compile(USAGE, str(GUIDE), "exec"), {})


def test_the_benchmark_finds_the_learner(module: Path) -> None:
    method = as_method("diagonal:Diagonal")
    assert (method.name, method.learns_from) == ("Diagonal", "triplets")


def test_a_file_does_not_import_a_module(module: Path) -> None:
    save_diagonal()
    forget()
    with pytest.raises(
        oahu.ModelFileError, match=r"import diagonal before loading, or pass allow=\['diagonal:Diagonal'\]"
    ):
        oahu.load("model")
    assert "diagonal" not in sys.modules


def test_a_class_that_the_caller_allows_is_imported(module: Path) -> None:
    save_diagonal()
    forget()
    loaded = oahu.load("model", oahu.TripletLearner, allow=["diagonal:Diagonal"])
    assert (type(loaded).__name__, loaded.n_seen_) == ("Diagonal", 4)


def test_a_class_that_an_installed_package_declares_is_imported(module: Path) -> None:
    installed = module / "diagonal-1.0.dist-info"  # what pip writes when it installs a package
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: diagonal\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[oahu.learners]\ndiagonal = diagonal:Diagonal\n")
    save_diagonal()
    forget()
    assert type(oahu.load("model")).__name__ == "Diagonal"


def test_a_class_of_another_kind_is_an_error(module: Path) -> None:
    save_diagonal()
    with pytest.raises(oahu.ModelFileError, match="it contains a Diagonal, not a LEGO"):
        oahu.load("model", oahu.LEGO)


def save_diagonal() -> None:
    from diagonal import Diagonal

    Diagonal().partial_fit(np.random.default_rng(0).normal(size=(4, 3, 2))).save("model")
