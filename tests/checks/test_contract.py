"""The contract: what every learner promises, whatever it learns."""

from __future__ import annotations

import copy
import math
import pickle
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.utils.validation import check_is_fitted

from oahu import InvalidInputError, NoDistanceError, NotFittedError, Pairs, Triplets, load
from oahu.constraints import Tuples
from oahu.learners.base import Learner as AnyLearner
from oahu.learners.oahu import step

Learner = AnyLearner[Any]
Factory = Callable[..., Learner]
Learned = Callable[[Learner], dict[str, Any]]
Saved = Callable[[Learner], bytes]
Seen = Callable[[Any, Any], NDArray[Any]]
Floats = NDArray[np.floating]

# -- however the stream is cut ---------------------------------------------------------------------------

#: Where to cut a stream: anywhere, and often near the end of a block of 128 triplets.
CUTS = st.lists(st.integers(1, 299) | st.sampled_from([1, 127, 128, 129, 255, 256, 257]), max_size=8)
LONG_CUTS = st.lists(st.integers(1, 2499) | st.sampled_from([1023, 1024, 1025, 2047, 2048, 2049]), max_size=8)


def parts(stream: NDArray[Any], cuts: list[int]) -> Iterator[NDArray[Any]]:
    """The stream in pieces, none of them empty."""
    return (part for part in np.split(stream, sorted(set(cuts))) if len(part))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(cuts=CUTS, n=st.integers(1, 300), n_features=st.integers(1, 40), seed=st.integers(0, 9))
@settings(max_examples=25)
def test_any_chunks_give_the_bits_of_one_call(
    make: Factory, saved: Saved, dtype: str, cuts: list[int], n: int, n_features: int, seed: int
) -> None:
    stream = np.random.default_rng(seed).normal(size=(n, 3, n_features))
    chunked = make(dtype=dtype)
    for part in parts(stream, cuts):
        chunked.partial_fit(part)
    assert saved(chunked) == saved(make(dtype=dtype).partial_fit(stream))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_by_one_gives_the_bits_of_one_call(make: Factory, saved: Saved, triplets: Floats, dtype: str) -> None:
    single = make(dtype=dtype)
    for anchor, positive, negative in triplets:
        single.learn_one(anchor, positive, negative)
    assert saved(single) == saved(make(dtype=dtype).partial_fit(triplets))


@given(cuts=LONG_CUTS, n=st.sampled_from([1024, 1025, 1500, 2049, 2500]))
@settings(max_examples=8)
def test_chunks_of_a_stream_longer_than_the_history_give_the_bits_of_one_call(
    make: Factory, saved: Saved, cuts: list[int], n: int
) -> None:
    stream = np.random.default_rng(n).normal(size=(n, 3, 4))
    chunked = make()
    for part in parts(stream, cuts):
        chunked.partial_fit(part)
    assert saved(chunked) == saved(make().partial_fit(stream))


def test_one_by_one_beyond_the_history_gives_the_bits_of_one_call(make: Factory, saved: Saved) -> None:
    stream = np.random.default_rng(0).normal(size=(1100, 3, 4))
    single = make()
    for triplet in stream:
        single.learn_one(*triplet)
    assert saved(single) == saved(make().partial_fit(stream))


@given(cuts=CUTS)
@settings(max_examples=10)
def test_values_and_indices_in_turn_give_the_bits_of_values(
    make: Factory, saved: Saved, table: Floats, indices: NDArray[np.int64], cuts: list[int]
) -> None:
    mixed = make(preprocessor=table)
    for turn, part in enumerate(parts(indices, cuts)):
        mixed.partial_fit(table[part] if turn % 2 else part)
    assert saved(mixed) == saved(make().partial_fit(table[indices]))


def test_a_row_number_at_a_time_gives_the_bits_of_values(
    make: Factory, saved: Saved, table: Floats, indices: NDArray[np.int64]
) -> None:
    single = make(preprocessor=table)
    for row in indices:
        single.learn_one(*row)
    assert saved(single) == saved(make().partial_fit(table[indices]))


def test_fit_learns_triplets_as_partial_fit_does(make: Factory, saved: Saved, triplets: Floats) -> None:
    assert saved(make().fit(triplets)) == saved(make().partial_fit(triplets))


# -- however the numbers lie in memory -------------------------------------------------------------------


def mapped(array: NDArray[Any], folder: Path) -> NDArray[Any]:
    np.save(folder / "array.npy", array)
    return np.load(folder / "array.npy", mmap_mode="r")


