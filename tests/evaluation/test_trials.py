"""Tests of results.json: round trips and ids."""

from __future__ import annotations

import json
from math import isnan, nan
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oahu.evaluation.trials import BenchmarkRecord, Outcome, Trial, package_versions, write_json
from oahu.exceptions import InvalidInputError

CELL = Trial("classification", "digits", "OAHU", 3, {"seed": 7, "params": {"tau": 0.1}, "tuned": False})
COMPLETE = Outcome(
    CELL, {"error_rate": 0.25}, {"weights": {"rounds": [1], "weights": [[1.0]]}}, {"learning": 1.5}, {"n": 4}
)
FAILED = Outcome(Trial("retrieval", "digits", "LEGO", 0), error="ValueError: no")
TUNING = Outcome(Trial("classification", "digits", "OAHU", 0, stage="tuning"), {"error_rate": 0.5})


def record(*outcomes: Outcome) -> BenchmarkRecord:
    return BenchmarkRecord(
        "oahu benchmark", "2026-01-02T03:04:05", 9.5, {"cores": 2}, {"digits": {"n_items": 10}}, outcomes
    )


def test_record_round_trip(tmp_path: Path) -> None:
    saved = record(COMPLETE, FAILED, TUNING)
    saved.save(tmp_path / "results.json")
    assert BenchmarkRecord.load(tmp_path / "results.json") == saved


def test_file_is_strict_json(tmp_path: Path) -> None:
    record(Outcome(CELL, {"utilization": nan})).save(tmp_path / "results.json")
    text = (tmp_path / "results.json").read_text()
    assert "NaN" not in text
    assert json.loads(text)["outcomes"][0]["scores"] == {"utilization": None}


def test_missing_score_is_loaded_as_nan(tmp_path: Path) -> None:
    record(Outcome(CELL, {"utilization": nan})).save(tmp_path / "results.json")
    assert isnan(BenchmarkRecord.load(tmp_path / "results.json").outcomes[0].scores["utilization"])


def test_curves_can_be_arrays(tmp_path: Path) -> None:
    record(Outcome(CELL, curves={"roc": {"far": np.array([0.0, 1.0])}})).save(tmp_path / "results.json")
    assert BenchmarkRecord.load(tmp_path / "results.json").outcomes[0].curves == {"roc": {"far": [0.0, 1.0]}}


def test_results_exclude_tuning_and_failures() -> None:
    saved = record(COMPLETE, FAILED, TUNING)
    assert list(saved.results("classification")) == [COMPLETE]
    assert list(saved.results("classification", "other")) == []
    assert list(saved.results("retrieval")) == []
    assert saved.failures == (FAILED,)


@given(st.permutations(["seed", "scaling", "k"]))
def test_id_does_not_depend_on_the_order_of_settings(names: list[str]) -> None:
    settings = dict.fromkeys(names, 1)
    assert Trial("p", "d", "m", 0, settings).id == Trial("p", "d", "m", 0, dict.fromkeys(sorted(names), 1)).id


@pytest.mark.parametrize(
    "other",
    [
        Trial("constraints", "digits", "OAHU", 3, CELL.settings),
        Trial("classification", "iris", "OAHU", 3, CELL.settings),
        Trial("classification", "digits", "LEGO", 3, CELL.settings),
        Trial("classification", "digits", "OAHU", 4, CELL.settings),
        Trial("classification", "digits", "OAHU", 3, {**CELL.settings, "seed": 8}),
        Trial("classification", "digits", "OAHU", 3, CELL.settings, "tuning"),
    ],
)
def test_different_trials_have_different_ids(other: Trial) -> None:
    assert other.id != CELL.id


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 1}', '{"format": 2}', '{"format": 1, "outcomes": [{}]}']
)
def test_other_files_are_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=r"results\.json"):
        BenchmarkRecord.load(path)


def test_failed_write_does_not_change_the_file(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, {"a": nan})
    assert json.loads(path.read_text()) == {"a": 1}


def test_versions_of_python_and_packages() -> None:
    found = package_versions(["numpy", "no-such-package"])
    assert set(found) == {"python", "numpy"}
    assert found["numpy"] == np.__version__
