"""Learners of triplets or pairs learn from clicks as from the triplets or pairs of the clicks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oahu
from oahu import Click, Clicks, InvalidInputError, InvalidTypeError, Pair, Pairs, Triplet, Triplets
from oahu.learners import LEARNERS, TripletLearner
from oahu.learners.kinds import PairLearner

rng = np.random.default_rng(0)
TABLE = rng.normal(size=(30, 4))
QUERY = rng.normal(size=4)
CLICKS = [
    Click(0, [1], [2]),
    Click(3, [4, 5], [6], shown=[7, 8], weight=0.5),
    Click(QUERY, [9], [10, 11, 12]),
    Click(13, [14]),
    Click(15, negatives=[16, 17]),
    Click(18, [19, 20, 21], [22, 23]),
]
MIXED = [Triplet(24, 25, 26), *CLICKS[:3], Pair(27, 28, True), *CLICKS[3:], Pair(28, 29, False)]
PAIR_LEARNERS = [name for name in LEARNERS if issubclass(getattr(oahu, name), PairLearner)]
TRIPLET_LEARNERS = [name for name in LEARNERS if issubclass(getattr(oahu, name), TripletLearner)]


def learner_of(name: str, **parameters: Any) -> Any:
    if name == "OPML":
        parameters["gamma"] = 1e-4
    return getattr(oahu, name)(random_state=0, dtype="float64", **parameters)


def value(item: Any) -> Any:
    return item if isinstance(item, np.ndarray) else TABLE[item]


def expected(name: str, constraints: list[Any]) -> Any:
    """A learner of the triplets or pairs of the constraints, given as values.

    A learner of clicks learns the constraints one by one.
    """
    if name not in PAIR_LEARNERS + TRIPLET_LEARNERS:
        learner = learner_of(name, preprocessor=TABLE)
        for constraint in constraints:
            learner.partial_fit([constraint])
        return learner
    triplets, pairs, same = [], [], []
    for constraint in constraints:
        if not isinstance(constraint, Pair):
            pos = constraint.positives if isinstance(constraint, Click) else [constraint.positive]
            neg = constraint.negatives if isinstance(constraint, Click) else [constraint.negative]
            n = max(len(pos), len(neg)) if pos and neg else 0
            triplets += [
                [value(constraint[0]), TABLE[pos[k % len(pos)]], TABLE[neg[k % len(neg)]]] for k in range(n)
            ]
        for first, second, label in (constraint,) if isinstance(constraint, Pair) else constraint.pairs:
            pairs.append([value(first), TABLE[second]])
            same.append(label)
    if name in PAIR_LEARNERS:
        return learner_of(name).partial_fit(pairs, same)
    return learner_of(name).partial_fit(triplets)


def same_model(a: Any, b: Any) -> bool:
    a.set_params(preprocessor=None)
    return bool((a.n_seen_, a._to_content().state) == (b.n_seen_, b._to_content().state)) and all(
        np.array_equal(array, b._to_content().arrays[name]) for name, array in a._to_content().arrays.items()
    )


@pytest.mark.parametrize("name", [*TRIPLET_LEARNERS, *PAIR_LEARNERS])
@pytest.mark.parametrize("constraints", [CLICKS, MIXED], ids=["clicks", "mixed"])
def test_clicks_are_learned_as_their_triplets_or_pairs(name: str, constraints: list[Any]) -> None:
    given = learner_of(name, preprocessor=TABLE).partial_fit(constraints)
    assert same_model(given, expected(name, constraints))
    batch = learner_of(name).partial_fit(Clicks(constraints, preprocessor=TABLE))
    assert same_model(batch, given)


@pytest.mark.parametrize("name", [*TRIPLET_LEARNERS, *PAIR_LEARNERS])
def test_clicks_may_be_given_by_value(name: str) -> None:
    clicks = [
        Click(value(c.query), *([TABLE[item] for item in part] for part in c[1:4]), weight=c.weight) for c in CLICKS
    ]
    assert same_model(learner_of(name).partial_fit(clicks), expected(name, CLICKS))


@pytest.mark.parametrize("name", ["OAHU", "LEGO", "OPML"])
def test_fit_learns_from_clicks(name: str) -> None:
    for data in (MIXED, Clicks(MIXED, preprocessor=TABLE)):
        learner = learner_of(name, preprocessor=TABLE).fit(TABLE[[[3, 2, 1]]]).fit(data)
        assert same_model(learner, expected(name, MIXED))


@pytest.mark.parametrize("name", ["AnchoredOAHU", "LEGO"])
@pytest.mark.parametrize("split", range(1, len(MIXED) - 1))
def test_the_result_does_not_depend_on_how_the_list_is_split(name: str, split: int) -> None:
    parts = learner_of(name, preprocessor=TABLE).partial_fit(MIXED[:split]).partial_fit(MIXED[split:])
    assert same_model(parts, expected(name, MIXED))


@pytest.mark.parametrize("name", ["AnchoredOAHU", "LEGO"])
def test_learn_one_accepts_single_clicks_and_triplets(name: str) -> None:
    one_by_one = learner_of(name, preprocessor=TABLE)
    for click in CLICKS:
        one_by_one.learn_one(click)
    one_by_one.learn_one(Triplet(0, 1, 2))
    assert same_model(one_by_one, expected(name, [*CLICKS, Triplet(0, 1, 2)]))


@pytest.mark.parametrize("item", [Click(0, [1], [2]), 3, None])
def test_learn_one_of_a_single_item_with_a_label_or_of_another_type_raises(item: Any) -> None:
    learner = learner_of("AnchoredOAHU", preprocessor=TABLE)
    with pytest.raises(InvalidInputError, match="a Click, Triplet or Pair"):
        learner.learn_one(item, y=1 if isinstance(item, Click) else None)
    assert not hasattr(learner, "n_seen_")


def test_a_list_of_pairs_is_learned_by_a_learner_of_pairs() -> None:
    pairs = [Pair(0, 1, True), Pair(2, 3, False)]
    assert same_model(learner_of("RDML", preprocessor=TABLE).partial_fit(pairs), expected("RDML", pairs))


def test_clicks_are_scored_as_their_triplets() -> None:
    learner = learner_of("OAHU", preprocessor=TABLE).partial_fit(CLICKS)
    clicks = Clicks(CLICKS, preprocessor=TABLE)
    assert learner.score(CLICKS) == learner.score(clicks) == learner.score(clicks.triplets())


def test_a_sparse_table() -> None:
    from scipy import sparse

    table = sparse.csr_matrix(TABLE)
    given = learner_of("OASIS", preprocessor=table).partial_fit(MIXED)
    np.testing.assert_allclose(given.matrix_, expected("OASIS", MIXED).matrix_, rtol=1e-12)


@pytest.mark.parametrize("name", TRIPLET_LEARNERS)
def test_one_sided_clicks_alone_are_an_error_of_learners_of_triplets(name: str) -> None:
    learner = learner_of(name, preprocessor=TABLE)
    message = (
        "this learner needs clicks with at least one positive and one negative. Got 2 clicks or pairs with only"
    )
    with pytest.raises(InvalidInputError, match=message):
        learner.partial_fit(CLICKS[3:5])


INVALID: dict[str, tuple[Any, Any, str]] = {
    "labels": (CLICKS, [1] * len(CLICKS), "Clicks have their own labels: y must be None"),
    "one click": (CLICKS[0], None, r"must be a list. Got one Click instead: write \[Click\(...\)\]"),
    "an invalid click": ([*CLICKS, Click(0, [1], [1])], None, "Click 6: the item 1 occurs twice"),
    "an unknown row": ([*MIXED, Click(0, [1], [30])], None, "The 1st negative of click 9 is row 30"),
    "an unknown row in a triplet": ([CLICKS[0], Triplet(0, 30, 1)], None, "The positive of triplet 1 is row 30"),
    "other features": ([Click([0.0], [[1.0]], [[2.0]])], None, "X has 1 features, but .* is expecting 4 features"),
    "NaN": (
        [*CLICKS, Click([np.nan] * 4, [1], [2])],
        None,
        "Input contains NaN: the query of click 6 at feature 0",
    ),
    "something else": ([CLICKS[0], "tea"], None, "Got 'tea' at position 1 instead"),
}


@pytest.mark.parametrize("name", ["OAHU", "AnchoredOAHU", "LEGO", "OPML"])
@pytest.mark.parametrize(("data", "y", "message"), INVALID.values(), ids=INVALID.keys())
def test_invalid_clicks_change_nothing(name: str, data: Any, y: Any, message: str) -> None:
    learner = learner_of(name, preprocessor=TABLE).partial_fit(MIXED)
    with pytest.raises(InvalidInputError, match=message):
        learner.partial_fit(data, y)
    assert same_model(learner, expected(name, MIXED))


def test_a_learner_of_dense_items_rejects_clicks_on_a_sparse_table() -> None:
    from scipy import sparse

    clicks = Clicks(CLICKS, preprocessor=sparse.csr_matrix(TABLE))
    with pytest.raises(InvalidTypeError, match="LEGO needs dense features"):
        learner_of("LEGO").partial_fit(clicks)


@pytest.mark.parametrize("name", ["LEGO", "OASIS"])
def test_a_rejected_click_is_named(name: str) -> None:
    huge = np.full(4, 1e200)
    clicks = [Click(TABLE[0], [TABLE[1]], [TABLE[2]]), Click(huge, [-huge], [huge / 2])]
    learner = learner_of(name, **({"normalize": False} if name == "OASIS" else {}))
    with pytest.raises(oahu.RejectedConstraintError, match="Click 1 was rejected") as caught:
        learner.partial_fit(clicks)
    assert caught.value.row == 1


def test_pairs_and_triplets_of_clicks_are_learned_like_any_others() -> None:
    clicks = Clicks(CLICKS, preprocessor=TABLE)
    assert isinstance(clicks.pairs(), Pairs)
    assert isinstance(clicks.triplets(), Triplets)
    assert same_model(learner_of("LEGO").partial_fit(clicks.pairs()), expected("LEGO", CLICKS))
    assert same_model(learner_of("OASIS").partial_fit(clicks.triplets()), expected("OASIS", CLICKS))