def strided(array: NDArray[Any], folder: Path) -> NDArray[Any]:
    """Every third row and every second feature of a larger array."""
    larger = np.full((3 * len(array), *array.shape[1:-1], 2 * array.shape[-1]), 99.0)
    larger[::3, ..., ::2] = array
    return larger[::3, ..., ::2]


def backwards(array: NDArray[Any], folder: Path) -> NDArray[Any]:
    """A view that walks its memory backwards."""
    return array[::-1, ..., ::-1].copy()[::-1, ..., ::-1]


def unaligned(array: NDArray[Any], folder: Path) -> NDArray[Any]:
    """Numbers that begin at an odd byte."""
    view = np.empty(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


#: The same numbers in other clothes.
FORMS: dict[str, Callable[[NDArray[Any], Path], Any]] = {
    "list": lambda array, folder: array.tolist(),
    "tuple of arrays": lambda array, folder: tuple(array),
    "objects": lambda array, folder: array.astype(object),
    "float16": lambda array, folder: array.astype(np.float16),
    "float32": lambda array, folder: array.astype(np.float32),
    "long double": lambda array, folder: array.astype(np.longdouble),
    "other byte order": lambda array, folder: array.astype(array.dtype.newbyteorder()),
    "uint8": lambda array, folder: array.astype(np.uint8),
    "int64": lambda array, folder: array.astype(np.int64),
    "memory map": mapped,
    "writable": lambda array, folder: array.copy(),
    "Fortran order": lambda array, folder: np.asfortranarray(array),
    "strided view": strided,
    "reversed view": backwards,
    "unaligned": unaligned,
    "read-only float32": lambda array, folder: mapped(array.astype(np.float32), folder),
    "Fortran float32": lambda array, folder: np.asfortranarray(array.astype(np.float32)),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_the_form_of_the_table_does_not_matter(
    make: Factory, saved: Saved, tmp_path: Path, table: Floats, indices: NDArray[np.int64], form: Callable[..., Any]
) -> None:
    learner = make(preprocessor=form(table, tmp_path)).partial_fit(indices)
    assert saved(learner) == saved(make().partial_fit(table[indices]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_the_form_of_the_values_does_not_matter(
    make: Factory,
    saved: Saved,
    tmp_path: Path,
    table: Floats,
    indices: NDArray[np.int64],
    form: Callable[..., Any],
    dtype: str,
) -> None:
    learner = make(dtype=dtype).partial_fit(form(table[indices], tmp_path))
    assert saved(learner) == saved(make(dtype=dtype).partial_fit(table[indices]))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", ">i8", "list", "Fortran order"])
def test_the_form_of_the_indices_does_not_matter(
    make: Factory, saved: Saved, table: Floats, indices: NDArray[np.int64], dtype: str
) -> None:
    forms = {"list": indices.tolist, "Fortran order": lambda: np.asfortranarray(indices)}
    formed = forms.get(dtype, lambda: indices.astype(dtype))()
    expected = make(preprocessor=table).partial_fit(indices)
    assert saved(make(preprocessor=table).partial_fit(formed)) == saved(expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_float32_table_gives_the_bits_of_the_same_numbers_in_float64(
    make: Factory, saved: Saved, indices: NDArray[np.int64], dtype: str
) -> None:
    single = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    double = make(preprocessor=single.astype(np.float64), dtype=dtype)
    assert saved(make(preprocessor=single, dtype=dtype).partial_fit(indices)) == saved(double.partial_fit(indices))


def test_a_small_index_type_reaches_into_a_table_larger_than_it_can_count(make: Factory, saved: Saved) -> None:
    table = np.random.default_rng(0).normal(size=(300, 5))
    indices = np.array([[0, 127, 5]])
    learner = make(preprocessor=table).partial_fit(indices.astype(np.int8))
    assert saved(learner) == saved(make().partial_fit(table[indices]))


# -- where randomness comes from -------------------------------------------------------------------------

LEARNING: dict[str, Callable[..., Learner]] = {
    "triplets": lambda learner, triplets, table, labels: learner.partial_fit(triplets),
    "labels": lambda learner, triplets, table, labels: learner.fit(table, labels),
}


@pytest.mark.parametrize("learn", LEARNING.values(), ids=LEARNING.keys())
@pytest.mark.parametrize(
    "seed",
    [lambda: 7, lambda: np.random.default_rng(7), lambda: np.random.RandomState(7)],
    ids=["int", "Generator", "RandomState"],
)
def test_the_same_seed_gives_the_same_bits(
    make: Factory,
    learned: Learned,
    triplets: Floats,
    table: Floats,
    labels: NDArray[Any],
    seed: Callable[[], Any],
    learn: Callable[..., Learner],
) -> None:
    one, other = (learn(make(random_state=seed()), triplets, table, labels) for _ in range(2))
    assert learned(one) == learned(other)


SEEDS = pytest.mark.parametrize(
    ("seed", "another"),
    [(7, 8), (None, None), (np.random.default_rng(7), np.random.default_rng(8))],
    ids=["ints", "None", "Generators"],
)


@SEEDS
@pytest.mark.parametrize("learn", LEARNING.values(), ids=LEARNING.keys())
def test_another_seed_gives_an_oahu_other_bits(
    make_oahu: Factory,
    learned: Learned,
    triplets: Floats,
    table: Floats,
    labels: NDArray[Any],
    seed: Any,
    another: Any,
    learn: Callable[..., Learner],
) -> None:
    one, other = (learn(make_oahu(random_state=s), triplets, table, labels) for s in (seed, another))
    assert learned(one) != learned(other)


@SEEDS
def test_another_seed_draws_other_constraints_from_labels(
    make_drawing: Factory,
    monkeypatch: pytest.MonkeyPatch,
    table: Floats,
    labels: NDArray[Any],
    seed: Any,
    another: Any,
) -> None:
    drawn = []
    learn = type(make_drawing())._learn

    def watched(self: Any, state: Any, constraints: Any) -> None:
        drawn.append(constraints.indices.tolist())
        learn(self, state, constraints)

    monkeypatch.setattr(type(make_drawing()), "_learn", watched)
    for given_seed in (seed, another):
        make_drawing(random_state=given_seed).fit(table, labels)
    assert drawn[0] != drawn[1]


def test_a_generator_moves_on_from_one_learner_to_the_next(make: Factory, triplets: Floats) -> None:
    rng = np.random.default_rng(7)
    make(random_state=rng).partial_fit(triplets)
    assert rng.bit_generator.state != np.random.default_rng(7).bit_generator.state


def test_scoring_labels_with_a_generator_changes_nothing_learned(
    make: Factory, saved: Saved, table: Floats, labels: NDArray[Any]
) -> None:
    learner = make(random_state=np.random.default_rng(7)).fit(table, labels)
    before = saved(learner)
    learner.score(table, labels)
    assert saved(learner) == before


def test_what_others_draw_from_the_generator_does_not_reach_the_learner(
    make: Factory, saved: Saved, triplets: Floats
) -> None:
    rng = np.random.default_rng(7)
    learner = make(random_state=rng).partial_fit(triplets)
    before = saved(learner)
    rng.random()
    assert saved(learner) == before


# -- using changes nothing -------------------------------------------------------------------------------


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
    make: Factory,
    snapshot: Learned,
    seen: Seen,
    tmp_path: Path,
    triplets: Floats,
    table: Floats,
    labels: NDArray[Any],
    use: Callable[..., Any],
) -> None:
    learner = make().partial_fit(triplets)
    before = snapshot(learner)
    use(learner, seen, triplets, table, labels, tmp_path)
    assert snapshot(learner) == before


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_using_twice_gives_the_same(
    make: Factory,
    seen: Seen,
    tmp_path: Path,
    triplets: Floats,
    table: Floats,
    labels: NDArray[Any],
    use: Callable[..., Any],
) -> None:
    learner = make().partial_fit(triplets)
    first = use(learner, seen, triplets, table, labels, tmp_path)
    np.testing.assert_array_equal(use(learner, seen, triplets, table, labels, tmp_path), first)


def test_embedding_changes_nothing(make_oahu: Factory, snapshot: Learned, triplets: Floats, table: Floats) -> None:
    learner = make_oahu().partial_fit(triplets)
    before = snapshot(learner)
    learner.embed(table)
    assert snapshot(learner) == before


def test_learning_changes_what_was_learned(make: Factory, learned: Learned, triplets: Floats) -> None:
    learner = make().partial_fit(triplets)
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


def test_score_is_the_share_of_triplets_whose_positive_scores_higher(make: Factory, triplets: Floats) -> None:
    learner = make().partial_fit(triplets[:50])
    higher = learner.pair_score(triplets[:, :2]) > learner.pair_score(triplets[:, [0, 2]])
    assert learner.score(triplets) == np.count_nonzero(higher) / len(triplets)


def test_the_score_of_pairs_is_the_share_of_alike_ones_above_unlike_ones(make: Factory, triplets: Floats) -> None:
    learner, same = make().partial_fit(triplets), np.arange(40) % 3 == 0
    pairs = triplets[:40, :2]
    scores = learner.pair_score(pairs)
    above = [float(a > b) + 0.5 * float(a == b) for a in scores[same] for b in scores[~same]]
    assert learner.score(pairs, np.where(same, 1, -1)) == pytest.approx(np.mean(above), rel=1e-12)


def test_a_metric_scores_as_its_learner_does(make: Factory, triplets: Floats) -> None:
    learner = make().partial_fit(triplets)
    scores = learner.metric().score(triplets[:, 0], triplets[:, 1])
    np.testing.assert_allclose(scores, learner.pair_score(triplets[:, :2]), rtol=1e-5, atol=1e-6)


def test_what_has_scores_only_says_so_when_asked_for_more(
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


def test_indices_are_compared_as_the_values_they_name(
    make: Factory, table: Floats, indices: NDArray[np.int64]
) -> None:
    learner = make(preprocessor=table).partial_fit(indices)
    by_value = learner.pair_score(table[indices[:, :2]])
    np.testing.assert_array_equal(learner.pair_score(indices[:, :2]), by_value)


# -- no aliasing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", ["partial_fit", "fit"])
def test_what_happens_to_the_triplets_afterwards_does_not_reach_the_learner(
    make: Factory, saved: Saved, triplets: Floats, dtype: str, method: str
) -> None:
    mine = triplets.astype(dtype)
    learner = getattr(make(dtype=dtype), method)(mine)
    before = saved(learner)
    mine[...] = 7.0
    assert saved(learner) == before


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_happens_to_one_triplet_afterwards_does_not_reach_the_learner(
    make: Factory, saved: Saved, triplets: Floats, dtype: str
) -> None:
    mine = triplets[0].astype(dtype)
    learner = make(dtype=dtype).learn_one(*mine)
    before = saved(learner)
    mine[...] = 7.0
    assert saved(learner) == before


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_happens_to_the_table_afterwards_does_not_reach_what_was_learned(
    make: Factory, saved: Saved, table: Floats, indices: NDArray[np.int64], dtype: str
) -> None:
    mine = table.astype(dtype)
    learner = make(dtype=dtype, preprocessor=mine).partial_fit(indices)
    before = saved(learner)
    mine[...] = 7.0
    assert saved(learner) == before


def test_what_happens_to_labelled_items_afterwards_does_not_reach_the_learner(
    make: Factory, saved: Saved, table: Floats, labels: NDArray[Any]
) -> None:
    items, classes = table.astype(np.float32), labels.copy()
    learner = make().fit(items, classes)
    before = saved(learner)
    items[...], classes[...] = 7.0, 1
    assert saved(learner) == before


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_using_leaves_the_input_as_it_is(
    make: Factory,
    seen: Seen,
    tmp_path: Path,
    triplets: Floats,
    table: Floats,
    labels: NDArray[Any],
    dtype: str,
    use: Callable[..., Any],
) -> None:
    mine = triplets.astype(dtype), table.astype(dtype), labels.copy()
    kept = [array.tobytes() for array in mine]
    use(make(dtype=dtype).partial_fit(triplets), seen, *mine, tmp_path)
    assert [array.tobytes() for array in mine] == kept


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("learn", LEARNING.values(), ids=LEARNING.keys())
def test_learning_leaves_the_input_as_it_is(
    make: Factory,
    triplets: Floats,
    table: Floats,
    labels: NDArray[Any],
    dtype: str,
    learn: Callable[..., Learner],
) -> None:
    mine = triplets.astype(dtype), table.astype(dtype), labels.copy()
    kept = [array.tobytes() for array in mine]
    learn(make(dtype=dtype), *mine)
    assert [array.tobytes() for array in mine] == kept


def test_learning_leaves_the_table_as_it_is(make: Factory, table: Floats, indices: NDArray[np.int64]) -> None:
    mine = table.astype(np.float32)
    make(preprocessor=mine).partial_fit(indices)
    np.testing.assert_array_equal(mine, table)


def test_writing_to_what_transform_gave_does_not_reach_the_learner(
    make_with_distances: Factory, saved: Saved, triplets: Floats, table: Floats
) -> None:
    learner = make_with_distances().partial_fit(triplets)
    before = saved(learner)
    learner.transform(table)[...] = 7.0
    assert saved(learner) == before


def test_writing_to_the_attributes_does_not_reach_the_learner(
    make: Factory, snapshot: Learned, triplets: Floats
) -> None:
    learner = make().partial_fit(triplets)
    before = snapshot(learner)
    for name in before["learned"]:
        for array in arrays_in(getattr(learner, name)):
            array[...] = 7
    assert snapshot(learner) == before


def test_a_metric_does_not_learn_on(make: Factory, seen: Seen, triplets: Floats, table: Floats) -> None:
    learner = make().partial_fit(triplets)
    metric = learner.metric()
    before = seen(metric, table)
    learner.partial_fit(triplets)
    np.testing.assert_array_equal(seen(metric, table), before)


def test_a_metric_cannot_be_written_to(make: Factory, triplets: Floats) -> None:
    metric = make().partial_fit(triplets).metric()
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


# -- copies go on ----------------------------------------------------------------------------------------


def through_a_file(learner: Learner, folder: Path) -> Learner:
    learner.save(folder / "learner")
    loaded: Learner = load(folder / "learner")
    return loaded


COPIES: dict[str, Callable[[Learner, Path], Learner]] = {
    "pickle": lambda learner, folder: pickle.loads(pickle.dumps(learner)),
    "oldest pickle": lambda learner, folder: pickle.loads(pickle.dumps(learner, protocol=2)),
    "deepcopy": lambda learner, folder: copy.deepcopy(learner),
    "copy": lambda learner, folder: copy.copy(learner),
    "file": through_a_file,
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES.keys())
@pytest.mark.parametrize("before", [1, 130, 1200])
def test_a_copy_goes_on_as_if_nothing_had_happened(
    make: Factory, saved: Saved, tmp_path: Path, copied: Callable[[Learner, Path], Learner], before: int
) -> None:
    stream = np.random.default_rng(5).normal(size=(1400, 3, 5))
    other = copied(make().partial_fit(stream[:before]), tmp_path)
    assert saved(other.partial_fit(stream[before:])) == saved(make().partial_fit(stream))


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES.keys())
def test_a_copy_that_learns_leaves_the_original_alone(
    make: Factory, saved: Saved, tmp_path: Path, triplets: Floats, copied: Callable[[Learner, Path], Learner]
) -> None:
    learner = make().partial_fit(triplets)
    before = saved(learner)
    copied(learner, tmp_path).partial_fit(triplets)
    assert saved(learner) == before


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES.keys())
def test_a_copy_is_not_taught_by_its_original(
    make: Factory, saved: Saved, tmp_path: Path, triplets: Floats, copied: Callable[[Learner, Path], Learner]
) -> None:
    learner = make().partial_fit(triplets)
    other = copied(learner, tmp_path)
    before = saved(other)
    learner.partial_fit(triplets)
    assert saved(other) == before


@pytest.mark.parametrize("name", ["pickle", "deepcopy", "copy"])
def test_a_copy_of_a_new_learner_learns_the_same(
    make: Factory, saved: Saved, tmp_path: Path, triplets: Floats, name: str
) -> None:
    other = COPIES[name](make(), tmp_path)
    assert saved(other.partial_fit(triplets)) == saved(make().partial_fit(triplets))


@pytest.mark.parametrize("name", ["pickle", "deepcopy"])
def test_a_copy_brings_its_table(
    make: Factory, saved: Saved, tmp_path: Path, table: Floats, indices: NDArray[np.int64], name: str
) -> None:
    other = COPIES[name](make(preprocessor=table).partial_fit(indices[:100]), tmp_path)
    whole = make(preprocessor=table).partial_fit(indices)
    assert saved(other.partial_fit(indices[100:])) == saved(whole)


def test_a_file_takes_parameters_of_numpy_types(make_oahu: Factory, tmp_path: Path, triplets: Floats) -> None:
    parameters = {"n_layers": np.int64(1), "tau": np.float32(0.25), "random_state": np.uint8(3)}
    loaded = through_a_file(make_oahu(**parameters).partial_fit(triplets), tmp_path)
    assert {name: loaded.get_params()[name] for name in parameters} == parameters


# -- clones forget ---------------------------------------------------------------------------------------


def test_a_clone_has_learned_nothing(make: Factory, learned: Learned, triplets: Floats) -> None:
    assert learned(clone(make().partial_fit(triplets))) == {}


def test_a_clone_learns_as_a_new_learner_does(make: Factory, saved: Saved, triplets: Floats) -> None:
    other = clone(make(dtype="float64", random_state=3).partial_fit(triplets))
    assert saved(other.fit(triplets)) == saved(make(dtype="float64", random_state=3).fit(triplets))


def test_a_clone_keeps_the_parameters(make: Factory) -> None:
    parameters = make(dtype="float64", n_constraints=17, random_state=3).get_params()
    assert clone(make(**parameters)).get_params() == parameters


@pytest.mark.parametrize(
    "form", [FORMS["writable"], FORMS["memory map"], FORMS["list"]], ids=["array", "map", "list"]
)
def test_a_clone_shares_the_table(make: Factory, tmp_path: Path, table: Floats, form: Callable[..., Any]) -> None:
    shared = form(table, tmp_path)
    assert clone(make(preprocessor=shared)).preprocessor is shared


def test_the_draws_of_a_clone_do_not_move_the_generator_of_its_original(make: Factory, triplets: Floats) -> None:
    rng = np.random.default_rng(7)
    clone(make(random_state=rng)).fit(triplets)
    assert rng.bit_generator.state == np.random.default_rng(7).bit_generator.state


# -- beginning -------------------------------------------------------------------------------------------


def test_fit_forgets_what_was_learned(make: Factory, saved: Saved, triplets: Floats) -> None:
    again = make().partial_fit(triplets[:100]).fit(triplets[100:])
    assert saved(again) == saved(make().fit(triplets[100:]))


def test_fit_forgets_the_number_of_features(make: Factory, saved: Saved, triplets: Floats) -> None:
    again = make().partial_fit(triplets).fit(triplets[:, :, :3])
    assert saved(again) == saved(make().fit(triplets[:, :, :3]))


def test_fit_with_labels_forgets_what_was_learned(
    make: Factory, saved: Saved, triplets: Floats, table: Floats, labels: NDArray[Any]
) -> None:
    assert saved(make().partial_fit(triplets).fit(table, labels)) == saved(make().fit(table, labels))


def test_initialize_forgets_what_was_learned(make: Factory, saved: Saved, triplets: Floats) -> None:
    assert saved(make().partial_fit(triplets).initialize(4)) == saved(make().initialize(4))


def test_learning_goes_on_from_initialize_as_from_nothing(make: Factory, saved: Saved, triplets: Floats) -> None:
    assert saved(make().initialize(5).partial_fit(triplets)) == saved(make().partial_fit(triplets))


def test_learning_returns_the_learner(make: Factory, triplets: Floats) -> None:
    learner = make()
    results = [learner.initialize(5), learner.fit(triplets), learner.partial_fit(triplets)]
    results.append(learner.learn_one(*triplets[0]))
    assert all(result is learner for result in results)


NOT_BEFORE_LEARNING: dict[str, Callable[..., Any]] = {name: use for name, use in USES.items() if name != "repr"} | {
    "n_seen_": lambda learner, *_: learner.n_seen_,
    "utilization_": lambda learner, *_: learner.utilization_,
}


@pytest.mark.parametrize("error", [NotFittedError, SklearnNotFittedError], ids=["oahu's", "scikit-learn's"])
@pytest.mark.parametrize("use", NOT_BEFORE_LEARNING.values(), ids=NOT_BEFORE_LEARNING.keys())
def test_using_a_learner_that_has_seen_nothing_is_an_error_that_says_what_to_do(
    make: Factory,
    seen: Seen,
    tmp_path: Path,
    triplets: Floats,
    table: Floats,
    labels: NDArray[Any],
    use: Callable[..., Any],
    error: type[Exception],
) -> None:
    with pytest.raises(error, match=r"not fitted yet.*fit, partial_fit or learn_one"):
        use(make(), seen, triplets, table, labels, tmp_path)


@pytest.mark.parametrize(
    "name",
    ["metric_weights_", "hidden_weights_", "hidden_biases_", "embedding_weights_", "embedding_biases_",
     "history_rounds_", "loss_history_", "weight_history_"],
)  # fmt: skip
def test_what_an_oahu_has_learned_is_not_there_before_it_has(make_oahu: Factory, name: str) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(make_oahu(), name)


def test_a_failed_save_leaves_no_file(make: Factory, tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        make().save(tmp_path / "learner")
    assert list(tmp_path.iterdir()) == []


def test_scikit_learn_sees_whether_a_learner_is_fitted(make: Factory, triplets: Floats) -> None:
    with pytest.raises(SklearnNotFittedError):
        check_is_fitted(make())
    check_is_fitted(make().partial_fit(triplets))


# -- interrupts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, MemoryError, SystemExit])
@pytest.mark.parametrize(
    ("fitted", "method"), [(False, "partial_fit"), (False, "fit"), (True, "partial_fit"), (True, "fit")]
)
def test_an_interrupt_between_blocks_leaves_the_learner_as_before(
    make: Factory,
    snapshot: Learned,
    monkeypatch: pytest.MonkeyPatch,
    triplets: Floats,
    interrupt: type[BaseException],
    fitted: bool,
    method: str,
) -> None:
    learner = make().partial_fit(triplets[:20]) if fitted else make()
    before = snapshot(learner)
    blocks = Tuples.blocks

    def interrupted(self: Tuples, dtype: Any) -> Iterator[tuple[int, Any]]:
        yield next(blocks(self, dtype))
        raise interrupt

    with monkeypatch.context() as patch:
        patch.setattr(Tuples, "blocks", interrupted)
        with pytest.raises(interrupt):
            getattr(learner, method)(triplets)
    assert snapshot(learner) == before


@pytest.mark.parametrize(
    ("fitted", "method"), [(False, "partial_fit"), (False, "fit"), (True, "partial_fit"), (True, "fit")]
)
def test_an_interrupt_after_weights_have_moved_leaves_an_oahu_as_before(
    make_oahu: Factory,
    snapshot: Learned,
    monkeypatch: pytest.MonkeyPatch,
    triplets: Floats,
    fitted: bool,
    method: str,
) -> None:
    learner = make_oahu().partial_fit(triplets[:20]) if fitted else make_oahu()
    before = snapshot(learner)
    learn, calls = step.learn, []

    def interrupted(*arguments: Any) -> tuple[int, int]:
        result = learn(*arguments)
        calls.append(result)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as patch:
        patch.setattr(step, "learn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            getattr(learner, method)(triplets)
    assert snapshot(learner) == before


def test_an_interrupted_learner_goes_on_as_if_it_had_not_been(
    make: Factory, saved: Saved, monkeypatch: pytest.MonkeyPatch, triplets: Floats
) -> None:
    learner = make().partial_fit(triplets[:20])
    blocks = Tuples.blocks

    def interrupted(self: Tuples, dtype: Any) -> Iterator[tuple[int, Any]]:
        yield next(blocks(self, dtype))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Tuples, "blocks", interrupted)
        with pytest.raises(KeyboardInterrupt):
            learner.partial_fit(triplets[20:])
    assert saved(learner.partial_fit(triplets[20:])) == saved(make().partial_fit(triplets))


# -- what was seen ---------------------------------------------------------------------------------------


@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=6))
@settings(max_examples=15)
def test_n_seen_counts_every_constraint(
    make: Factory, per_triplet: Callable[[Learner], int], triplets: Floats, sizes: list[int]
) -> None:
    learner = make()
    for size in sizes:
        learner.partial_fit(triplets[:size])
    assert learner.n_seen_ == per_triplet(learner) * sum(sizes)


def test_fit_with_labels_sees_as_many_constraints_as_it_is_told(
    make_drawing: Factory, table: Floats, labels: NDArray[Any]
) -> None:
    assert make_drawing(n_constraints=37).fit(table, labels).n_seen_ == 37


def test_a_learner_at_the_start_has_seen_nothing(make: Factory) -> None:
    assert make().initialize(5).n_seen_ == 0


def test_the_share_of_nothing_is_nan(make: Factory) -> None:
    assert math.isnan(make().initialize(5).utilization_)


def test_the_metric_is_numbered_by_what_was_seen(
    make: Factory, per_triplet: Callable[[Learner], int], triplets: Floats
) -> None:
    learner = make().partial_fit(triplets[:17])
    assert learner.metric().version == 17 * per_triplet(learner)


def test_an_oahu_uses_every_ordinary_triplet(make_oahu: Factory, triplets: Floats) -> None:
    assert make_oahu().partial_fit(triplets).utilization_ == 1.0


@given(same=st.sets(st.integers(0, 39)))
@settings(max_examples=15)
def test_triplets_of_one_item_thrice_are_seen_and_not_used(
    make_oahu: Factory, triplets: Floats, same: set[int]
) -> None:
    stream = triplets[:40].copy()
    for row in same:
        stream[row] = stream[row, 0]
    learner = make_oahu().partial_fit(stream)
    assert learner.utilization_ == pytest.approx((40 - len(same)) / 40)


def test_the_number_of_features_is_kept(make: Factory, triplets: Floats) -> None:
    assert make().partial_fit(triplets).n_features_in_ == 5


# -- memory ----------------------------------------------------------------------------------------------


def test_learning_from_a_memory_map_does_not_copy_it(make: Factory, tmp_path: Path) -> None:
    shape = (20_000, 64)
    table = np.lib.format.open_memmap(tmp_path / "table.npy", mode="w+", dtype=np.float32, shape=shape)
    table[:] = np.random.default_rng(0).random(shape, dtype=np.float32)
    indices = np.random.default_rng(1).integers(0, len(table), (5_000, 3))
    learner = make(preprocessor=table).partial_fit(indices[:10])
    tracemalloc.start()
    try:
        learner.partial_fit(indices)
        learner.score(indices)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < table.nbytes / 4  # of 5 MB; the triplets as values would be 3.8 MB


# -- pairs and triplets ----------------------------------------------------------------------------------


def test_triplets_of_their_own_table_give_the_bits_of_values(
    make: Factory, saved: Saved, table: Floats, indices: NDArray[np.int64]
) -> None:
    by_object = make().partial_fit(Triplets(indices, preprocessor=table))
    assert saved(by_object) == saved(make().partial_fit(table[indices]))


def test_a_triplet_is_its_similar_pair_and_then_its_dissimilar_one(
    make_of_pairs: Factory, saved: Saved, triplets: Floats
) -> None:
    pairs = triplets[:, [0, 1, 0, 2]].reshape(-1, 2, 5)
    split = make_of_pairs().partial_fit(pairs, np.tile([1, -1], len(triplets)))
    assert saved(split) == saved(make_of_pairs().partial_fit(triplets))


@given(cuts=CUTS)
@settings(max_examples=10)
def test_pairs_in_any_chunks_and_forms_give_the_bits_of_one_call(
    make_of_pairs: Factory, saved: Saved, table: Floats, indices: NDArray[np.int64], cuts: list[int]
) -> None:
    pairs, same = indices[:, :2], np.arange(300) % 3 == 0
    whole = make_of_pairs().partial_fit(table[pairs], np.where(same, 1, -1))
    chunked = make_of_pairs(preprocessor=table)
    for turn, part in enumerate(parts(np.arange(300), cuts)):
        if turn % 3 == 0:
            chunked.partial_fit(pairs[part], same[part])
        elif turn % 3 == 1:
            chunked.partial_fit(Pairs(table[pairs[part]], np.where(same[part], 1.0, -1.0)))
        else:
            for row in part:
                chunked.learn_one(*pairs[row], y=1 if same[row] else -1)
    assert saved(chunked) == saved(whole)


def test_similar_and_dissimilar_pairs_are_counted_apart(make_of_pairs: Factory, triplets: Floats) -> None:
    learner = make_of_pairs().partial_fit(triplets[:, :2], np.arange(300) % 3 == 0)
    similar, dissimilar = learner.utilization_similar_ * 100, learner.utilization_dissimilar_ * 200
    assert similar == pytest.approx(round(similar))
    assert dissimilar == pytest.approx(round(dissimilar))
    assert learner.utilization_ == pytest.approx((similar + dissimilar) / 300)


@pytest.mark.parametrize(("y", "absent"), [(1, "dissimilar"), (-1, "similar")])
def test_the_share_of_a_kind_that_was_not_seen_is_nan(
    make_of_pairs: Factory, triplets: Floats, y: int, absent: str
) -> None:
    learner = make_of_pairs().partial_fit(triplets[:, :2], np.full(300, y))
    assert math.isnan(getattr(learner, f"utilization_{absent}_"))


def test_fit_takes_pairs(make_of_pairs: Factory, saved: Saved, table: Floats, indices: NDArray[np.int64]) -> None:
    pairs, y = indices[:, :2], np.where(np.arange(300) % 3 == 0, 1, -1)
    expected = saved(make_of_pairs().partial_fit(table[pairs], y))
    assert saved(make_of_pairs(preprocessor=table).fit(pairs, y)) == expected
    assert saved(make_of_pairs().fit(table[pairs], y)) == expected
    assert saved(make_of_pairs().fit(Pairs(pairs, y, preprocessor=table))) == expected


# -- randomness and interrupts, once more ----------------------------------------------------------------


def test_scoring_labels_does_not_move_the_callers_generator(
    make: Factory, table: Floats, labels: NDArray[Any]
) -> None:
    generator = np.random.default_rng(7)
    learner = make(random_state=generator).fit(table, labels)
    assert learner.score(table, labels) == learner.score(table, labels)


def test_a_metric_asked_for_while_fitting_fails_is_the_old_one(
    make: Factory, monkeypatch: pytest.MonkeyPatch, triplets: Floats
) -> None:
    learner = make().partial_fit(triplets[:10])
    seen = []
    begin = type(learner)._begin

    def watched(self: Any, *arguments: Any) -> Any:
        seen.append(self.metric().version)
        return begin(self, *arguments)

    monkeypatch.setattr(type(learner), "_begin", watched)
    before = learner.n_seen_
    learner.fit(triplets)
    assert seen == [before]


def test_a_learner_that_would_not_load_is_not_saved(make_oahu: Factory, triplets: Floats, tmp_path: Path) -> None:
    learner = make_oahu().partial_fit(triplets).set_params(tau=5.0)
    with pytest.raises(InvalidInputError, match="'tau' parameter"):
        learner.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
