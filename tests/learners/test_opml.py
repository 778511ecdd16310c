"""OPML against dense inverses and generic optimisers, and its labelled stream against a naive version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from oahu import OPML, InvalidInputError, RejectedConstraintError, load

Matrix = NDArray[np.float64]


def trained_learner(rng: np.random.Generator, d: int, **parameters: object) -> OPML:
    """Return a learner with a factor other than the identity."""
    learner = OPML(**({"gamma": 0.05, "dtype": "float64"} | parameters))
    return learner.partial_fit(0.5 * rng.standard_normal((6, 3, d)))


def slack(L: Matrix, triplet: Matrix) -> float:
    """Return 1 + ||L a||^2 - ||L b||^2, which is the loss if positive."""
    x, p, n = triplet
    return float(1 + np.sum((L @ (x - p)) ** 2) - np.sum((L @ (x - n)) ** 2))


def outer_difference(triplet: Matrix) -> Matrix:
    x, p, n = triplet
    return np.asarray(np.outer(x - p, x - p) - np.outer(x - n, x - n))


def triplet_for(learner: OPML, rng: np.random.Generator, share: float) -> Matrix:
    """Return a triplet with a loss and with gamma ||x - n||^2 equal to ``share``."""
    while True:
        triplet = rng.standard_normal((3, learner.n_features_in_))
        b = triplet[0] - triplet[2]
        triplet = triplet * np.sqrt(share / learner.gamma) / np.linalg.norm(b)
        triplet[1] = triplet[0] + (triplet[1] - triplet[0]) * rng.uniform(0.5, 1.5)
        if slack(learner.factor_, triplet) > 0:
            return np.asarray(triplet)


# -- one step ------------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(d=st.integers(1, 10), seed=st.integers(0, 2**32), gamma=st.floats(-4, 1).map(lambda e: 10.0**e))
def test_step_multiplies_by_the_dense_inverse(d: int, seed: int, gamma: float) -> None:
    rng = np.random.default_rng(seed)
    learner = trained_learner(rng, d).set_params(gamma=gamma)
    triplet = triplet_for(learner, rng, share=rng.uniform(0.01, 0.9))
    before = learner.factor_
    learner.learn_one(*triplet)
    expected = before @ np.linalg.inv(np.eye(d) + gamma * outer_difference(triplet))
    np.testing.assert_allclose(learner.factor_, expected, atol=1e-11 * np.linalg.norm(expected))


@pytest.mark.parametrize("gamma", [0.01, 0.1, 0.5])
def test_step_is_the_minimiser_of_the_stated_problem(gamma: float) -> None:
    """1/2 ||L' - L||^2 + gamma/2 (1 + ||L' a||^2 - ||L' b||^2), by BFGS."""
    rng = np.random.default_rng(0)
    for d in range(2, 7):
        learner = trained_learner(rng, d).set_params(gamma=gamma)
        triplet, before = triplet_for(learner, rng, share=0.6), learner.factor_
        difference = outer_difference(triplet)

        def objective(
            flat: NDArray[np.float64], before: Matrix = before, A: Matrix = difference, d: int = d
        ) -> tuple[float, NDArray[np.float64]]:
            L = flat.reshape(d, d)
            value = ((L - before) ** 2).sum() / 2 + gamma / 2 * (1 + np.trace(L @ A @ L.T))
            return float(value), (L - before + gamma * L @ A).ravel()

        found = minimize(objective, before.ravel(), jac=True, method="BFGS", options={"gtol": 1e-10})
        learner.learn_one(*triplet)
        np.testing.assert_allclose(learner.factor_, found.x.reshape(d, d), atol=1e-7)


def test_triplet_without_loss_changes_nothing() -> None:
    learner = OPML(0.1, dtype="float64").initialize(2).learn_one([0.0, 0.0], [0.1, 0.0], [0.0, 2.0])
    np.testing.assert_array_equal(learner.factor_, np.eye(2))
    assert (learner.n_seen_, learner.utilization_) == (1, 0.0)


def test_three_identical_points_change_nothing_and_are_not_used() -> None:
    learner = OPML(0.1).initialize(3).learn_one(np.ones(3), np.ones(3), np.ones(3))
    np.testing.assert_array_equal(learner.factor_, np.eye(3))
    assert learner.utilization_ == 0.0


