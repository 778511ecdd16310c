"""Evidence: the answers to both questions and their sums against plain Python, and marks that mean nothing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from oahu.learners.anchored.evidence import (
    _ANCHOR_PRIOR,
    _ANCHORS,
    _BALANCED,
    _CENTRED,
    _DECAY,
    _EXPERT_PRIOR,
    _MAX_COMPARISONS,
    _MAX_TOTAL,
    _NEAR,
    _PROFILE_PRIOR,
    _RANK_SCALE,
    _RANK_SHARE,
    _RATE,
    _TOTALS,
    Evidence,
)
from oahu.learners.anchored.groups import Groups
from oahu.metrics.anchored_metric import N_ANCHORS, SPACES

Rows = NDArray[np.float64]

N = len(SPACES)
N_PROFILES = len(_TOTALS) + 1
ANCHORS, EXPERTS, PROFILES = slice(0, N_ANCHORS), slice(N_ANCHORS, N), slice(N, N + N_PROFILES)
HEDGES = (ANCHORS, EXPERTS, PROFILES)
PRIORS = (_ANCHOR_PRIOR, _EXPERT_PRIOR, _PROFILE_PRIOR)
RANDOM_GAINS = Evidence(np.random.default_rng(9).normal(0, 0.4, PROFILES.stop), np.array([1.5, 2.0, 3.0]))


def groups_of(marks: Sequence[Sequence[float]], weights: Sequence[float] | None = None) -> Groups:
    flat = np.array([mark for group in marks for mark in group], np.float32)
    rows = np.arange(len(flat))
    sizes = [len(group) for group in marks]
    return Groups.of(sizes, rows, np.zeros((0, 1)), flat, np.ones(len(sizes)) if weights is None else weights)


def random_groups(seed: int, n: int) -> Groups:
    """Return groups of 2 to 6 items, with weak marks, weights, and groups without any pair of alike items."""
    rng = np.random.default_rng(seed)
    marks = [
        [1.0, *rng.choice([1, 1, 0.3, -0.3, -1, -1], size).tolist()] for size in rng.integers(1, 6, n).tolist()
    ]
    return groups_of(marks, rng.uniform(0.1, 1, n).tolist())


def continuous(seed: int, n: int) -> list[Rows]:
    rng = np.random.default_rng(seed)
    return [rng.normal(0, 1, (n, 3)) * rng.uniform(0.5, 2) for _ in range(N)]


def on_a_grid(seed: int, n: int) -> list[Rows]:
    """Return vectors with many equal distances. Halves of their squares are powers of two, so sums are exact."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 3, (n, 1)).astype(np.float64) for _ in range(N)]


# -- the same definitions in plain Python ----------------------------------------------------------------------


def softmax(evidence: Evidence, hedge: int) -> list[float]:
    gains, square = evidence.gains[HEDGES[hedge]].tolist(), float(evidence.squares[hedge])
    factors = [
        prior * math.exp(_RATE * gain / math.sqrt(square))
        for prior, gain in zip(PRIORS[hedge].tolist(), gains, strict=True)
    ]
    return [factor / sum(factors) for factor in factors]


def starting_weights(evidence: Evidence) -> list[float]:
    weights = [0.0] * N_ANCHORS
    for share, row in zip(softmax(evidence, 0), _ANCHORS.tolist(), strict=True):
        for space, part in enumerate(row):
            weights[space] += share * part
    return weights


def mean_total(evidence: Evidence) -> float:
    totals = [*_TOTALS.tolist(), sum(_BALANCED[EXPERTS].tolist())]
    return sum(share * total for share, total in zip(softmax(evidence, 2), totals, strict=True))


def combined(starting: Sequence[float], learned: Sequence[float], total: float) -> list[float]:
    return [(1 - total) * weight for weight in starting] + [total * weight for weight in learned]


