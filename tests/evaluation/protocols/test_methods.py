"""The rows of a comparison: however they are named, what they are fed, and what is tried with them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oahu
from oahu.evaluation.protocols import GRIDS, PAPER_METHODS, Method, as_method, as_methods
from oahu.exceptions import InvalidInputError, InvalidTypeError

every_learner = pytest.mark.parametrize("name", oahu.LEARNERS)

FEEDS = {
    "OAHU": "triplets", "LEGO": "pairs", "RDML": "pairs", "OASIS": "triplets", "OPML": "labels", "POLA": "pairs",
    "SOML": "triplets", "SORS": "triplets", "AdaSORS": "triplets", "Euclidean": "nothing", "Cosine": "nothing",
    "AnchoredOAHU": "triplets",
}  # fmt: skip

# -- names -----------------------------------------------------------------------------------------------


@every_learner
@pytest.mark.parametrize("case", [str, str.lower, str.upper])
def test_a_learner_is_found_in_any_case(name: str, case: Any) -> None:
    method = as_method(case(name))
    assert method.name == name
    assert type(method.learner) is getattr(oahu, name)


@every_learner
def test_every_learner_has_its_feed(name: str) -> None:
    assert as_method(name).feed == FEEDS[name]


def test_a_metric_learns_nothing() -> None:
    assert as_method(oahu.EuclideanMetric(3)).feed == "nothing"


def test_opml_goes_on_where_its_step_has_no_minimiser() -> None:
    assert as_method("OPML").learner.too_long == "skip"  # type: ignore[union-attr]


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with a class, a learner, a metric, and something else."""
    (tmp_path / "theirs_to_import.py").write_text(
        "import oahu\n"
        "class Mine(oahu.OASIS): pass\n"
        "tuned = oahu.OAHU(tau=0.3)\n"
        "fixed = oahu.CosineMetric(3)\n"
        "number = 7\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return "theirs_to_import"


@pytest.mark.parametrize(
    ("attribute", "kind", "feed"),
    [("Mine", "Mine", "triplets"), ("tuned", "OAHU", "triplets"), ("fixed", "CosineMetric", "nothing")],
)
def test_what_can_be_imported_is_a_method(importable: str, attribute: str, kind: str, feed: str) -> None:
    method = as_method(f"{importable}:{attribute}")
    assert method.name == attribute
    assert type(method.learner or method.metric).__name__ == kind
    assert method.feed == feed


def test_parameters_of_what_is_imported_stay(importable: str) -> None:
    assert as_method(f"{importable}:tuned").learner.tau == 0.3  # type: ignore[union-attr]


@pytest.mark.parametrize("given", ["no_such_module:Mine", "theirs_to_import:Missing"])
def test_what_cannot_be_imported_is_said(importable: str, given: str) -> None:
    with pytest.raises(InvalidInputError, match=f"The method '{given}' cannot be imported .*(No module|Missing)"):
        as_method(given)


def test_what_is_imported_must_be_a_method(importable: str) -> None:
    with pytest.raises(InvalidTypeError, match=r"must be a learner, a metric.*Got int instead"):
        as_method(f"{importable}:number")


@pytest.mark.parametrize("what", ["learner", "metric"])
def test_a_model_file_is_measured_as_it_is(tmp_path: Path, what: str) -> None:
    rng = np.random.default_rng(0)
    learner = oahu.LEGO().partial_fit(rng.normal(size=(30, 2, 3)), rng.choice([-1, 1], 30))
    (learner if what == "learner" else learner.metric()).save(tmp_path / "mine.oahu")
    method = as_method(str(tmp_path / "mine.oahu"))
    assert (method.name, method.feed) == ("mine", "nothing")
    a, b = rng.normal(size=(2, 5, 3))
    assert method.metric is not None
    np.testing.assert_array_equal(method.metric.score(a, b), learner.metric().score(a, b))


def test_an_unknown_name_is_told_those_there_are() -> None:
    with pytest.raises(InvalidInputError, match=r"no method 'LMNN'.*OAHU, LEGO.*module:Name, or a model file"):
        as_method("LMNN")


@pytest.mark.parametrize("given", [7, None, ("name", "OAHU"), ("too", "many", "parts")])
def test_what_is_no_method_is_refused(given: Any) -> None:
    with pytest.raises(InvalidTypeError, match="A method must be a learner, a metric"):
        as_method(given)


# -- objects ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "thing", [oahu.OAHU(), oahu.OAHU, oahu.CosineMetric(2)], ids=["learner", "class", "metric"]
)
def test_a_row_can_be_named(thing: Any) -> None:
    assert as_method(("mine", thing)).name == "mine"


def test_a_method_stays_itself() -> None:
    method = Method("x", learner=oahu.OAHU())
    assert as_method(method) is method


def test_the_rows_by_default_are_those_of_the_paper_and_its_related_work() -> None:
    names = [method.name for method in as_methods(None)]
    assert names == list(PAPER_METHODS)
    assert set(names) <= set(oahu.LEARNERS)