@pytest.mark.parametrize("equal", [1, 2])
def test_a_triplet_with_a_repeated_anchor_learns_from_the_other_pair(equal: int) -> None:
    triplet = np.array([[0.0, 0.0], [0.3, 0.4], [0.3, -0.4]])
    triplet[equal] = triplet[0]
    learner = OPML(0.5, dtype="float64").initialize(2).learn_one(*triplet)
    expected = np.linalg.inv(np.eye(2) + 0.5 * outer_difference(triplet))
    np.testing.assert_allclose(learner.factor_, expected, atol=1e-14)


# -- a step that is too long ---------------------------------------------------------------------------------


TOO_LONG = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 2.0]])  # gamma ||x - n||^2 is 1 at gamma = 1/4


@pytest.mark.parametrize("gamma", [0.25, 0.3, 100.0])
def test_gamma_too_large_is_rejected_and_nothing_learned(gamma: float) -> None:
    triplets = np.array([[[0, 0], [0.01, 0], [0, 0.01]], TOO_LONG])
    learner = OPML(gamma, dtype="float64").initialize(2)
    with pytest.raises(RejectedConstraintError, match="Reduce gamma") as caught:
        learner.partial_fit(triplets)
    assert caught.value.row == 1
    np.testing.assert_array_equal(learner.factor_, np.eye(2))
    assert learner.n_seen_ == 0


@pytest.mark.parametrize("gamma", [0.25, 0.3, 100.0])
def test_gamma_too_large_can_be_counted_but_not_used(gamma: float) -> None:
    learner = OPML(gamma, too_long="skip", dtype="float64").initialize(2).learn_one(*TOO_LONG)
    np.testing.assert_array_equal(learner.factor_, np.eye(2))
    assert (learner.n_seen_, learner.utilization_) == (1, 0.0)


def test_gamma_just_below_the_limit_is_learned() -> None:
    gamma = 0.2499
    learner = OPML(gamma, dtype="float64").initialize(2).learn_one(*TOO_LONG)
    np.testing.assert_allclose(learner.factor_, np.diag([1 / (1 + 9 * gamma), 1 / (1 - 4 * gamma)]), rtol=1e-9)


def test_triplet_without_loss_may_be_of_any_length() -> None:
    learner = OPML(0.25).initialize(2).learn_one([0.0, 0.0], [0.1, 0.0], [0.0, 50.0])
    assert learner.utilization_ == 0.0


@pytest.mark.parametrize("gamma", [1e-3, 0.1, 0.2499])
def test_items_of_unit_length_are_never_rejected_below_a_quarter(gamma: float) -> None:
    X, y = load_digits(return_X_y=True)
    learner = OPML(gamma, dtype="float64").partial_fit(normalize(X), y)
    assert np.isfinite(learner.factor_).all()


def test_skipping_too_long_steps_does_not_make_standardised_digits_worse() -> None:
    """The features are standardised like the authors'. Pixels that are almost always 0 cause huge differences."""
    X, y = load_digits(return_X_y=True)
    X = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9)
    learner = OPML(too_long="skip", random_state=0).partial_fit(X, y)
    assert learner.score(X, y) > OPML(random_state=0).initialize(64).score(X, y) - 0.02


# -- the exact hinge -----------------------------------------------------------------------------------------


def hinge(L: Matrix, before: Matrix, triplet: Matrix, gamma: float) -> float:
    return float(((L - before) ** 2).sum() / 2 + gamma / 2 * max(0.0, slack(L, triplet)))