class Question:
    """The items of one group and the random items, with their distances under a mixture of spaces."""

    def __init__(self, spaces: Sequence[Rows], first: int, marks: Sequence[float], n_random: int) -> None:
        self.spaces, self.first = spaces, first
        self.alike = [i for i, mark in enumerate(marks) if mark > 0]
        self.unlike = {i: -mark for i, mark in enumerate(marks) if mark < 0}
        end = len(spaces[0])
        self.random = range(end - n_random, end)

    def distance(self, weights: Sequence[float], i: int, row: int) -> float:
        """Return the squared distance between item ``i`` of the group and a row of the vectors."""
        total = 0.0
        for weight, vectors in zip(weights, self.spaces, strict=True):
            own, other = vectors[self.first + i].tolist(), vectors[row].tolist()
            total += weight * sum((a - b) ** 2 for a, b in zip(own, other, strict=True))
        return total

    def nearness(self, weights: Sequence[float], i: int, j: int) -> float:
        """Return how near j is to i: the more random items are nearer, the smaller."""
        apart, nearer = self.distance(weights, i, self.first + j), 0.0
        for row in self.random:
            nearer += lower(self.distance(weights, i, row), apart)
        return 1 / (1 + nearer / (_RANK_SCALE * len(self.random)))

    def first_question(self, weights: Sequence[float]) -> float:
        if not self.random:
            return 0.0
        pairs = [self.nearness(weights, i, j) for i in self.alike for j in self.alike if i != j]
        answer = sum(pairs) / len(pairs)
        if self.unlike:
            unlike = sum(mark * self.nearness(weights, i, k) for i in self.alike for k, mark in self.unlike.items())
            mean = unlike / (len(self.alike) * sum(self.unlike.values()))
            answer -= mean * max(self.unlike.values())
        return answer

    def near(self, reference: Sequence[float]) -> list[int]:
        """Return the negatives for which less than 5% of the random items are nearer to the query."""
        near = []
        for k in self.unlike:
            apart = self.distance(reference, 0, self.first + k)
            n_nearer = sum(lower(self.distance(reference, 0, row), apart) == 1 for row in self.random)
            if n_nearer < _NEAR * len(self.random) - 1e-9 or not self.random:
                near.append(k)
        return near

    def second_question(self, weights: Sequence[float], near: Sequence[int]) -> float:
        total = sum_of_weights = 0.0
        for i, j, k in itertools.product(self.alike, self.alike, near):
            if i != j:
                apart = self.distance(weights, i, self.first + j), self.distance(weights, i, self.first + k)
                total += self.unlike[k] * lower(*apart)
                sum_of_weights += self.unlike[k]
        return total / sum_of_weights


def lower(first: float, second: float) -> float:
    """Return 1 if the first number is lower, and 1/2 if they are equal up to rounding."""
    if math.isclose(first, second, rel_tol=1e-10, abs_tol=1e-10):
        return 0.5
    return float(first < second)


def scores(evidence: Evidence, question: Question) -> tuple[list[float], float]:
    """Return the answers of 5 starting spaces, 3 learned spaces and 6 profiles, and of the reference."""
    starting, learned = starting_weights(evidence), softmax(evidence, 1)
    total = min(mean_total(evidence), _MAX_TOTAL)
    mixtures = [combined(row, learned, total) for row in _ANCHORS.tolist()]
    for expert in range(N - N_ANCHORS):
        mixtures.append(combined(starting, [float(expert == other) for other in range(N - N_ANCHORS)], 0.5))
    mixtures += [combined(starting, learned, each) for each in _TOTALS.tolist()] + [_BALANCED.tolist()]
    reference = combined(starting, learned, 0)
    near = question.near(reference)
    share = _RANK_SHARE if near else 1.0
    answers = [question.first_question(mixture) for mixture in [*mixtures, reference]]
    are_far = not near and question.unlike
    none, quarter, balanced = N, N + 1, N + len(_TOTALS)
    for place in range(quarter, balanced):
        answers[place] = min(answers[place], answers[none] if are_far else answers[quarter])
    if not are_far:
        answers[balanced] = min(answers[balanced], answers[quarter])
    answers = [share * answer for answer in answers]
    if near:
        for place, mixture in enumerate([*mixtures, reference]):
            answers[place] += question.second_question(mixture, near)
    return answers[:-1], answers[-1]