@pytest.mark.parametrize(
    "twice", [["OAHU", "oahu"], [oahu.OAHU(), oahu.OAHU(tau=0.2)], ["LEGO", ("LEGO", oahu.RDML())]]
)
def test_two_rows_of_one_name_are_refused_with_the_way_out(twice: list[Any]) -> None:
    with pytest.raises(InvalidInputError, match=r"Two methods are named '(OAHU|LEGO)': pass \(name, learner\)"):
        as_methods(twice)


# -- building --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("random_state", [None, 3, np.random.default_rng(4)], ids=["none", "int", "generator"])
def test_a_learner_that_was_passed_is_never_changed(random_state: Any) -> None:
    rng = np.random.default_rng(1)
    learner = oahu.OAHU(n_layers=1, hidden_size=3, embedding_size=2, random_state=random_state)
    learner.partial_fit(rng.normal(size=(20, 3, 4)))
    before, state = learner.metric(), copy.deepcopy(random_state)
    built = as_method(learner).build({"tau": 0.4}, rng)
    built.partial_fit(rng.normal(size=(20, 3, 4)))
    assert learner.tau != 0.4
    assert learner.random_state is random_state
    if isinstance(random_state, np.random.Generator):
        assert random_state.bit_generator.state == state.bit_generator.state
    items = rng.normal(size=(5, 4))
    assert learner.n_seen_ == 20
    np.testing.assert_array_equal(learner.transform(items), before.transform(items))


def test_what_is_built_has_seen_nothing_and_has_its_own_seed() -> None:
    learner = oahu.OAHU(n_layers=1, random_state=5).partial_fit(np.random.default_rng(1).normal(size=(20, 3, 4)))
    method = as_method(learner)
    seeds = {method.build({}, np.random.default_rng(seed)).random_state for seed in (0, 0, 1)}
    assert len(seeds) == 2
    assert not hasattr(method.build({}, np.random.default_rng(0)), "n_features_in_")


# -- descriptions ----------------------------------------------------------------------------------------

DIFFERENT = [
    oahu.OAHU(), oahu.OAHU(tau=0.2), oahu.OAHU(tau=0.3), oahu.OAHU(beta=0.2), oahu.OAHU(hedge="log_beta"),
    oahu.LEGO(), oahu.LEGO(percentiles=(1, 99)), oahu.LEGO(bounds=(0.5, 1.5)), oahu.RDML(), oahu.RDML(mode="ray"),
    oahu.SORS(), oahu.AdaSORS(), oahu.EuclideanMetric(3), oahu.EuclideanMetric(4), oahu.CosineMetric(3),
]  # fmt: skip


def test_different_methods_of_one_name_are_told_apart() -> None:
    described = [as_method(("mine", thing)).described for thing in DIFFERENT]
    assert all(one not in described[:i] for i, one in enumerate(described))


def test_learned_metrics_are_told_apart() -> None:
    def learned(seed: int) -> dict[str, Any]:
        triplets = np.random.default_rng(seed).normal(size=(10, 3, 4))
        return as_method(oahu.OASIS(random_state=0).partial_fit(triplets).metric()).described

    assert learned(0) == learned(0)
    assert learned(0) != learned(1)


@pytest.mark.parametrize(
    "given", [{"random_state": 3}, {"preprocessor": np.eye(3)}, {"n_constraints": 7}, {"tau": 0.1}]
)
def test_what_does_not_matter_is_not_described(given: dict[str, Any]) -> None:
    """A protocol sets the first three; and a default is a default also if it is said."""
    assert as_method(oahu.OAHU(**given)).described == as_method(oahu.OAHU()).described


# -- candidates ------------------------------------------------------------------------------------------


def test_candidates_are_every_combination_of_the_grid() -> None:
    method = Method("x", learner=oahu.SOML(), grid={"learning_rate": (0.1, 1.0), "sparsity": (0, 1e-4, 1e-2)})
    expected = [
        {"learning_rate": rate, "sparsity": sparsity} for rate in (0.1, 1.0) for sparsity in (0, 1e-4, 1e-2)
    ]
    assert method.candidates == expected


def test_what_has_no_grid_has_one_candidate() -> None:
    assert as_method("Euclidean").candidates == as_method(oahu.CosineMetric(2)).candidates == [{}]


@pytest.mark.parametrize("name", GRIDS)
def test_every_candidate_can_be_learned_with(name: str) -> None:
    method = as_method(name)
    assert [list(params) for params in method.candidates] == [list(GRIDS[name])] * len(method.candidates)
    for params in method.candidates:
        method.build(params, np.random.default_rng(0)).initialize(3)  # which checks parameters


@pytest.mark.parametrize("name", GRIDS)
def test_a_grid_has_more_than_one_choice_of_each(name: str) -> None:
    assert all(len(set(values)) == len(values) > 1 for values in GRIDS[name].values())


@pytest.mark.parametrize("given", ["OAHU", oahu.OAHU(), oahu.OAHU, ("mine", oahu.OAHU(beta=0.9)), "oahu:OAHU"])
def test_a_learner_has_its_grid_however_it_is_given(given: Any) -> None:
    assert as_method(given).grid == GRIDS["OAHU"]
