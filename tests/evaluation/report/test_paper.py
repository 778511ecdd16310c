"""Tests of the numbers of the paper against statements in its text."""

from __future__ import annotations

import pytest

from oahu.evaluation.report import paper
from oahu.learners import OAHU

PLACES = [(dataset, method) for dataset, rows in paper.CLASSIFICATION.items() for method in rows]


def test_three_data_sets_and_five_methods() -> None:
    assert set(paper.CLASSIFICATION) == {"fashion-mnist", "emnist-balanced", "cifar10-gray"}
    assert all(set(rows) == {"OAHU", "LEGO", "RDML", "OASIS", "OPML"} for rows in paper.CLASSIFICATION.values())


def test_oahu_has_full_utilization() -> None:
    assert {rows["OAHU"].utilization for rows in paper.CLASSIFICATION.values()} == {paper.PrintedScore(1.0, 0.0)}


@pytest.mark.parametrize("dataset", paper.CLASSIFICATION)
def test_oahu_is_best_in_the_paper(dataset: str) -> None:
    rows = paper.CLASSIFICATION[dataset]
    assert min(rows, key=lambda method: rows[method].error_rate.mean) == "OAHU"
    assert max(rows, key=lambda method: rows[method].macro_f1.mean) == "OAHU"


@pytest.mark.parametrize(("dataset", "method"), PLACES)
def test_error_and_f1_add_up_to_about_one(dataset: str, method: str) -> None:
    row = paper.CLASSIFICATION[dataset][method]
    assert row.error_rate.mean + row.macro_f1.mean == pytest.approx(1.0, abs=0.08)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (("fashion-mnist", "OASIS", "error_rate"), "0.21 ± 0.02"),
        (("emnist-balanced", "RDML", "macro_f1"), "0.32 ± 0.05"),
        (("cifar10-gray", "OPML", "utilization"), "0.48 ± 0.04"),
        (("cifar10-gray", "LEGO", "error_rate"), "0.88 ± 0.00"),
    ],
)
def test_printed_numbers(place: tuple[str, str, str], expected: str) -> None:
    assert str(paper.printed(*place)) == expected


@pytest.mark.parametrize(
    "place",
    [("digits", "OAHU", "error_rate"), ("fashion-mnist", "POLA", "error_rate"), ("fashion-mnist", "OAHU", "auc")],
)
def test_missing_numbers_are_none(place: tuple[str, str, str]) -> None:
    assert paper.printed(*place) is None


def test_defaults_of_oahu_match_the_paper() -> None:
    ours = OAHU().get_params()
    stated = {name: value for name, value in paper.DEFAULTS.items() if name != "tau"}
    assert {name: ours[name] for name in stated} == stated


def test_notes_on_numbers_that_are_not_printed() -> None:
    assert set(paper.PAPER_NOTES) == {"constraints", "verification", "retrieval", "sensitivity", "regret"}


def test_tables_are_read_only() -> None:
    with pytest.raises(TypeError):
        paper.CLASSIFICATION["fashion-mnist"]["OAHU"] = None  # type: ignore[index]
