"""Tests of methods: names, imports, what they learn from, and the candidates of tuning."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oahu
from oahu.evaluation.protocols import DEFAULT_METHODS, GRIDS, Method, as_method, as_methods
from oahu.evaluation.protocols.methods import reference_method
from oahu.exceptions import InvalidInputError, InvalidTypeError

every_learner = pytest.mark.parametrize("name", oahu.LEARNERS)

LEARNS_FROM = {
    "OAHU": "triplets", "LEGO": "pairs", "RDML": "pairs", "OASIS": "triplets", "OPML": "labels", "POLA": "pairs",
    "SOML": "triplets", "SORS": "triplets", "AdaSORS": "triplets", "Euclidean": "nothing", "Cosine": "nothing",
    "AnchoredOAHU": "triplets",
}  # fmt: skip

# -- names -----------------------------------------------------------------------------------------------


@every_learner
def test_learner_names_ignore_case(name: str) -> None:
    method = as_method(name)
    assert as_method(name.lower()).name == as_method(name.upper()).name == method.name == name
    assert type(method.learner) is getattr(oahu, name)


@every_learner
def test_learns_from(name: str) -> None:
    assert as_method(name).learns_from == LEARNS_FROM[name]


def test_metric_learns_from_nothing() -> None:
    assert as_method(oahu.EuclideanMetric(3)).learns_from == "nothing"


def test_opml_skips_triplets_that_are_too_long() -> None:
    assert as_method("OPML").learner.too_long == "skip"  # type: ignore[union-attr]


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a module with a learner class, a learner, a metric and a number."""
    (tmp_path / "importable_module.py").write_text(
        "import oahu\n"
        "class Mine(oahu.OASIS): pass\n"
        "tuned = oahu.OAHU(tau=0.3)\n"
        "fixed = oahu.CosineMetric(3)\n"
        "number = 7\n"
        "class Incomplete(oahu.TripletLearner):\n"
        "    def initial_arrays(self, n_features, dtype, rng): return {}\n"
        "class DuckTyped:\n"
        "    def partial_fit(self, X, y=None): return self\n"
        "    def metric(self): return oahu.EuclideanMetric(3)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return "importable_module"


@pytest.mark.parametrize(
    ("attribute", "kind", "learns_from"),
    [("Mine", "Mine", "triplets"), ("tuned", "OAHU", "triplets"), ("fixed", "CosineMetric", "nothing")],
)
def test_imported_object_becomes_a_method(importable: str, attribute: str, kind: str, learns_from: str) -> None:
    method = as_method(f"{importable}:{attribute}")
    assert method.name == attribute
    assert type(method.learner or method.metric).__name__ == kind
    assert method.learns_from == learns_from


def test_imported_learner_has_its_parameters(importable: str) -> None:
    assert as_method(f"{importable}:tuned").learner.tau == 0.3  # type: ignore[union-attr]


@pytest.mark.parametrize("given", ["no_such_module:Mine", "importable_module:Missing"])
def test_import_error_names_the_problem(importable: str, given: str) -> None:
    with pytest.raises(InvalidInputError, match=f"The method '{given}' cannot be imported .*(No module|Missing)"):
        as_method(given)


def test_imported_number_is_rejected(importable: str) -> None:
    with pytest.raises(InvalidTypeError, match=r"must be a learner .*Got int instead"):
        as_method(f"{importable}:number")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Incomplete", "Incomplete does not implement build_metric, learn_triplets"),
        ("DuckTyped", r"a subclass of oahu.TripletLearner or oahu.PairLearner.* It has no fit, learn_one, score"),
    ],
)
def test_error_names_the_missing_methods_of_a_learner(importable: str, name: str, message: str) -> None:
    with pytest.raises(InvalidTypeError, match=f"The method '{importable}:{name}' cannot be used.*{message}"):
        as_method(f"{importable}:{name}")


@pytest.mark.parametrize("saved", ["learner", "metric"])
def test_model_file_becomes_its_metric(tmp_path: Path, saved: str) -> None:
    rng = np.random.default_rng(0)
    learner = oahu.LEGO().partial_fit(rng.normal(size=(30, 2, 3)), rng.choice([-1, 1], 30))
    (learner if saved == "learner" else learner.metric()).save(tmp_path / "mine.oahu")
    method = as_method(str(tmp_path / "mine.oahu"))
    assert (method.name, method.learns_from) == ("mine", "nothing")
    a, b = rng.normal(size=(2, 5, 3))
    assert method.metric is not None
    np.testing.assert_array_equal(method.metric.score(a, b), learner.metric().score(a, b))


def test_unknown_name_lists_the_learners() -> None:
    with pytest.raises(InvalidInputError, match=r"no method 'LMNN'.*OAHU, LEGO.*module:Name, or a model file"):
        as_method("LMNN")


