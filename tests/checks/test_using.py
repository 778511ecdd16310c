"""Using a learner does not change it, returns consistent results, and shares no memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.utils.validation import check_is_fitted

from oahu import NoDistanceError, NotFittedError
from oahu.learners.base import Learner as AnyLearner

Learner = AnyLearner[Any]
Factory = Callable[..., Learner]
Learned = Callable[[Learner], dict[str, Any]]
Saved = Callable[[Learner], bytes]
Seen = Callable[[Any, Any], NDArray[Any]]
Floats = NDArray[np.floating]


# -- predictions change nothing ----------------------------------------------------------------------------


def file_of(learner: Learner, folder: Path) -> bytes:
    learner.save(folder / "file")
    return (folder / "file").read_bytes()


def scores_of(learner: Learner, table: Floats) -> NDArray[Any]:
    return np.asarray(learner.metric().score(table, table[::-1]))


#: Everything that uses a learner without teaching it, given (learner, seen, triplets, table, labels, folder).
USES: dict[str, Callable[..., Any]] = {
    "items": lambda learner, seen, triplets, table, labels, folder: seen(learner, table),
    "pair_score": lambda learner, seen, triplets, table, labels, folder: learner.pair_score(triplets[:, :2]),
    "score": lambda learner, seen, triplets, table, labels, folder: learner.score(triplets),
    "score with labels": lambda learner, seen, triplets, table, labels, folder: learner.score(table, labels),
    "metric": lambda learner, seen, triplets, table, labels, folder: seen(learner.metric(), table),
    "metric score": lambda learner, seen, triplets, table, labels, folder: scores_of(learner, table),
    "save": lambda learner, seen, triplets, table, labels, folder: file_of(learner, folder),
    "repr": lambda learner, seen, triplets, table, labels, folder: repr(learner),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_using_changes_nothing(
    make_typical: Factory,
    snapshot: Learned,
    seen: Seen,
    tmp_path: Path,
    triplets: Floats,
    table: Floats,
    labels: NDArray[Any],
    use: Callable[..., Any],
) -> None:
    learner = make_typical().partial_fit(triplets)
    before = snapshot(learner)
    use(learner, seen, triplets, table, labels, tmp_path)
    assert snapshot(learner) == before


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_using_twice_gives_the_same(
    make_typical: Factory,
    seen: Seen,
    tmp_path: Path,
    triplets: Floats,
    table: Floats,
    labels: NDArray[Any],
    use: Callable[..., Any],
) -> None:
    learner = make_typical().partial_fit(triplets)
    first = use(learner, seen, triplets, table, labels, tmp_path)
    np.testing.assert_array_equal(use(learner, seen, triplets, table, labels, tmp_path), first)


def test_embedding_changes_nothing(make_oahu: Factory, snapshot: Learned, triplets: Floats, table: Floats) -> None:
    learner = make_oahu().partial_fit(triplets)
    before = snapshot(learner)
    learner.embed(table)
    assert snapshot(learner) == before


def test_learning_changes_what_was_learned(make_typical: Factory, learned: Learned, triplets: Floats) -> None:
    learner = make_typical().partial_fit(triplets)
    before = learned(learner)
    assert learned(learner.partial_fit(triplets)) != before


# -- what using gives ------------------------------------------------------------------------------------


def test_pair_distance_is_euclidean_between_transformed_items(
    make_with_distances: Factory, triplets: Floats
) -> None:
    learner = make_with_distances().partial_fit(triplets)
    left, right = learner.transform(triplets[:, 0]), learner.transform(triplets[:, 1])
    expected = [math.dist(a, b) for a, b in zip(left.tolist(), right.tolist(), strict=True)]
    np.testing.assert_allclose(learner.pair_distance(triplets[:, :2]), expected, rtol=1e-4, atol=1e-6)


def test_pair_score_is_higher_where_the_distance_is_lower(make_with_distances: Factory, triplets: Floats) -> None:
    learner = make_with_distances().partial_fit(triplets)
    by_distance = np.argsort(learner.pair_distance(triplets[:, :2]), kind="stable")
    by_score = np.argsort(-learner.pair_score(triplets[:, :2]), kind="stable")
    np.testing.assert_array_equal(by_score, by_distance)


def test_score_is_the_share_of_triplets_in_the_right_order(make_with_distances: Factory, triplets: Floats) -> None:
    learner = make_with_distances().partial_fit(triplets[:50])
    vectors = learner.transform(triplets.reshape(-1, 5)).reshape(len(triplets), 3, -1).tolist()
    margins = np.array([math.dist(a, n) - math.dist(a, p) for a, p, n in vectors])
    clear = np.abs(margins) > 1e-4  # the others are a matter of rounding
    assert learner.score(triplets[clear]) == np.count_nonzero(margins > 1e-4) / np.count_nonzero(clear)


def test_score_is_the_share_of_triplets_whose_positive_scores_higher(
    make_typical: Factory, triplets: Floats
) -> None:
    learner = make_typical().partial_fit(triplets[:50])
    higher = learner.pair_score(triplets[:, :2]) > learner.pair_score(triplets[:, [0, 2]])
    assert learner.score(triplets) == np.count_nonzero(higher) / len(triplets)


def test_the_score_of_pairs_is_the_area_under_the_roc_curve(make_typical: Factory, triplets: Floats) -> None:
    learner, same = make_typical().partial_fit(triplets), np.arange(40) % 3 == 0
    pairs = triplets[:40, :2]
    scores = learner.pair_score(pairs)
    above = [float(a > b) + 0.5 * float(a == b) for a in scores[same] for b in scores[~same]]
    assert learner.score(pairs, np.where(same, 1, -1)) == pytest.approx(np.mean(above), rel=1e-12)


def test_a_metric_scores_as_its_learner_does(make_typical: Factory, triplets: Floats) -> None:
    learner = make_typical().partial_fit(triplets)
    scores = learner.metric().score(triplets[:, 0], triplets[:, 1])
    np.testing.assert_allclose(scores, learner.pair_score(triplets[:, :2]), rtol=1e-5, atol=1e-6)


def test_a_learner_with_scores_only_raises_for_distances(
    make_scores_only: Factory, triplets: Floats, table: Floats
) -> None:
    learner = make_scores_only().partial_fit(triplets)
    for ask in (
        lambda: learner.transform(table),
        lambda: learner.pair_distance(triplets[:, :2]),
        lambda: learner.metric().transform(table),
        lambda: learner.metric().distance(table[0], table[1]),
    ):
        with pytest.raises(NoDistanceError, match="nearest_distance"):
            ask()
    assert not hasattr(learner, "transform")


def test_indices_are_scored_as_their_values(
    make_typical: Factory, table: Floats, indices: NDArray[np.int64]
) -> None:
    learner = make_typical(preprocessor=table).partial_fit(indices)
    by_value = learner.pair_score(table[indices[:, :2]])
    np.testing.assert_array_equal(learner.pair_score(indices[:, :2]), by_value)


# -- no aliasing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["partial_fit", "fit"])
def test_changing_the_triplets_afterwards_does_not_change_the_learner(
    make_typical: Factory, saved: Saved, triplets: Floats, method: str
) -> None:
    mine = triplets.astype(np.float32)
    learner = getattr(make_typical(), method)(mine)
    before = saved(learner)
    mine[...] = 7.0
    assert saved(learner) == before


def test_changing_one_triplet_afterwards_does_not_change_the_learner(
    make_every: Factory, saved: Saved, triplets: Floats
) -> None:
    mine = triplets[0].astype(np.float32)
    learner = make_every().learn_one(*mine)
    before = saved(learner)
    mine[...] = 7.0
    assert saved(learner) == before


def test_changing_the_table_afterwards_does_not_change_the_learner(
    make_typical: Factory, saved: Saved, table: Floats, indices: NDArray[np.int64]
) -> None:
    mine = table.astype(np.float32)
    learner = make_typical(preprocessor=mine).partial_fit(indices)
    before = saved(learner)
    mine[...] = 7.0
    assert saved(learner) == before


def test_changing_labelled_items_afterwards_does_not_change_the_learner(
    make_typical: Factory, saved: Saved, table: Floats, labels: NDArray[Any]
) -> None:
    items, classes = table.astype(np.float32), labels.copy()
    learner = make_typical().fit(items, classes)
    before = saved(learner)
    items[...], classes[...] = 7.0, 1
    assert saved(learner) == before


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_using_does_not_change_the_input(
    make_typical: Factory,
    seen: Seen,
    tmp_path: Path,
    triplets: Floats,
    table: Floats,
    labels: NDArray[Any],
    use: Callable[..., Any],
) -> None:
    mine = triplets.astype(np.float32), table.astype(np.float32), labels.copy()  # of the model's type: not copied
    kept = [array.tobytes() for array in mine]
    use(make_typical().partial_fit(triplets), seen, *mine, tmp_path)
    assert [array.tobytes() for array in mine] == kept


def test_learning_does_not_change_the_input(
    make_every: Factory, triplets: Floats, table: Floats, labels: NDArray[Any], learn: Callable[..., Learner]
) -> None:
    mine = triplets.astype(np.float32), table.astype(np.float32), labels.copy()
    kept = [array.tobytes() for array in mine]
    learn(make_every(), *mine)
    assert [array.tobytes() for array in mine] == kept


def test_learning_does_not_change_the_table(
    make_typical: Factory, table: Floats, indices: NDArray[np.int64]
) -> None:
    mine = table.astype(np.float32)
    make_typical(preprocessor=mine).partial_fit(indices)
    np.testing.assert_array_equal(mine, table)


def test_writing_to_transformed_items_does_not_change_the_learner(
    make_with_distances: Factory, saved: Saved, triplets: Floats, table: Floats
) -> None:
    learner = make_with_distances().partial_fit(triplets)
    before = saved(learner)
    learner.transform(table)[...] = 7.0
    assert saved(learner) == before


def test_writing_to_the_attributes_does_not_change_the_learner(
    make_typical: Factory, snapshot: Learned, triplets: Floats
) -> None:
    learner = make_typical().partial_fit(triplets)
    before = snapshot(learner)
    for name in before["learned"]:
        for array in arrays_in(getattr(learner, name)):
            array[...] = 7
    assert snapshot(learner) == before


def test_a_metric_is_frozen(make_typical: Factory, seen: Seen, triplets: Floats, table: Floats) -> None:
    learner = make_typical().partial_fit(triplets)
    metric = learner.metric()
    before = seen(metric, table)
    learner.partial_fit(triplets)
    np.testing.assert_array_equal(seen(metric, table), before)


def test_a_metric_cannot_be_written_to(make_typical: Factory, triplets: Floats) -> None:
    metric = make_typical().partial_fit(triplets).metric()
    assert [name for name, value in vars(metric).items() if arrays_in(value)] == []


def test_a_metric_transforms_as_its_learner_does(
    make_with_distances: Factory, triplets: Floats, table: Floats
) -> None:
    learner = make_with_distances().partial_fit(triplets)
    np.testing.assert_array_equal(learner.metric().transform(table), learner.transform(table))


def arrays_in(value: Any) -> list[NDArray[Any]]:
    """The writable arrays that an attribute is, or is a list of."""
    found = value if isinstance(value, list | tuple) else [value]
    return [array for array in found if isinstance(array, np.ndarray) and array.flags.writeable]


# -- before anything was learned -------------------------------------------------------------------------


NOT_BEFORE_LEARNING: dict[str, Callable[..., Any]] = {name: use for name, use in USES.items() if name != "repr"} | {
    "n_seen_": lambda learner, *_: learner.n_seen_,
    "utilization_": lambda learner, *_: learner.utilization_,
}


@pytest.mark.parametrize("use", NOT_BEFORE_LEARNING.values(), ids=NOT_BEFORE_LEARNING.keys())
def test_using_an_unfitted_learner_is_an_error_that_says_what_to_do(
    make_typical: Factory,
    seen: Seen,
    tmp_path: Path,
    triplets: Floats,
    table: Floats,
    labels: NDArray[Any],
    use: Callable[..., Any],
) -> None:
    with pytest.raises(NotFittedError, match=r"not fitted yet.*fit, partial_fit or learn_one"):
        use(make_typical(), seen, triplets, table, labels, tmp_path)


def test_the_error_of_an_unfitted_learner_is_one_of_scikit_learn() -> None:
    assert issubclass(NotFittedError, SklearnNotFittedError)


@pytest.mark.parametrize(
    "name",
    ["metric_weights_", "hidden_weights_", "hidden_biases_", "embedding_weights_", "embedding_biases_",
     "history_rounds_", "loss_history_", "weight_history_"],
)  # fmt: skip
def test_attributes_of_an_unfitted_oahu_raise(make_oahu: Factory, name: str) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(make_oahu(), name)


def test_a_failed_save_leaves_no_file(make_typical: Factory, tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        make_typical().save(tmp_path / "learner")
    assert list(tmp_path.iterdir()) == []


def test_scikit_learn_sees_whether_a_learner_is_fitted(make_typical: Factory, triplets: Floats) -> None:
    with pytest.raises(SklearnNotFittedError):
        check_is_fitted(make_typical())
    check_is_fitted(make_typical().partial_fit(triplets))