def expected_evidence(evidence: Evidence, spaces: Sequence[Rows], groups: Groups) -> Evidence:
    gains, squares = evidence.gains.tolist(), (evidence.squares - 1).tolist()
    n_random = len(spaces[0]) - len(groups.rows)
    for first, size, weight in zip(groups.offsets, groups.sizes, groups.weights.tolist(), strict=False):
        marks = groups.marks[first : first + size].tolist()
        if sum(mark > 0 for mark in marks) < 2:
            continue
        answers, reference = scores(evidence, Question(spaces, int(first), marks, n_random))
        compared = [answers[_CENTRED]] * N_ANCHORS + [reference] * (N - N_ANCHORS) + [answers[N]] * N_PROFILES
        new = [weight * (answer - other) for answer, other in zip(answers, compared, strict=True)]
        gains = [_DECAY * gain + each for gain, each in zip(gains, new, strict=True)]
        for hedge, part in enumerate(HEDGES):
            mean = sum(each**2 for each in new[part]) / len(new[part])
            squares[hedge] = _DECAY * squares[hedge] + mean
    return Evidence(np.array(gains), np.array(squares) + 1)


def assert_close(evidence: Evidence, expected: Evidence) -> None:
    """Weak marks are float32, so weights of pairs have errors of about 1e-7."""
    assert evidence.gains == pytest.approx(expected.gains, abs=1e-6)
    assert evidence.squares == pytest.approx(expected.squares, abs=1e-6)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n_random", [0, 1, 20, 48])
@pytest.mark.parametrize("vectors", [continuous, on_a_grid])
def test_evidence_agrees_with_plain_python(
    vectors: Callable[[int, int], list[Rows]], n_random: int, seed: int
) -> None:
    groups = random_groups(seed, 6)
    spaces = vectors(seed, len(groups.rows) + n_random)
    assert_close(RANDOM_GAINS.add(spaces, groups), expected_evidence(RANDOM_GAINS, spaces, groups))


@pytest.mark.parametrize("seed", range(4))
def test_the_first_evidence_agrees_with_plain_python(seed: int) -> None:
    groups = random_groups(seed, 6)
    spaces = continuous(seed, len(groups.rows) + 20)
    assert_close(Evidence.start().add(spaces, groups), expected_evidence(Evidence.start(), spaces, groups))


@pytest.mark.parametrize(("scale", "n_near"), [(0.1, 3), (30, 0)])
def test_only_near_negatives_are_compared_with_alike_items(scale: float, n_near: int) -> None:
    """The second question is asked about all negatives of a group, or about none of them."""
    groups = groups_of([[1, 1, 1, -1, -1, -0.3]])
    spaces = continuous(1, 6 + 40)
    for vectors in spaces:
        vectors[3:6] *= scale
        vectors[0] = 0
    start = starting_weights(RANDOM_GAINS) + [0.0] * (N - N_ANCHORS)
    assert len(Question(spaces, 0, groups.marks.tolist(), 40).near(start)) == n_near
    assert_close(RANDOM_GAINS.add(spaces, groups), expected_evidence(RANDOM_GAINS, spaces, groups))


def test_a_negative_is_near_if_the_nearest_random_item_is_as_near() -> None:
    groups = groups_of([[1, 1, -1]])
    spaces = continuous(1, 3 + 20)
    for vectors in spaces:
        vectors[[0, 2, 3]] = 0  # the query, the negative and one random item are equal
    assert_close(RANDOM_GAINS.add(spaces, groups), expected_evidence(RANDOM_GAINS, spaces, groups))


