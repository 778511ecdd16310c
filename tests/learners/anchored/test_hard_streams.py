"""Difficult feedback and difficult catalogues: the model stays finite, and useless feedback does no clear harm.

The catalogue has six classes. Six features have a large variance and no information about the classes, so that the
unlearned metric finds many wrong items, and right feedback has a large effect.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oahu import AnchoredOAHU, Click, CosineMetric, RejectedConstraintError, Triplets, sample_triplets
from oahu.learners.anchored import group_store

Rows = NDArray[np.float64]

N_USELESS, D = 6, 24
_RNG = np.random.default_rng(0)
_CENTRES = _RNG.normal(size=(6, D)) * np.r_[np.zeros(N_USELESS), np.ones(D - N_USELESS)]
_LABELS = _RNG.integers(6, size=1_000)
_ITEMS = _CENTRES[_LABELS] + _RNG.normal(size=(1_000, D)) * np.r_[np.full(N_USELESS, 4.0), np.ones(D - N_USELESS)]
ITEMS, QUERIES, LABELS, TRUTH = _ITEMS[:600], _ITEMS[600:], _LABELS[:600], _LABELS[600:]

#: A clear difference of precision@10. The standard error of a precision, over 400 queries, is 0.01.
CLEAR = 0.05


def precision(learner: AnchoredOAHU, items: Rows = ITEMS, queries: Rows = QUERIES) -> float:
    """Return the share of matches with the label of the query, among the ten nearest items of each query."""
    nearest = np.argsort(-learner.metric().scores(queries, items), axis=1)[:, :10]
    return float(np.mean(LABELS[nearest] == TRUTH[:, None]))


def unlearned(items: Rows = ITEMS) -> AnchoredOAHU:
    return AnchoredOAHU(preprocessor=items, random_state=0).initialize(items.shape[1])


def learned(clicks: Any, items: Rows = ITEMS, **parameters: Any) -> AnchoredOAHU:
    return AnchoredOAHU(preprocessor=items, random_state=0, **parameters).partial_fit(clicks)


@cache
def unlearned_precision() -> float:
    return precision(unlearned())


def assert_sound(learner: AnchoredOAHU, items: Rows = ITEMS) -> None:
    """Check that all numbers and distances are finite, and that the weights sum to 1."""
    assert all(np.isfinite(array).all() for array in learner._fitted_state().arrays.values())
    for weights in (learner.metric_weights_, learner.metric().metric_weights):
        assert (weights >= 0).all()
        assert weights.sum() == pytest.approx(1)
    vectors = learner.transform(items[:100])
    assert vectors.shape[1] > 0
    assert np.isfinite(vectors).all()
    assert np.isfinite(learner.metric().distance(items[:50], items[-50:])).all()


# -- users -------------------------------------------------------------------------------------------------------


@cache
def right_clicks(n: int = 200, seed: int = 0) -> list[Click]:
    """Return clicks of a user who marks the ten nearest items of a query, by cosine, as alike or not alike."""
    rng, scores = np.random.default_rng(seed), CosineMetric(D).scores(ITEMS, ITEMS)
    np.fill_diagonal(scores, -np.inf)
    clicks = []
    for query in rng.integers(len(ITEMS), size=n).tolist():
        shown = np.argsort(-scores[query])[:10]
        alike = LABELS[shown] == LABELS[query]
        clicks.append(Click(query, shown[alike].tolist(), shown[~alike].tolist()))
    return clicks


def inverted(click: Click) -> Click:
    return Click(click.query, click.negatives, click.positives)


def random_marks(click: Click, rng: np.random.Generator) -> Click:
    shown = np.array([*click.positives, *click.negatives])
    alike = rng.random(len(shown)) < 0.5
    return Click(click.query, shown[alike].tolist(), shown[~alike].tolist())


def mixed_click() -> Click:
    return next(click for click in right_clicks() if min(len(click.positives), len(click.negatives)) > 1)


def test_right_clicks_improve_the_search() -> None:
    learner = learned(right_clicks())
    assert_sound(learner)
    assert precision(learner) > unlearned_precision() + 4 * CLEAR


def test_contradictory_users_do_no_clear_harm() -> None:
    """Two users give the opposite marks for the same results."""
    learner = learned([part for click in right_clicks() for part in (click, inverted(click))])
    assert_sound(learner)
    assert precision(learner) > unlearned_precision() - CLEAR


def test_random_marks_do_no_clear_harm() -> None:
    rng = np.random.default_rng(1)
    learner = learned([random_marks(click, rng) for click in right_clicks()])
    assert_sound(learner)
    assert precision(learner) > unlearned_precision() - CLEAR


def test_one_user_of_four_who_is_always_wrong_does_not_prevent_learning() -> None:
    clicks = [inverted(click) if number % 4 == 0 else click for number, click in enumerate(right_clicks())]
    learner = learned(clicks)
    assert_sound(learner)
    assert precision(learner) > unlearned_precision() + 2 * CLEAR


def test_a_user_who_is_always_wrong_leaves_the_model_finite() -> None:
    assert_sound(learned(list(map(inverted, right_clicks()))))


def test_clicks_with_only_alike_items_improve_the_search() -> None:
    learner = learned([Click(click.query, click.positives) for click in right_clicks() if click.positives])
    assert_sound(learner)
    assert precision(learner) > unlearned_precision() + 2 * CLEAR


def test_clicks_with_only_items_that_are_not_alike_do_no_clear_harm() -> None:
    learner = learned([Click(click.query, [], click.negatives) for click in right_clicks() if click.negatives])
    assert_sound(learner)
    assert precision(learner) > unlearned_precision() - CLEAR


def test_the_same_click_many_times_is_learned_and_does_no_clear_harm() -> None:
    click = mixed_click()
    learner = learned([click] * 400)
    assert_sound(learner)
    assert precision(learner) > unlearned_precision() - CLEAR
    items = [click.query, *click.positives, *click.negatives]
    alike = np.arange(len(items) - 1) < len(click.positives)

    def gap(model: AnchoredOAHU) -> float:
        """Return how much nearer alike items are to the query than the others, relative to all distances."""
        distances = -model.metric().scores(ITEMS[items[:1]], ITEMS[items[1:]])[0]
        return float((distances[~alike].mean() - distances[alike].mean()) / distances.mean())

    assert gap(learner) > gap(unlearned()) + 0.1


def test_pairs_that_contradict_each_other_leave_the_model_finite() -> None:
    pairs = np.random.default_rng(2).integers(600, size=(300, 2)).repeat(2, axis=0)
    same = np.tile([1, -1], 300)
    learner = AnchoredOAHU(preprocessor=ITEMS, random_state=0).partial_fit(pairs, same)
    assert_sound(learner)
    assert precision(learner) > unlearned_precision() - CLEAR


TRIPLETS: dict[str, Callable[[NDArray[np.intp]], NDArray[np.intp]]] = {
    "the positive is the anchor": lambda triplets: triplets[:, [0, 0, 2]],
    "the positive is the negative": lambda triplets: triplets[:, [0, 1, 1]],
    "the negative is the anchor": lambda triplets: triplets[:, [0, 1, 0]],
    "all items are the same": lambda triplets: np.zeros_like(triplets),
    "drawn without labels": lambda triplets: np.random.default_rng(0).integers(600, size=triplets.shape),
}


@pytest.mark.parametrize("change", TRIPLETS.values(), ids=TRIPLETS.keys())
def test_degenerate_triplets_do_no_clear_harm(
    change: Callable[[NDArray[np.intp]], NDArray[np.intp]],
) -> None:
    triplets = change(sample_triplets(LABELS, 1_000, random_state=0))
    learner = learned(Triplets(triplets, preprocessor=ITEMS))
    assert_sound(learner)
    assert precision(learner) > unlearned_precision() - CLEAR


@pytest.mark.parametrize("temperature", [0.01, 0.0001])
def test_a_low_temperature_leaves_the_model_finite(temperature: float) -> None:
    assert_sound(learned(right_clicks(60), temperature=temperature))


# -- catalogues --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_row", [True, False])
def test_a_catalogue_of_equal_items_has_distances_of_zero(by_row: bool) -> None:
    items = np.tile(ITEMS[:1], (50, 1))
    rows = [np.random.default_rng(k).permutation(50)[:8].tolist() for k in range(100)]
    clicks: list[Any] = [Click(row[0], row[1:4], row[4:]) for row in rows]
    if by_row:
        learner = learned(clicks, items)
    else:
        vectors = [Click(items[c.query], items[c.positives], items[c.negatives]) for c in clicks]
        learner = AnchoredOAHU(random_state=0).partial_fit(vectors)
    assert_sound(learner, items)
    assert learner.metric().distance(items[:1], items[1:2])[0] == pytest.approx(0, abs=1e-6)


def test_a_catalogue_in_which_each_item_occurs_ten_times_is_learned() -> None:
    items = ITEMS[np.arange(600) // 10 * 10]
    labels = LABELS[np.arange(600) // 10 * 10]
    rng, clicks = np.random.default_rng(0), []
    for query in rng.integers(600, size=200).tolist():
        copies = [row for row in range(query // 10 * 10, query // 10 * 10 + 10) if row != query]
        shown = np.array(
            [*copies[:3], *rng.choice(np.setdiff1d(np.arange(600), [*copies, query]), 6, replace=False)]
        )
        alike = labels[shown] == labels[query]
        clicks.append(Click(query, shown[alike].tolist(), shown[~alike].tolist()))
    learner = learned(clicks, items)
    assert_sound(learner, items)

    def share(model: AnchoredOAHU) -> float:
        different = np.arange(0, 600, 10)
        nearest = np.argsort(-model.metric().scores(QUERIES, items[different]), axis=1)[:, :5]
        return float(np.mean(labels[different][nearest] == TRUTH[:, None]))

    assert share(learner) > share(unlearned(items)) + 2 * CLEAR


def test_a_catalogue_of_one_item() -> None:
    rng = np.random.default_rng(0)
    clicks = []
    for number in range(100):
        query = ITEMS[0] + rng.normal(size=D)
        clicks.append(Click(query, [0]) if number % 3 else Click(query, [], [0]))
    learner = learned(clicks, ITEMS[:1])
    assert learner.n_seen_ == 100
    assert_sound(learner, ITEMS)


def test_one_item_as_query_and_as_every_other_item() -> None:
    clicks = [Click(ITEMS[0], [ITEMS[0]], [ITEMS[0]]), Click(ITEMS[0], [ITEMS[0]]), Click(ITEMS[0], [], [ITEMS[0]])]
    assert_sound(AnchoredOAHU(random_state=0).partial_fit(clicks * 30))


@pytest.mark.parametrize("d", [1, 2, 3, 129])
@pytest.mark.parametrize("with_table", [True, False])
def test_any_number_of_features(d: int, with_table: bool) -> None:
    rng = np.random.default_rng(d)
    items = rng.normal(size=(200, d))
    rows = [rng.permutation(200)[:7].tolist() for _ in range(100)]
    if with_table:
        clicks: list[Any] = [Click(row[0], row[1:4], row[4:]) for row in rows]
        learner = learned(clicks, items)
    else:
        clicks = [Click(items[row[0]], items[row[1:4]], items[row[4:]]) for row in rows]
        learner = AnchoredOAHU(random_state=0).partial_fit(clicks)
    assert_sound(learner, items)


def test_two_features_of_which_one_is_useless() -> None:
    rng = np.random.default_rng(0)
    side = rng.integers(2, size=400)
    items = np.stack([50 * rng.normal(size=400), 2 * side - 1 + 0.5 * rng.normal(size=400)], axis=1)
    rows = [rng.permutation(300)[:9] for _ in range(200)]
    clicks = [
        Click(int(q), others[side[others] == side[q]].tolist(), others[side[others] != side[q]].tolist())
        for q, *rest in rows
        for others in [np.array(rest)]
    ]

    def share(model: AnchoredOAHU) -> float:
        nearest = np.argsort(-model.metric().scores(items[300:], items[:300]), axis=1)[:, :10]
        return float(np.mean(side[nearest] == side[300:, None]))

    learner = learned(clicks, items)
    assert_sound(learner, items)
    assert share(learner) > share(unlearned(items)) + 2 * CLEAR


def test_4096_features() -> None:
    """The classes are the same as in the other tests. Further features are noise."""
    noise = 0.1 * np.random.default_rng(0).normal(size=(1_000, 4_096 - D))
    items, queries = np.hstack([ITEMS, noise[:600]])[:200], np.hstack([QUERIES, noise[600:]])
    learner = learned(clicks_among(0, 200, 60), items)
    assert_sound(learner, items)
    assert precision(learner, items, queries) > precision(unlearned(items), items, queries) + CLEAR


def with_constant_features(items: Rows) -> Rows:
    return np.hstack([items, np.full((len(items), 50), 7.0)])


def duplicated_features(items: Rows) -> Rows:
    return np.hstack([items, items])


def of_low_rank(items: Rows) -> Rows:
    return np.asarray(items @ np.random.default_rng(1).normal(size=(D, 60)))


def of_mixed_scales(items: Rows) -> Rows:
    return items * 10.0 ** np.random.default_rng(2).uniform(-6, 6, D)


TABLES: dict[str, Callable[[Rows], Rows]] = {
    "with constant features": with_constant_features,
    "with every feature twice": duplicated_features,
    "of low rank": of_low_rank,
    "of mixed scales": of_mixed_scales,
    "far from the origin": lambda items: items + 1e4,
    "tiny": lambda items: items * 1e-8,
    "huge": lambda items: items * 1e8,
}


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES.keys())
def test_right_clicks_improve_the_search_in_other_tables(make: Callable[[Rows], Rows]) -> None:
    items, queries = make(ITEMS), make(QUERIES)
    learner = learned(right_clicks(), items)
    assert_sound(learner, items)
    gain = -CLEAR if make is of_mixed_scales else 2 * CLEAR  # there, the largest features hide the classes
    assert precision(learner, items, queries) > precision(unlearned(items), items, queries) + gain


def test_the_scale_of_the_items_does_not_matter() -> None:
    """A power of two changes no rounding. Only the Euclidean space knows the scale, relative to the catalogue."""
    small, large = (learned(right_clicks(), ITEMS * scale, dtype="float64") for scale in (1.0, 1_024.0))
    assert large.metric_weights_ == pytest.approx(small.metric_weights_, abs=1e-6)
    assert large.transform(QUERIES * 1_024.0) == pytest.approx(small.transform(QUERIES), abs=1e-6)


# -- catalogues that grow ----------------------------------------------------------------------------------------


def clicks_among(first: int, last: int, n: int) -> list[Click]:
    """Return right clicks whose items are rows from ``first`` to ``last``."""
    rng = np.random.default_rng(last)
    rows = [rng.choice(np.arange(first, last), 10, replace=False) for _ in range(n)]
    return [
        Click(
            int(row[0]),
            rest[LABELS[rest] == LABELS[row[0]]].tolist(),
            rest[LABELS[rest] != LABELS[row[0]]].tolist(),
        )
        for row in rows
        for rest in [row[1:]]
    ]


@pytest.mark.parametrize("block", [1, 25, 300], ids=lambda size: f"{size} at first")
def test_items_are_appended_while_learning_goes_on(block: int) -> None:
    learner = AnchoredOAHU(preprocessor=ITEMS[:block], random_state=0).initialize(D)
    sizes = [block, *(size for size in range(50, 601, 50) if size > block)]
    for size in sizes:
        learner.set_params(preprocessor=ITEMS[:size])
        if size >= 10:
            learner.partial_fit(clicks_among(0, size, 25))
            assert_sound(learner)
    assert learner.n_seen_ == 25 * sum(size >= 10 for size in sizes)
    assert precision(learner) > unlearned_precision() + 2 * CLEAR


def test_appended_items_become_part_of_the_background() -> None:
    """The table has doubled, so the mean of the metric is the mean of the larger table."""
    learner = AnchoredOAHU(preprocessor=ITEMS[:300], dtype="float64", random_state=0)
    learner.partial_fit(clicks_among(0, 300, 20))
    assert learner.metric().arrays.mean == pytest.approx(ITEMS[:300].mean(axis=0))
    learner.set_params(preprocessor=ITEMS).partial_fit(clicks_among(300, 600, 20))
    assert learner.metric().arrays.mean == pytest.approx(ITEMS.mean(axis=0))


def test_a_shorter_table_is_an_error_that_changes_nothing() -> None:
    learner = learned(clicks_among(300, 600, 20))
    before = learner.transform(QUERIES)
    learner.set_params(preprocessor=ITEMS[:100])
    with pytest.raises(ValueError, match="missing or too short"):
        learner.partial_fit(clicks_among(0, 100, 20))
    assert learner.n_seen_ == 20
    np.testing.assert_array_equal(learner.transform(QUERIES), before)


@pytest.mark.parametrize("n_marks", [2, 9])
def test_without_a_table_the_metric_is_useful_after_every_click(n_marks: int) -> None:
    """There are no principal axes before enough items are known, so the learned spaces are empty at first."""
    learner = AnchoredOAHU(random_state=0)
    for click in clicks_among(0, 600, 40):
        others = [*click.positives, *click.negatives][:n_marks]
        alike = LABELS[others] == LABELS[click.query]
        learner.partial_fit([Click(ITEMS[click.query], ITEMS[others][alike], ITEMS[others][~alike])])
        assert_sound(learner)
        assert precision(learner) > unlearned_precision() - CLEAR


# -- limits ------------------------------------------------------------------------------------------------------


def test_memory_of_the_model_does_not_grow_with_the_stream() -> None:
    def n_bytes(learner: AnchoredOAHU) -> int:
        return sum(array.nbytes for array in learner._fitted_state().arrays.values())

    learner = learned(right_clicks(20))
    before = n_bytes(learner)
    assert n_bytes(learner.partial_fit(right_clicks(200))) == before
    d, r, h = D, min(D, len(ITEMS)), learner.metric().arrays.hidden_bias.size
    stated = d * r + 5 * r**2 + 6 * r * h  # axes, linear map and pair whitening, network; each number in float32
    assert 4 * stated <= before <= 1.2 * 4 * stated


def test_the_number_of_stored_clicks_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_store, "_MAX_GROUPS", 50)
    learner = learned(right_clicks(200))
    state: Any = learner._fitted_state()
    assert len(state.groups) == 50
    assert_sound(learner)


def test_a_too_large_item_is_rejected_and_changes_nothing() -> None:
    learner = learned(right_clicks(20))
    before = learner.transform(QUERIES)
    clicks = [Click(ITEMS[0], [ITEMS[1]], [ITEMS[2]]) for _ in range(10)]
    clicks[7] = Click(ITEMS[0], [np.full(D, 1e20)], [ITEMS[2]])
    with pytest.raises(RejectedConstraintError, match="Click 7 was rejected"):
        learner.partial_fit(clicks)
    assert learner.n_seen_ == 20
    np.testing.assert_array_equal(learner.transform(QUERIES), before)
