"""Verification: pairs to answer about, none of which is learned from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from oahu.evaluation import eer
from oahu.evaluation.cells import Outcome
from oahu.evaluation.datasets import Dataset, Fold, Views
from oahu.evaluation.protocols import PROTOCOLS, Method, as_method
from oahu.evaluation.protocols.verification import views_of
from oahu.exceptions import InvalidInputError

Measure = Callable[..., Outcome]
Telling = Callable[[str], Method]


def fold_of(classes: list[int], rng: np.random.Generator) -> Fold:
    """A third of the pairs among classes of six items: alike ones, and as many unlike ones."""
    items = [6 * c + i for c in classes for i in range(6)]
    alike = [pair for pair in combinations(items, 2) if pair[0] // 6 == pair[1] // 6]
    unlike = [pair for pair in combinations(items, 2) if pair[0] // 6 != pair[1] // 6]
    n = len(alike) // 3
    chosen = [*rng.permutation(alike)[:n].tolist(), *rng.permutation(unlike)[:n].tolist()]
    return Fold(np.array(chosen), np.arange(2 * n) < n)


@pytest.fixture(scope="module")
def faces() -> Dataset:
    """Fifteen people with six images each; views as LFW has them: nobody is in two of the three folds.

    The first feature of an image is its row, scaled to be next to nothing.
    """
    rng = np.random.default_rng(11)
    y = np.arange(90) // 6
    X = rng.normal(size=(15, 8))[y] + rng.normal(size=(90, 8))
    X[:, 0] = np.arange(90) / 2**20
    groups = [[3 * i, 3 * i + 1, 3 * i + 2] for i in range(5)]
    first, second, *folds = [fold_of(group, rng) for group in groups]
    names = np.array([f"person {label}, {i}" for i, label in enumerate(y)])
    return Dataset(
        "faces", X.astype(np.float32), y, scaling="none", keys=names, views=Views((first, second), tuple(folds))
    )


def rows_of(items: NDArray[np.float32]) -> NDArray[np.int64]:
    return np.rint(items[:, 0] * 2**20).astype(int)


def apart(dataset: Dataset, pairs: NDArray[Any]) -> NDArray[np.float64]:
    first, second = dataset.X[pairs].astype(np.float64).transpose(1, 0, 2)
    return np.sqrt(((first - second) ** 2).sum(axis=1))


# -- views -----------------------------------------------------------------------------------------------


def test_official_views_are_used(faces: Dataset) -> None:
    assert views_of(faces) is faces.views


def test_drawn_views_are_true_and_disjoint(digits: Dataset) -> None:
    views = views_of(digits)
    folds = (*views.development, *views.folds)
    assert len(views.folds) == 10
    for fold in folds:
        first, second = fold.pairs.T
        assert (first != second).all()
        assert ((digits.y[first] == digits.y[second]) == fold.same).all()
        assert fold.same.any()
        assert not fold.same.all()
    items = [set(fold.pairs.ravel().tolist()) for fold in folds]
    assert all(not one & two for one, two in combinations(items, 2))


def test_drawn_views_are_the_same_every_time(digits: Dataset) -> None:
    one, two = views_of(digits), views_of(replace(digits, X=digits.X[:, :3]))
    for fold, other in zip((*one.development, *one.folds), (*two.development, *two.folds), strict=True):
        np.testing.assert_array_equal(fold.pairs, other.pairs)
        np.testing.assert_array_equal(fold.same, other.same)


# -- what is learned from --------------------------------------------------------------------------------


@pytest.mark.parametrize("people", ["shared", "disjoint"])
@pytest.mark.parametrize("name", ["OAHU", "OASIS", "LEGO", "RDML"])
@pytest.mark.parametrize("stage", ["result", "tuning"])
def test_no_constraint_contains_a_pair_of_either_view(
    faces: Dataset, measure: Measure, told: Telling, people: str, name: str, stage: str
) -> None:
    method = told(name)
    measure("verification", faces, method, 1, stage, people=people, n_constraints=400, n_seeds=200)
    [(learner, rows, same)] = type(method.learner).fed
    learned = rows_of(learner.preprocessor)[rows]
    assert faces.views is not None
    forbidden = {frozenset(pair) for pair in faces.views.pairs.tolist()}
    assert len(learned) == 400
    assert not forbidden & {frozenset(two) for row in learned.tolist() for two in combinations(row, 2)}
    labels = faces.y[learned]
    truth = np.ones(400, bool) if same is None else same > 0
    assert ((labels[:, 0] == labels[:, 1]) == truth).all()


@pytest.mark.parametrize("name", ["OASIS", "LEGO", "OPML"])
@pytest.mark.parametrize("run", [0, 2])
def test_disjoint_people_leave_out_all_images_of_the_folds_people(
    faces: Dataset, measure: Measure, told: Telling, name: str, run: int
) -> None:
    method = told(name)
    measure("verification", faces, method, run, people="disjoint")
    [(learner, X, _)] = type(method.learner).fed
    kept = rows_of(X if name == "OPML" else learner.preprocessor)
    assert faces.views is not None
    tested = set(faces.y[faces.views.folds[run].pairs].ravel())
    assert sorted(kept) == [row for row in range(90) if faces.y[row] not in tested]


@pytest.mark.parametrize("scaling", ["standard", "centred"])
def test_disjoint_people_do_not_influence_the_scaling(
    faces: Dataset, measure: Measure, told: Telling, scaling: str
) -> None:
    assert faces.views is not None
    X = faces.X.copy()
    X[np.isin(faces.y, faces.y[faces.views.folds[0].pairs])] *= 5
    method = told("OASIS")
    for data in (faces, replace(faces, X=X)):
        measure("verification", data, method, people="disjoint", scaling=scaling)
    (one, _, _), (two, _, _) = type(method.learner).fed
    np.testing.assert_array_equal(one.preprocessor, two.preprocessor)


def test_shared_people_leave_nothing_out(faces: Dataset, measure: Measure, told: Telling) -> None:
    method = told("OASIS")
    measure("verification", faces, method)
    [(learner, _, _)] = type(method.learner).fed
    np.testing.assert_array_equal(rows_of(learner.preprocessor), np.arange(90))


def test_disjoint_people_whose_pairs_are_all_in_the_fold_are_learned_from(faces: Dataset, measure: Measure) -> None:
    """No pair is left that would have to be avoided."""
    assert faces.views is not None
    fold = faces.views.folds[0]
    only = replace(faces, views=Views((fold, fold), (fold, replace(fold))))
    outcome = measure("verification", only, "OASIS", people="disjoint")
    assert outcome.facts["n_seen"] == 200


def test_a_fold_with_everybody_leaves_nothing_to_learn_from(digits: Dataset, measure: Measure) -> None:
    everybody = Fold(np.array([[i, i + 1] for i in range(199)]), digits.y[:-1] == digits.y[1:])
    with_all = replace(digits, views=Views((everybody, everybody), (everybody, replace(everybody))))
    with pytest.raises(InvalidInputError, match="Every class of some digits is in fold 0: nothing is left"):
        measure("verification", with_all, "OASIS", people="disjoint")


@pytest.mark.parametrize(("runs", "measured"), [(2, 2), (3, 3), (10, 3)])
def test_there_are_no_more_runs_than_folds(faces: Dataset, runs: int, measured: int) -> None:
    protocol, method = PROTOCOLS["verification"], as_method("Euclidean")
    cells = protocol.cells(faces, method, runs, protocol.settings(faces))
    assert [cell.run for cell in cells] == list(range(measured))


# -- scores ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", [0, 1, 2])
def test_euclidean_scores_are_about_distances(faces: Dataset, measure: Measure, run: int) -> None:
    assert faces.views is not None
    fold = faces.views.folds[run]
    scores = measure("verification", faces, "Euclidean", run).scores
    assert scores["auc"] == pytest.approx(roc_auc_score(fold.same, -apart(faces, fold.pairs)))
    assert scores["eer"] == pytest.approx(eer(fold.same, -apart(faces, fold.pairs)))


def weighted_median(values: list[float], weights: list[float]) -> float:
    total = 0.0
    for value, weight in sorted(zip(values, weights, strict=True)):
        total += weight
        if total >= 0.5 - 1e-9:
            return value
    raise AssertionError("weights sum to one")


def test_an_ensembles_auc_is_that_of_its_weighted_median(faces: Dataset, measure: Measure, told: Telling) -> None:
    method = told("OAHU")
    auc = measure("verification", faces, method, 1).scores["auc"]
    [(learner, _, _)] = type(method.learner).fed
    assert faces.views is not None
    fold = faces.views.folds[1]
    spaces = learner.metric().spaces
    weights = [space.weight for space in spaces]
    vectors = [space.encode(faces.X) for space in spaces]
    medians = [
        weighted_median([float(np.linalg.norm(space[a] - space[b])) for space in vectors], weights)
        for a, b in fold.pairs
    ]
    assert auc == pytest.approx(roc_auc_score(fold.same, -np.array(medians)))


@pytest.mark.parametrize("run", [0, 1, 2])
def test_accuracy_is_that_of_the_threshold_which_is_best_for_the_other_folds(
    faces: Dataset, measure: Measure, run: int
) -> None:
    """Several thresholds may be best; the accuracy must be that of one of them."""
    assert faces.views is not None
    tested, others = faces.views.folds[run], [fold for i, fold in enumerate(faces.views.folds) if i != run]
    distances = np.concatenate([apart(faces, fold.pairs) for fold in others])
    same = np.concatenate([fold.same for fold in others])
    own = apart(faces, tested.pairs)
    places = np.sort([*distances, *own])
    candidates = [0.0, *((places[:-1] + places[1:]) / 2), np.inf]
    right = [int(((distances < t) == same).sum()) for t in candidates]
    best = {
        float(((own < t) == tested.same).mean()) for t, n in zip(candidates, right, strict=True) if n == max(right)
    }
    assert measure("verification", faces, "Euclidean", run).scores["accuracy"] in best


@pytest.mark.parametrize("method", ["Euclidean", "LEGO", "OASIS"])
def test_the_tested_folds_answers_do_not_move_the_threshold(faces: Dataset, measure: Measure, method: str) -> None:
    """If they did, turning all of them round would not turn every right answer into a wrong one."""
    assert faces.views is not None
    first, tested, third = faces.views.folds
    turned = Fold(tested.pairs, ~tested.same)
    other = replace(faces, views=replace(faces.views, folds=(first, turned, third)))
    one, two = (measure("verification", data, method, 1).scores for data in (faces, other))
    assert one["accuracy"] + two["accuracy"] == pytest.approx(1)
    assert one["auc"] + two["auc"] == pytest.approx(1)


def test_tuning_looks_at_view_1(faces: Dataset, measure: Measure) -> None:
    assert faces.views is not None
    pairs = np.concatenate([fold.pairs for fold in faces.views.development])
    same = np.concatenate([fold.same for fold in faces.views.development])
    for fold in (0, 1):
        found = measure("verification", faces, "Euclidean", fold, "tuning").scores["auc"]
        assert found == pytest.approx(roc_auc_score(same, -apart(faces, pairs)))


def test_tuning_draws_other_constraints_for_every_fold(faces: Dataset, measure: Measure, told: Telling) -> None:
    method = told("OASIS")
    for fold in (0, 1):
        measure("verification", faces, method, fold, "tuning")
    measure("verification", faces, method, 0)
    assert len({rows.tobytes() for _, rows, _ in type(method.learner).fed}) == 3


# -- curves and examples ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["Euclidean", "LEGO"])
def test_the_curve_is_that_of_the_auc(faces: Dataset, measure: Measure, method: str) -> None:
    """The area below a curve that rises from 0 to 1 is off by half a step of 1 / 200 at most, and by rounding."""
    outcome = measure("verification", faces, method)
    far, tar = (np.array(outcome.curves["roc"][name]) for name in ("far", "tar"))
    np.testing.assert_allclose(far, np.arange(201) / 200)
    assert (np.diff(tar) >= 0).all()
    assert tar[-1] == 1
    assert np.trapezoid(tar, far) == pytest.approx(outcome.scores["auc"], abs=0.0025 + 1e-5)


@pytest.mark.parametrize("method", ["Euclidean", "LEGO"])
def test_examples_are_right_and_wrong_as_said(faces: Dataset, measure: Measure, method: str) -> None:
    """Both metrics have one space: the vote share is 1 for yes and 0 for no."""
    assert faces.views is not None
    assert faces.keys is not None
    fold = faces.views.folds[0]
    names = faces.keys[fold.pairs].tolist()
    outcome = measure("verification", faces, method)
    assert 0 < outcome.scores["accuracy"] < 1
    for kind, wanted in (("right", True), ("wrong", False)):
        shown = outcome.curves["examples"][kind]
        assert shown
        for same in (True, False):
            assert sum(example["same"] == same for example in shown) <= 4
        for example in shown:
            place = names.index([example["a"], example["b"]])
            assert fold.same[place] == example["same"]
            assert ((example["vote_share"] >= 0.5) == example["same"]) == wanted


def test_examples_are_the_answers_that_were_given_most_surely(faces: Dataset, measure: Measure) -> None:
    """That is, far from the threshold: of pairs said to be alike the nearest ones.

    Nearly all pairs of the fold are alike: the median of their scores is nowhere near the threshold.
    """
    assert faces.views is not None
    assert faces.keys is not None
    fold = faces.views.folds[0]
    some = np.append(np.flatnonzero(fold.same), np.flatnonzero(~fold.same)[0])
    mostly = Fold(fold.pairs[some], fold.same[some])
    data = replace(faces, views=replace(faces.views, folds=(mostly, *faces.views.folds[1:])))
    shown = measure("verification", data, "Euclidean").curves["examples"]["right"]
    names, distances = faces.keys[mostly.pairs].tolist(), apart(faces, mostly.pairs)
    chosen = [distances[names.index([example["a"], example["b"]])] for example in shown if example["same"]]
    assert sorted(chosen) == sorted(distances[mostly.same])[:4]


def test_without_names_examples_are_rows(faces: Dataset, measure: Measure) -> None:
    told = measure("verification", faces, "Euclidean").curves["examples"]
    nameless = measure("verification", replace(faces, keys=None), "Euclidean").curves["examples"]
    for kind in ("right", "wrong"):
        for one, other in zip(told[kind], nameless[kind], strict=True):
            assert {**other, "a": faces.keys[other["a"]], "b": faces.keys[other["b"]]} == one


# -- what cannot be measured -----------------------------------------------------------------------------


def test_a_data_set_must_have_pairs_or_enough_labels(faces: Dataset, digits: Dataset) -> None:
    check = PROTOCOLS["verification"].check
    check(faces)
    check(digits)
    few = Dataset("few", digits.X[:95], np.arange(95) // 2)
    with pytest.raises(InvalidInputError, match=r"needs pairs to verify.*few has 95 items of 48 class"):
        check(few)
    assert faces.views is not None
    one = replace(faces, views=Views(faces.views.development, faces.views.folds[:1]))
    with pytest.raises(InvalidInputError, match=r"at least two folds of pairs\. faces has 1"):
        check(one)