def test_learned_spaces_with_a_large_total_weight_agree_with_plain_python() -> None:
    """Starting spaces are compared together with learned spaces of at most half of the weight."""
    gains = RANDOM_GAINS.gains + np.r_[np.zeros(PROFILES.stop - 2), 3.0, 0.0]
    evidence = Evidence(gains, RANDOM_GAINS.squares)
    assert mean_total(evidence) > _MAX_TOTAL
    groups = random_groups(3, 6)
    spaces = continuous(3, len(groups.rows) + 20)
    assert_close(evidence.add(spaces, groups), expected_evidence(evidence, spaces, groups))


# -- weights -----------------------------------------------------------------------------------------------------


def test_the_weights_before_any_group_are_the_priors() -> None:
    *priors, balanced = _PROFILE_PRIOR.tolist()
    starting = [0.0] * N_ANCHORS
    for prior, row in zip(_ANCHOR_PRIOR, _ANCHORS, strict=True):
        for space in range(N_ANCHORS):
            starting[space] += prior * row[space]
    expected = balanced * _BALANCED
    for prior, total in zip(priors, _TOTALS.tolist(), strict=True):
        expected += prior * np.array(combined(starting, _EXPERT_PRIOR.tolist(), total))
    assert Evidence.start().weights == pytest.approx(expected)


def any_evidence() -> st.SearchStrategy[Evidence]:
    gains = st.lists(st.floats(-1e3, 1e3), min_size=PROFILES.stop, max_size=PROFILES.stop).map(np.array)
    squares = st.lists(st.floats(1, 1e3), min_size=3, max_size=3).map(np.array)
    return st.builds(Evidence, gains, squares)


@given(any_evidence())
def test_weights_are_not_negative_and_sum_to_1(evidence: Evidence) -> None:
    assert evidence.weights.min() >= 0
    assert evidence.weights.sum() == pytest.approx(1)


@given(any_evidence())
def test_the_catalogue_whitened_space_has_at_most_half_of_the_starting_weight(evidence: Evidence) -> None:
    starting = evidence.weights[ANCHORS]
    assert starting[SPACES.index("catalogue-whitened")] <= 0.5 * starting.sum() + 1e-12


@pytest.mark.parametrize("best", range(N))
def test_the_weight_of_the_best_space_approaches_its_largest_value(best: int) -> None:
    gains = np.zeros(PROFILES.stop)
    gains[best] = 100
    all_learned = N + len(_TOTALS) - 1
    gains[N if best < N_ANCHORS else all_learned] = 100  # all weight for the starting or for the learned spaces
    expected = 0.5 if SPACES[best] == "catalogue-whitened" else 1
    assert Evidence(gains, np.ones(3)).weights[best] == pytest.approx(expected)


def test_the_weights_change_less_if_gains_vary_more() -> None:
    gains = np.zeros(PROFILES.stop)
    gains[0] = 1
    calm, varying = (Evidence(gains, np.full(3, square)).weights[0] for square in (1.0, 9.0))
    assert Evidence.start().weights[0] < varying < calm


# -- chunks ------------------------------------------------------------------------------------------------------
# Mixtures depend on the weights before the call of `add`, so chunks agree exactly only in a hedge whose answers do
# not depend on the weights of the other hedges.


def independent_of_starting_weights(spaces: list[Rows]) -> list[Rows]:
    return [np.zeros_like(spaces[0])] * N_ANCHORS + spaces[N_ANCHORS:]


def independent_of_learned_weights(spaces: list[Rows]) -> list[Rows]:
    return spaces[:N_ANCHORS] + [np.zeros_like(spaces[0])] * (N - N_ANCHORS)


def two_spaces(spaces: list[Rows]) -> list[Rows]:
    return [spaces[0]] * N_ANCHORS + [spaces[-1]] * (N - N_ANCHORS)