def hinge_minimiser(before: Matrix, triplet: Matrix, gamma: float) -> Matrix:
    """argmin 1/2 ||L' - L||^2 + gamma/2 xi with xi >= 1 + ||L' a||^2 - ||L' b||^2, xi >= 0, by SLSQP."""
    d, A = len(before), outer_difference(triplet)

    def slack_margin(v: NDArray[np.float64]) -> float:
        return float(v[-1] - 1 - np.trace(v[:-1].reshape(d, d) @ A @ v[:-1].reshape(d, d).T))

    found = minimize(
        lambda v: float(((v[:-1] - before.ravel()) ** 2).sum() / 2 + gamma / 2 * v[-1]),
        np.append(before.ravel(), max(0.0, slack(before, triplet))),
        jac=lambda v: np.append(v[:-1] - before.ravel(), gamma / 2),
        bounds=[(None, None)] * d * d + [(0, None)],
        constraints={
            "type": "ineq",
            "fun": slack_margin,
            "jac": lambda v: np.append(-2 * (v[:-1].reshape(d, d) @ A).ravel(), 1.0),
        },
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return np.asarray(found.x[:-1].reshape(d, d))


def exact_cases() -> list[tuple[OPML, Matrix]]:
    rng = np.random.default_rng(0)
    cases = []
    for gamma in (0.02, 0.1, 0.2, 0.5):
        for d in (2, 3, 4):
            for share in (0.3, 0.6, 0.9):
                learner = trained_learner(rng, d).set_params(gamma=gamma, exact_hinge=True)
                cases.append((learner, triplet_for(learner, rng, share)))
    return cases


def test_the_exact_step_is_the_minimiser_with_the_hinge() -> None:
    for learner, triplet in exact_cases():
        before = learner.factor_
        learner.learn_one(*triplet)
        expected = hinge_minimiser(before, triplet, learner.gamma)
        np.testing.assert_allclose(learner.factor_, expected, atol=2e-6)


def test_no_perturbation_of_the_exact_step_is_better() -> None:
    rng = np.random.default_rng(1)
    for learner, triplet in exact_cases():
        before = learner.factor_
        learner.learn_one(*triplet)
        best = hinge(learner.factor_, before, triplet, learner.gamma)
        for _ in range(100):
            moved = learner.factor_ + 10 ** rng.uniform(-5, 0) * rng.standard_normal(before.shape)
            assert hinge(moved, before, triplet, learner.gamma) >= best - 1e-12


def test_closed_form_steps_can_overshoot_the_hinge_but_exact_steps_cannot() -> None:
    past = {False: 0, True: 0}
    for exact in past:
        for learner, triplet in exact_cases():
            learner.set_params(exact_hinge=exact).learn_one(*triplet)
            past[exact] += slack(learner.factor_, triplet) < -1e-9
    assert past[False] > 5
    assert past[True] == 0


def test_the_exact_step_equals_the_closed_form_before_the_hinge() -> None:
    compared = 0
    for learner, triplet in exact_cases():
        before = learner.factor_
        closed = before @ np.linalg.inv(np.eye(len(before)) + learner.gamma * outer_difference(triplet))
        if slack(closed, triplet) > 1e-6:
            learner.learn_one(*triplet)
            np.testing.assert_allclose(learner.factor_, closed, atol=1e-11)
            compared += 1
    assert compared > 5


# -- COPML ---------------------------------------------------------------------------------------------------


def test_copml_multiplies_by_the_dense_inverse_while_there_is_one_class() -> None:
    X = np.random.default_rng(0).standard_normal((7, 4))
    learner = OPML(0.3, copml=True, dtype="float64").partial_fit(X, ["a"] * 7)
    expected = np.eye(4)
    for v in np.diff(X, axis=0):
        expected = expected @ np.linalg.inv(np.eye(4) + 0.3 * np.outer(v, v))
    np.testing.assert_allclose(learner.factor_, expected, atol=1e-13)
    assert (learner.n_seen_, learner.utilization_) == (6, 1.0)


def test_copml_is_opml_from_the_second_class_on() -> None:
    X = 0.3 * np.random.default_rng(0).standard_normal((30, 4))
    y = np.array([0, 1] + [0, 1, 2] * 9 + [0])
    plain, copml = (OPML(0.1, copml=c, dtype="float64").partial_fit(X, y) for c in (False, True))
    np.testing.assert_array_equal(copml.factor_, plain.factor_)
    assert copml.n_seen_ == plain.n_seen_


def test_without_copml_one_class_changes_nothing() -> None:
    learner = OPML().partial_fit(np.eye(3), [1, 1, 1])
    np.testing.assert_array_equal(learner.factor_, np.eye(3))
    assert learner.n_seen_ == 0


def test_copml_pair_of_identical_items_is_not_used() -> None:
    """The pair changes nothing, like identical items in all learners."""
    learner = OPML(0.3, copml=True).partial_fit(np.ones((3, 2)), [1, 1, 1])
    np.testing.assert_array_equal(learner.factor_, np.eye(2))
    assert (learner.n_seen_, learner.utilization_) == (2, 0.0)


@pytest.mark.parametrize("row", [5, 200, 1500])
def test_rejection_of_a_copml_pair_names_the_item(row: int) -> None:
    X = np.zeros((2000, 2))
    X[row] = 1e15  # its square is beyond what a float32 model may be moved by
    with pytest.raises(RejectedConstraintError) as caught:
        OPML(copml=True).partial_fit(X, np.zeros(2000, int))
    assert caught.value.row == row


@pytest.mark.parametrize("row", [5, 200, 1500])
def test_rejection_of_a_stream_triplet_names_the_item(row: int) -> None:
    X, y = np.random.default_rng(0).normal(scale=0.01, size=(2000, 2)), np.arange(2000) % 2
    X[row] = 3.0
    with pytest.raises(RejectedConstraintError, match=f"Item {row} ") as caught:
        OPML(0.5).partial_fit(X, y)
    assert caught.value.row == row


# -- a labelled stream ---------------------------------------------------------------------------------------


def naive_triplets(labels: list[Any], rule: str) -> list[tuple[int, int, int]]:
    """Return the triplets by the authors' rule, from the whole stream. Classes are ordered by first occurrence."""
    triplets = []
    for t, label in enumerate(labels):
        past = labels[:t]
        created = sorted(set(past), key=past.index)
        if label not in created or len(created) < 2:
            continue
        last = {c: max(i for i in range(t) if labels[i] == c) for c in created}
        if labels[t - 1] != label:
            triplets.append((t, last[label], t - 1))
        elif rule == "author":
            newest = created[-1] if created[-1] != label else created[-2]
            triplets.append((t, t - 1, last[newest]))
        else:
            triplets.append((t, t - 1, max(i for i in range(t) if labels[i] != label)))
    return triplets


label_streams = st.integers(1, 5).flatmap(lambda k: st.lists(st.integers(0, k - 1), min_size=1, max_size=40))


@settings(max_examples=50)
@given(labels=label_streams, rule=st.sampled_from(["author", "latest"]), seed=st.integers(0, 1000))
def test_labelled_stream_learns_the_triplets_of_the_authors_rule(labels: list[int], rule: str, seed: int) -> None:
    X = 0.5 * np.random.default_rng(seed).standard_normal((len(labels), 3))
    learner = OPML(0.02, construction=rule, too_long="skip", dtype="float64").partial_fit(X, labels)
    by_hand = OPML(0.02, too_long="skip", dtype="float64").initialize(3)
    triplets = naive_triplets(labels, rule)
    if triplets:
        by_hand.partial_fit(X[np.array(triplets)])
    np.testing.assert_array_equal(learner.factor_, by_hand.factor_)
    assert learner.n_seen_ == len(triplets)


@settings(max_examples=50)
@given(labels=label_streams)
def test_each_item_of_a_known_class_forms_a_triplet_after_two_classes(labels: list[int]) -> None:
    learner = OPML().partial_fit(np.zeros((len(labels), 2)), labels)
    classes = len(set(labels))
    second = next((t for t, label in enumerate(labels) if label != labels[0]), len(labels))
    start_up = second - 1  # repetitions of the first class before there is another
    assert learner.n_seen_ == len(labels) - classes - start_up


@settings(max_examples=30)
@given(labels=st.lists(st.integers(0, 1), min_size=1, max_size=40), seed=st.integers(0, 1000))
def test_with_two_classes_both_rules_agree(labels: list[int], seed: int) -> None:
    X = 0.5 * np.random.default_rng(seed).standard_normal((len(labels), 2))
    author, latest = (
        OPML(0.02, construction=rule, too_long="skip").partial_fit(X, labels).factor_
        for rule in ("author", "latest")
    )
    np.testing.assert_array_equal(author, latest)


def test_with_three_classes_the_rules_differ() -> None:
    X, labels = 0.4 * np.random.default_rng(0).standard_normal((6, 2)), [0, 1, 2, 1, 0, 0]
    author, latest = (OPML(0.1, construction=r).partial_fit(X, labels).factor_ for r in ("author", "latest"))
    assert (author != latest).any()


def saved(learner: OPML, folder: Path) -> bytes:
    learner.save(folder / "learner")
    return (folder / "learner").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("copml", [False, True])
@pytest.mark.parametrize("rule", ["author", "latest"])
@settings(max_examples=8)
@given(cuts=st.lists(st.integers(0, 1700), max_size=6), seed=st.integers(0, 5))
def test_labelled_stream_does_not_depend_on_how_it_is_split(
    tmp_path_factory: pytest.TempPathFactory, rule: str, copml: bool, cuts: list[int], seed: int
) -> None:
    X, y = load_digits(return_X_y=True)
    order = np.r_[np.flatnonzero(y == 3)[:5], np.random.default_rng(seed).permutation(1500)]  # one class at first
    X, y = X[order] / 16, y[order]
    folder = tmp_path_factory.mktemp("cut")
    whole = OPML(construction=rule, copml=copml, random_state=0).partial_fit(X, y)
    parts = OPML(construction=rule, copml=copml, random_state=0)
    for chunk in np.split(np.arange(len(X)), sorted(cuts)):
        if len(chunk):
            parts.partial_fit(X[chunk], y[chunk])
    assert saved(parts, folder) == saved(whole, folder)


@pytest.mark.parametrize("rule", ["author", "latest"])
@pytest.mark.parametrize("cut", [1, 2, 3, 50, 1100])
def test_labelled_stream_continues_after_a_file(tmp_path: Path, rule: str, cut: int) -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[:1500] / 16, y[:1500]
    whole = OPML(construction=rule, random_state=0).partial_fit(X, y)
    OPML(construction=rule, random_state=0).partial_fit(X[:cut], y[:cut]).save(tmp_path / "half")
    resumed = load(tmp_path / "half").partial_fit(X[cut:], y[cut:])
    assert saved(resumed, tmp_path) == saved(whole, tmp_path)


LABELS: dict[str, Callable[[int], Any]] = {
    "int": int,
    "str": lambda k: f"klass {k} \N{SNOWMAN}",
    "bool": bool,
    "float": float,
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind_survive_a_file(tmp_path: Path, kind: str) -> None:
    labels = [LABELS[kind](k) for k in (0, 1, 0, 0, 1, 1, 0, 1)]
    X = 0.5 * np.random.default_rng(0).standard_normal((8, 2))
    whole = OPML(0.1).partial_fit(X, labels)
    OPML(0.1).partial_fit(X[:4], labels[:4]).save(tmp_path / "half")
    resumed = load(tmp_path / "half").partial_fit(X[4:], labels[4:])
    assert resumed.n_seen_ == whole.n_seen_ == 6
    np.testing.assert_array_equal(resumed.factor_, whole.factor_)


def test_labels_of_numpy_strings_survive_a_file(tmp_path: Path) -> None:
    labels = np.array(["a", "b", "a", "b"])
    X = 0.5 * np.random.default_rng(0).standard_normal((4, 2))
    OPML(0.1).partial_fit(X[:2], labels[:2]).save(tmp_path / "half")
    assert load(tmp_path / "half").partial_fit(X[2:], labels[2:]).n_seen_ == 2


def test_rejected_item_leaves_the_stored_items_unchanged(tmp_path: Path) -> None:
    X = 0.1 * np.random.default_rng(0).standard_normal((6, 2))
    learner = OPML(0.5).partial_fit(X[:4], [0, 1, 0, 1])
    before = saved(learner, tmp_path)
    with pytest.raises(RejectedConstraintError):
        learner.partial_fit(np.array([[0.0, 0.0], [50.0, 50.0]]), [2, 0])
    assert saved(learner, tmp_path) == before


def test_continuous_targets_are_not_classes() -> None:
    with pytest.raises(InvalidInputError):
        OPML().partial_fit(np.eye(3), [0.1, 0.2, 0.3])


def test_fit_resets_the_labelled_stream() -> None:
    X, y = 0.3 * np.random.default_rng(0).standard_normal((20, 3)), np.arange(20) % 3
    once = OPML(0.1, dtype="float64").fit(X, y)
    again = OPML(0.1, dtype="float64").partial_fit(X, y).fit(X, y)
    np.testing.assert_array_equal(again.factor_, once.factor_)
    assert again.n_seen_ == once.n_seen_


def test_digits_are_learned_in_one_pass() -> None:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order] / 16, y[order]
    learner = OPML(random_state=0).partial_fit(X[:900], y[:900])
    untouched = OPML(random_state=0).initialize(64)
    assert learner.score(X[900:], y[900:]) > untouched.score(X[900:], y[900:])