@pytest.mark.parametrize("given", [7, None, ("name", "OAHU"), ("too", "many", "parts")])
def test_other_objects_are_rejected(given: Any) -> None:
    with pytest.raises(InvalidTypeError, match="A method must be a learner"):
        as_method(given)


# -- objects ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "thing", [oahu.OAHU(), oahu.OAHU, oahu.CosineMetric(2)], ids=["learner", "class", "metric"]
)
def test_method_can_be_named(thing: Any) -> None:
    assert as_method(("mine", thing)).name == "mine"


def test_method_is_returned_unchanged() -> None:
    method = Method("x", learner=oahu.OAHU())
    assert as_method(method) is method


def test_default_methods_start_with_the_recommended_learner() -> None:
    names = [method.name for method in as_methods(None)]
    assert names == list(DEFAULT_METHODS)
    assert names[0] == "AnchoredOAHU"
    assert set(names) <= set(oahu.LEARNERS)


@pytest.mark.parametrize(
    "twice", [["OAHU", "oahu"], [oahu.OAHU(), oahu.OAHU(tau=0.2)], ["LEGO", ("LEGO", oahu.RDML())]]
)
def test_duplicate_names_are_rejected(twice: list[Any]) -> None:
    with pytest.raises(InvalidInputError, match=r"Two methods are named '(OAHU|LEGO)'\. Pass \(name, learner\)"):
        as_methods(twice)


# -- building --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("random_state", [None, 3, np.random.default_rng(4)], ids=["none", "int", "generator"])
def test_build_does_not_modify_the_given_learner(random_state: Any) -> None:
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


def test_built_learner_is_unfitted_and_has_its_own_seed() -> None:
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


def test_different_methods_have_different_descriptions() -> None:
    described = [as_method(("mine", thing)).identity for thing in DIFFERENT]
    assert all(one not in described[:i] for i, one in enumerate(described))


def test_different_metrics_have_different_descriptions() -> None:
    def learned(seed: int) -> dict[str, Any]:
        triplets = np.random.default_rng(seed).normal(size=(10, 3, 4))
        return as_method(oahu.OASIS(random_state=0).partial_fit(triplets).metric()).identity

    assert learned(0) == learned(0)
    assert learned(0) != learned(1)


@pytest.mark.parametrize(
    "given", [{"random_state": 3}, {"preprocessor": np.eye(3)}, {"n_constraints": 7}, {"tau": 0.1}]
)
def test_description_omits_defaults_and_parameters_set_by_the_protocol(given: dict[str, Any]) -> None:
    """A protocol sets the first three; the last is a default."""
    assert as_method(oahu.OAHU(**given)).identity == as_method(oahu.OAHU()).identity


# -- candidates ------------------------------------------------------------------------------------------


def test_candidates_are_all_combinations_of_the_grid() -> None:
    method = Method("x", learner=oahu.SOML(), grid={"learning_rate": (0.1, 1.0), "sparsity": (0, 1e-4, 1e-2)})
    expected = [
        {"learning_rate": rate, "sparsity": sparsity} for rate in (0.1, 1.0) for sparsity in (0, 1e-4, 1e-2)
    ]
    assert method.candidates == expected


def test_method_without_grid_has_one_candidate() -> None:
    assert as_method("Euclidean").candidates == as_method(oahu.CosineMetric(2)).candidates == [{}]


@pytest.mark.parametrize("name", GRIDS)
def test_every_candidate_is_valid(name: str) -> None:
    method = as_method(name)
    assert [list(params) for params in method.candidates] == [list(GRIDS[name])] * len(method.candidates)
    for params in method.candidates:
        method.build(params, np.random.default_rng(0)).initialize(3)  # validates the parameters


@pytest.mark.parametrize("name", GRIDS)
def test_grids_have_several_distinct_values(name: str) -> None:
    assert all(len(set(values)) == len(values) > 1 for values in GRIDS[name].values())


@pytest.mark.parametrize("given", ["OAHU", oahu.OAHU(), oahu.OAHU, ("mine", oahu.OAHU(beta=0.9)), "oahu:OAHU"])
def test_learner_has_its_grid_in_every_form(given: Any) -> None:
    assert as_method(given).grid == GRIDS["OAHU"]


# -- the reference ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("methods", "given", "expected"),
    [
        (["Euclidean", "OAHU", "AnchoredOAHU"], None, "AnchoredOAHU"),
        (["Euclidean", "LEGO", "OAHU"], None, "OAHU"),
        ([("mine", oahu.OAHU())], None, "mine"),
        (["OAHU", "LEGO"], "lego", "LEGO"),
    ],
)
def test_reference_is_the_given_or_the_recommended_method(
    methods: list[Any], given: str | None, expected: str
) -> None:
    assert reference_method(as_methods(methods), given) == expected


def test_unknown_reference_is_rejected() -> None:
    with pytest.raises(
        InvalidInputError, match=r"The reference method must be one of OAHU, LEGO\. Got 'RDML' instead"
    ):
        reference_method(as_methods(["OAHU", "LEGO"]), "RDML")