@pytest.mark.parametrize(
    ("hedge", "vectors"),
    [(0, independent_of_learned_weights), (1, independent_of_starting_weights), (2, two_spaces)],
)
def test_groups_one_by_one_count_like_groups_together(
    hedge: int, vectors: Callable[[list[Rows]], list[Rows]]
) -> None:
    groups = groups_of([[1.0, 1.0, 1.0]] * 12, np.linspace(0.1, 1, 12).tolist())  # no negatives, so none is near
    spaces = vectors(continuous(5, 36 + 20))
    together = one_by_one = RANDOM_GAINS
    together = together.add(spaces, groups)
    for number in range(12):
        own = slice(3 * number, 3 * number + 3)
        part = [np.concatenate([each[own], each[36:]]) for each in spaces]
        one_by_one = one_by_one.add(part, groups.cut(number, number + 1))
    assert together.gains[HEDGES[hedge]] == pytest.approx(one_by_one.gains[HEDGES[hedge]], abs=1e-9)
    assert together.squares[hedge] == pytest.approx(one_by_one.squares[hedge], abs=1e-9)
    assert np.ptp(together.gains[HEDGES[hedge]] - RANDOM_GAINS.gains[HEDGES[hedge]]) > 0.1


# -- random marks ------------------------------------------------------------------------------------------------


def roles(n_items: int, n_alike: int) -> Iterator[tuple[list[int], list[float]]]:
    """Yield every order of items with the query first and every choice of alike items, and the marks."""
    marks = [1.0] * n_alike + [-1.0] * (n_items - n_alike)
    for query in range(n_items):
        others = [item for item in range(n_items) if item != query]
        for alike in itertools.combinations(others, n_alike - 1):
            yield [query, *alike, *(item for item in others if item not in alike)], marks


def mean_gains(spaces: Sequence[Rows], n_items: int, n_alike: int) -> Rows:
    """Return the mean gains of one group, over all choices of the query and of the alike items."""
    gains = []
    for order, marks in roles(n_items, n_alike):
        ordered = [np.concatenate([vectors[order], vectors[n_items:]]) for vectors in spaces]
        gains.append(Evidence.start().add(ordered, groups_of([marks])).gains)
    return np.asarray(np.mean(gains, axis=0))


def shown_items(seed: int, n_items: int, spreads: Sequence[float]) -> list[Rows]:
    """Return items that lie near each other, as the results of a search do, and 48 random items.

    The items lie the nearer to each other in a space the lower its spread is.
    """
    rng = np.random.default_rng(seed)
    return [np.concatenate([rng.normal(0, spread, (n_items, 6)), rng.normal(0, 1, (48, 6))]) for spread in spreads]


SPREADS = {
    "equal spread": [0.6] * N,
    "near each other in one starting space": [0.1, *[0.9] * (N - 1)],
    "near each other in the pair-whitened space": [0.9] * 4 + [0.1] + [0.9] * 3,
    "near each other in the learned spaces": [0.9] * N_ANCHORS + [0.1] * (N - N_ANCHORS),
    "near each other in the starting spaces": [0.1] * N_ANCHORS + [0.9] * (N - N_ANCHORS),
    "near each other in the network": [0.9] * (N - 1) + [0.1],
}


@pytest.mark.parametrize("n_alike", [2, 3, 4])
@pytest.mark.parametrize("spreads", SPREADS.values(), ids=SPREADS.keys())
def test_the_mean_gain_of_random_marks_is_0_if_no_negative_is_near(spreads: list[float], n_alike: int) -> None:
    """All roles are tried, so the mean is exact. Random items at every item make all negatives far."""
    spaces = shown_items(1, 5, spreads)
    spaces = [np.concatenate([vectors, np.repeat(vectors[:5], 4, axis=0)]) for vectors in spaces]
    means = mean_gains(spaces, 5, n_alike)
    assert means[:N] == pytest.approx(np.zeros(N), abs=1e-12)
    assert means[[N, PROFILES.stop - 1]] == pytest.approx(0, abs=1e-12)  # no learned spaces; the balanced mixture


@pytest.mark.parametrize("n_alike", [2, 3, 4])
@pytest.mark.parametrize("spreads", SPREADS.values(), ids=SPREADS.keys())
def test_the_mean_gain_of_random_marks_is_0_if_all_negatives_are_near(spreads: list[float], n_alike: int) -> None:
    """All roles are tried, so the mean is exact. Without random items, all negatives are near."""
    spaces = [vectors[:5] for vectors in shown_items(1, 5, spreads)]
    assert mean_gains(spaces, 5, n_alike) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("spreads", SPREADS.values(), ids=SPREADS.keys())
def test_total_weights_gain_nothing_from_random_marks(spreads: list[float]) -> None:
    """Total weights of the learned spaces need evidence from near items. Here, no negative is near."""
    spaces = shown_items(1, 5, spreads)
    spaces = [np.concatenate([vectors, np.repeat(vectors[:5], 4, axis=0)]) for vectors in spaces]
    assert mean_gains(spaces, 5, 3)[PROFILES][1:-1].max() < 1e-12


# -- learning and forgetting ---------------------------------------------------------------------------------------


def clicks_in_order_of(space: int, n: int, sign: int) -> tuple[list[Rows], Groups]:
    """Return groups of a query and 3 items that are near it in one space, and 3 that are not, and 40 random items.

    The near items are alike if the sign is 1. Otherwise, the others are alike.
    """
    rng = np.random.default_rng(n + sign)
    spaces = [rng.normal(0, 1, (7 * n + 40, 4)) for _ in range(N)]
    for first in range(0, 7 * n, 7):
        near = slice(first + 1, first + 4)
        spaces[space][near] = spaces[space][first] + rng.normal(0, 0.1, (3, 4))
    return spaces, groups_of([[1.0] + [sign] * 3 + [-sign] * 3] * n)


def relative_weight(evidence: Evidence, space: int) -> float:
    """Return the weight of a space, relative to that of all starting spaces or of all learned spaces."""
    weights = evidence.weights[ANCHORS if space < N_ANCHORS else EXPERTS]
    return float(evidence.weights[space] / weights.sum())


@pytest.mark.parametrize("space", range(N), ids=SPACES)
def test_a_space_that_orders_the_marks_gains_weight(space: int) -> None:
    after = Evidence.start().add(*clicks_in_order_of(space, 40, 1))
    assert relative_weight(after, space) > 1.2 * relative_weight(Evidence.start(), space)


@pytest.mark.parametrize("space", range(N), ids=SPACES)
def test_a_space_that_later_marks_contradict_loses_its_weight_again(space: int) -> None:
    before = Evidence.start().add(*clicks_in_order_of(space, 20, 1))
    after = before
    for _ in range(10):
        after = after.add(*clicks_in_order_of(space, 20, -1))
    assert relative_weight(after, space) < relative_weight(Evidence.start(), space)


def test_learned_spaces_that_order_the_marks_gain_total_weight() -> None:
    spaces, groups = clicks_in_order_of(N_ANCHORS, 80, 1)
    spaces[N_ANCHORS:] = [spaces[N_ANCHORS]] * (N - N_ANCHORS)
    for vectors in spaces[:N_ANCHORS]:
        vectors[: 7 * 80] *= 0.1  # so negatives are near in the starting spaces
    after = Evidence.start().add(spaces, groups)
    # The learned spaces order the marks alike in all profiles that contain them. The others lose their weight.
    totals = np.append(_TOTALS, _BALANCED[EXPERTS].sum())
    expected = _PROFILE_PRIOR[1:] @ totals[1:] / _PROFILE_PRIOR[1:].sum()
    assert after.weights[EXPERTS].sum() == pytest.approx(expected, rel=0.01)
    assert expected > 1.4 * Evidence.start().weights[EXPERTS].sum()


def test_a_group_of_half_weight_gains_half() -> None:
    spaces = continuous(2, 6 + 30)
    marks = [[1, 1, 1, -1, -1, -0.3]]
    whole, half = (Evidence.start().add(spaces, groups_of(marks, [weight])).gains for weight in (1.0, 0.5))
    assert half == pytest.approx(whole / 2, abs=1e-12)


# -- groups that are not compared ----------------------------------------------------------------------------------


@pytest.mark.parametrize("marks", [[[1, -1, -0.3]], [[1, -1], [1, -1, -1]]])
def test_groups_with_one_alike_item_change_nothing(marks: list[list[float]]) -> None:
    groups = groups_of(marks)
    assert RANDOM_GAINS.add(continuous(0, len(groups.rows) + 10), groups) is RANDOM_GAINS


def test_groups_with_one_alike_item_do_not_count_as_older_ones() -> None:
    with_pairs = groups_of([[1, 1, -1], [1, 1, 1]])
    spaces = continuous(0, 6 + 20)
    between = [np.concatenate([each[:3], each[3:6] + 1, each[3:]]) for each in spaces]
    groups = groups_of([[1, 1, -1], [1, -1, -1], [1, 1, 1]])
    assert_close(RANDOM_GAINS.add(between, groups), RANDOM_GAINS.add(spaces, with_pairs))


@pytest.mark.parametrize("space", [0, 2, 4, 7])
@pytest.mark.parametrize("length", [1e30, np.inf, np.nan])
def test_items_whose_distances_overflow_change_nothing(length: float, space: int) -> None:
    groups = groups_of([[1, 1, -1], [1, 1, 1]])
    spaces = [vectors.astype(np.float32) for vectors in continuous(0, 6 + 20)]
    spaces[space][4] = length  # of the second group
    after = RANDOM_GAINS.add(spaces, groups)
    assert after is RANDOM_GAINS


def n_compared(sizes: Sequence[int]) -> int:
    """Return the number of compared groups: each one decays the sums. In equal spaces, no gain is added."""
    groups = groups_of([[1.0] * size for size in sizes])
    vectors = np.random.default_rng(0).normal(size=(len(groups.rows) + 4, 2))
    gain = Evidence(np.ones(PROFILES.stop), np.ones(3)).add([vectors] * N, groups).gains[_CENTRED]
    return round(math.log(gain) / math.log(_DECAY))


@pytest.mark.parametrize("size", [2, 3, 7, 16])
@pytest.mark.parametrize("n", [1, 8, 9, 41, 130, 600])
def test_the_number_of_comparisons_is_limited(n: int, size: int) -> None:
    compared = n_compared([size] * n)
    limit = _MAX_COMPARISONS // size**2
    assert min(n, limit) / 2 < compared <= min(n, limit)


def test_the_largest_group_counts_for_the_limit() -> None:
    assert n_compared([2] * 40 + [16]) <= _MAX_COMPARISONS // 16**2


def test_one_group_is_always_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oahu.learners.anchored.evidence._MAX_COMPARISONS", 10)
    assert n_compared([4] * 3) == 1


def test_the_groups_that_are_compared_are_evenly_spread() -> None:
    """Of 20 groups of 16 items, 8 may be compared, so each third group is: 7 groups."""
    marks = [[1.0, 1.0] + [-1.0] * 14] * 20
    spaces = continuous(7, 320 + 20)
    chosen = np.concatenate([np.arange(16) + 16 * number for number in range(0, 20, 3)])
    part = [np.concatenate([vectors[chosen], vectors[320:]]) for vectors in spaces]
    assert _MAX_COMPARISONS // 16**2 == 8
    assert_close(RANDOM_GAINS.add(spaces, groups_of(marks)), RANDOM_GAINS.add(part, groups_of(marks[:7])))


def test_adding_groups_changes_no_array_in_place() -> None:
    groups = random_groups(0, 6)
    spaces = continuous(0, len(groups.rows) + 20)
    arrays: list[NDArray[Any]] = [RANDOM_GAINS.gains, RANDOM_GAINS.squares, *spaces, groups.marks]
    copies = [array.copy() for array in arrays]
    RANDOM_GAINS.add(spaces, groups)
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
