"""Invalid input raises an error that says what, where and what was expected, and changes nothing.

All calls and learners validate with the same code. So each full table runs for one call, and a few rows of it for
every call and one learner of each code path (`make`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from oahu import SOML, InvalidInputError, Pairs, RejectedConstraintError
from oahu.learners.base import Learner as AnyLearner
from oahu.messages import shorten

Learner = AnyLearner[Any]
Factory = Callable[..., Learner]
Take = Callable[[Learner], Any]
View = Callable[[Learner], Any]

rng = np.random.default_rng(0)
TRIPLETS = rng.normal(size=(9, 3, 5))
PAIRS = TRIPLETS[:, :2]
TABLE = rng.normal(size=(20, 5))
INDICES = rng.permutation(18).reshape(6, 3)
LABELS = np.arange(20) % 3


def put(array: NDArray[Any], place: tuple[int, ...], value: Any, dtype: Any = None) -> NDArray[Any]:
    """A copy of ``array`` with one value changed."""
    changed = array.astype(dtype or array.dtype)
    changed[place] = value
    return changed


def cases(table: dict[str, Any], *names: str) -> Any:
    """Parametrise a test with a table's rows: all of them, or those with these names."""
    columns = {2: ("data", "message"), 3: ("data", "y", "message")}[len(next(iter(table.values())))]
    chosen = names or tuple(table)
    return pytest.mark.parametrize(columns, [table[name] for name in chosen], ids=chosen)


def learner_of(make: Factory, fitted: bool, **parameters: Any) -> Learner:
    """A new learner, or one that has learned from a few triplets."""
    learner = make(**parameters)
    return learner.partial_fit(TRIPLETS[::-1]) if fitted else learner


def assert_rejected(take: Take, learner: Learner, view: View, message: str) -> None:
    """``take`` raises an error with ``message``, and leaves what ``view`` shows of the learner as it was."""
    before = view(learner)
    with pytest.raises(InvalidInputError, match=message):
        take(learner)
    assert view(learner) == before


#: The calls that take triplets, each with a new or a fitted learner.
CALLS = [
    pytest.param(False, "partial_fit", id="new-partial_fit"),
    pytest.param(False, "fit", id="new-fit"),
    pytest.param(True, "partial_fit", id="fitted-partial_fit"),
    pytest.param(True, "fit", id="fitted-fit"),
    pytest.param(True, "score", id="fitted-score"),
]
NEW_OR_FITTED = pytest.mark.parametrize("fitted", [False, True], ids=["new", "fitted"])
EVERY_CALL = pytest.mark.parametrize(("fitted", "method"), CALLS)
TWO_CALLS = pytest.mark.parametrize(("fitted", "method"), [CALLS[0], CALLS[3]])

# -- constraints as values -------------------------------------------------------------------------------

BAD_TRIPLETS: dict[str, tuple[Any, str]] = {
    "NaN": (put(TRIPLETS, (3, 1, 2), np.nan), r"NaN: the positive of triplet 3 at feature 2\b.*finite"),
    "infinity": (put(TRIPLETS, (8, 2, 4), np.inf), r"infinity: the negative of triplet 8 at feature 4\b.*finite"),
    "minus infinity": (put(TRIPLETS, (0, 0, 0), -np.inf), r"infinity: the anchor of triplet 0 at feature 0\b"),
    "too large for float32": (
        put(TRIPLETS, (2, 0, 1), 1e39),
        r"1e\+39, too large for float32: the anchor of triplet 2 at feature 1\b",
    ),
    "None inside": (put(TRIPLETS, (4, 2, 3), None, object), r"NaN: the negative of triplet 4 at feature 3\b"),
    "items of different lengths": ([[[1.0, 2.0], [1.0, 2.0], [1.0]]], "triplets are ragged"),
    "triplets of different lengths": ([[[1.0], [2.0], [3.0]], [[1.0], [2.0]]], "triplets are ragged"),
    "words": (np.full((4, 3, 5), "one"), "triplets must be real numbers. Got strings"),
    "digits as text": (np.full((4, 3, 5), "1"), "triplets must be real numbers. Got strings"),
    "bytes": (np.full((4, 3, 5), b"1"), "triplets must be real numbers. Got bytes"),
    "dates": (np.zeros((4, 3, 5), "datetime64[s]"), r"triplets must be real numbers. Got datetime64\[s\]"),
    "records": (np.zeros((4, 3), [("a", float)]), "triplets must be real numbers"),
    "complex": (TRIPLETS + 1j, "must be real numbers.*complex"),
    "an object inside": (put(TRIPLETS, (1, 1, 1), object(), object), "triplets must be numbers.*'object'"),
    "a word inside": (put(TRIPLETS, (1, 1, 1), "one", object), "triplets must be numbers.*'one'"),
    "a complex inside": (put(TRIPLETS, (1, 1, 1), 1j, object), "triplets must be numbers.*'complex'"),
    "a dictionary": ({"anchor": [1.0]}, "triplets must be numbers.*'dict'"),
    "a generator": ((triplet for triplet in TRIPLETS), "triplets must be numbers.*'generator'"),
    "a sparse matrix": (sparse.csr_matrix(TRIPLETS[0]), "triplets must be a dense array"),
    "a sparse array": (sparse.csr_array(TRIPLETS[0]), "triplets must be a dense array"),
    "no triplets": (TRIPLETS[:0], r"At least one triplet is needed\. Got shape \(0, 3, 5\)"),
    "an empty list": ([], r"shape \(n, 3, n_features\).*shape \(0,\)"),
    "no features": (TRIPLETS[:, :, :0], r"0 feature\(s\) \(shape=\(9, 3, 0\)\).*minimum of 1"),
    "None": (None, r"shape \(n, 3, n_features\).*Got shape \(\)"),
    "a number": (3.0, r"shape \(n, 3, n_features\).*Got shape \(\)"),
    "one vector": (TRIPLETS[0, 0], r"shape \(n, 3, n_features\).*Got shape \(5,\)"),
    "one triplet without its axis": (
        TRIPLETS[0],
        r"shape \(3, 5\) are row numbers.*no feature table.*preprocessor=",
    ),
    "indices without a table": (INDICES, r"shape \(6, 3\) are row numbers.*no feature table.*preprocessor="),
    "four dimensions": (TRIPLETS[None], r"shape \(n, 3, n_features\).*Got shape \(1, 9, 3, 5\)"),
    "quadruples": (np.zeros((9, 4, 5)), r"triplet has 3 items.*\(n, 3, n_features\). Got \(9, 4, 5\)"),
}


@cases(BAD_TRIPLETS)
def test_bad_triplets_are_rejected(make_typical: Factory, snapshot: View, data: Any, message: str) -> None:
    learner = learner_of(make_typical, fitted=True)
    assert_rejected(lambda learner: learner.partial_fit(data), learner, snapshot, message)


@cases(BAD_TRIPLETS, "NaN", "too large for float32", "words", "quadruples")
@EVERY_CALL
def test_every_call_rejects_bad_triplets(
    make: Factory, snapshot: View, fitted: bool, method: str, data: Any, message: str
) -> None:
    learner = learner_of(make, fitted)
    assert_rejected(lambda learner: getattr(learner, method)(data), learner, snapshot, message)


def test_a_value_too_large_for_float32_is_learned_in_float64(
    make: Factory, per_triplet: Callable[[Learner], int]
) -> None:
    learner = make(dtype="float64").partial_fit(put(TRIPLETS, (2, 0, 1), 1e39))
    assert learner.n_seen_ == len(TRIPLETS) * per_triplet(learner)


# -- constraints as indices ------------------------------------------------------------------------------

BAD_INDICES: dict[str, tuple[Any, str]] = {
    "past the end": (put(INDICES, (5, 2), 20), "negative of triplet 5 is row 20, but .*rows 0 to 19"),
    "negative": (put(INDICES, (1, 0), -1), "anchor of triplet 1 is row -1, but the preprocessor has rows 0 to 19"),
    "far past the end": (
        put(INDICES, (4, 1), 2**63, np.uint64),
        "positive of triplet 4 is row 9223372036854775808, but the preprocessor has rows 0 to 19",
    ),
    "floats": (INDICES.astype(float), r"must be integers. Got float64.*\(n, 3, n_features\)"),
    "truth values": (INDICES > 3, "must be integers. Got bool"),
    "words": (INDICES.astype(str), "must be real numbers. Got strings"),
    "complex": (INDICES + 0j, "must be real numbers.*complex"),
    "None inside": ([[0, 1, None]], "must be integers"),
    "ragged": ([[0, 1, 2], [0, 1]], "triplets are ragged"),
    "none": (INDICES[:0], r"At least one triplet is needed\. Got shape \(0, 3\)"),
    "an empty list": ([], r"\(n, 3\) with preprocessor=.*shape \(0,\)"),
    "a number": (3, r"\(n, 3\) with preprocessor=.*Got shape \(\)"),
    "one triplet without its axis": (INDICES[0], r"\(n, 3\) with preprocessor=.*shape \(3,\)"),
    "quadruples": (np.zeros((6, 4), int), r"triplet has 3 items.*shape \(n, 3\). Got \(6, 4\)"),
}


@cases(BAD_INDICES)
def test_bad_indices_are_rejected(make_typical: Factory, snapshot: View, data: Any, message: str) -> None:
    learner = learner_of(make_typical, fitted=True, preprocessor=TABLE)
    assert_rejected(lambda learner: learner.partial_fit(data), learner, snapshot, message)


@cases(BAD_INDICES, "past the end")
@EVERY_CALL
def test_every_call_rejects_bad_indices(
    make: Factory, snapshot: View, fitted: bool, method: str, data: Any, message: str
) -> None:
    learner = learner_of(make, fitted, preprocessor=TABLE)
    assert_rejected(lambda learner: getattr(learner, method)(data), learner, snapshot, message)


#: INDICES[2, 1], by its place in a table of features.
ROW = int(INDICES[2, 1])
NAMED = rf"the positive of triplet 2, row {ROW} of preprocessor, at feature 3\b"

BAD_TABLES: dict[str, tuple[Any, str]] = {
    "NaN": (put(TABLE, (ROW, 3), np.nan), f"NaN: {NAMED}"),
    "infinity": (put(TABLE, (ROW, 3), np.inf), f"infinity: {NAMED}"),
    "too large for float32": (put(TABLE, (ROW, 3), -1e39), rf"-1e\+39, too large for float32: {NAMED}"),
    "None inside": (put(TABLE, (ROW, 3), None, object), f"NaN: {NAMED}"),
    "one dimension": (TABLE[0], r"\(n_items, n_features\).*Got shape \(5,\)"),
    "three dimensions": (TRIPLETS, r"\(n_items, n_features\).*Got shape \(9, 3, 5\)"),
    "no items": (TABLE[:0], r"\(n_items, n_features\).*Got shape \(0, 5\)"),
    "no features": (TABLE[:, :0], r"\(n_items, n_features\).*Got shape \(20, 0\)"),
    "a number": (3.0, r"\(n_items, n_features\).*Got shape \(\)"),
    "words": (TABLE.astype(str), "features of preprocessor must be real numbers. Got strings"),
    "complex": (TABLE + 0j, "features of preprocessor must be real numbers.*complex"),
    "ragged": ([[1.0, 2.0], [1.0]], "features of preprocessor are ragged"),
    "an object inside": (put(TABLE, (0, 0), object(), object), "features of preprocessor must be numbers"),
    "a function": (lambda index: TABLE[index], "features of preprocessor must be numbers.*'function'"),
}


@cases(BAD_TABLES)
def test_a_bad_preprocessor_is_rejected(make_typical: Factory, snapshot: View, data: Any, message: str) -> None:
    learner = learner_of(make_typical, fitted=True).set_params(preprocessor=data)
    assert_rejected(lambda learner: learner.partial_fit(INDICES), learner, snapshot, message)


@cases(BAD_TABLES, "NaN", "one dimension")
@EVERY_CALL
def test_every_call_rejects_a_bad_preprocessor(
    make: Factory, snapshot: View, fitted: bool, method: str, data: Any, message: str
) -> None:
    learner = learner_of(make, fitted).set_params(preprocessor=data)
    assert_rejected(lambda learner: getattr(learner, method)(INDICES), learner, snapshot, message)


@TWO_CALLS
def test_a_sparse_preprocessor_is_rejected(make_dense: Factory, snapshot: View, fitted: bool, method: str) -> None:
    learner = learner_of(make_dense, fitted).set_params(preprocessor=sparse.csr_matrix(TABLE))
    message = "features of preprocessor must be a dense array"
    assert_rejected(lambda learner: getattr(learner, method)(INDICES), learner, snapshot, message)


def test_a_bad_item_that_no_triplet_uses_does_no_harm(make: Factory, saved: Callable[[Learner], bytes]) -> None:
    unused = next(iter(set(range(20)) - set(INDICES.ravel().tolist())))
    learner = make(preprocessor=put(TABLE, (unused, 0), np.nan)).partial_fit(INDICES)
    assert saved(learner) == saved(make(preprocessor=TABLE).partial_fit(INDICES))


# -- one bad row among many ------------------------------------------------------------------------------

LATE = put(np.random.default_rng(1).normal(size=(1000, 3, 5)), (998, 0, 4), np.nan)
LATE_INDICES = put(np.resize(INDICES, (1000, 3)), (999, 2), 20)


@EVERY_CALL
def test_a_bad_row_late_in_a_long_batch_is_rejected(
    make_typical: Factory, snapshot: View, fitted: bool, method: str
) -> None:
    learner, message = learner_of(make_typical, fitted), "anchor of triplet 998 at feature 4"
    assert_rejected(lambda learner: getattr(learner, method)(LATE), learner, snapshot, message)


@EVERY_CALL
def test_a_bad_index_late_in_a_long_batch_is_rejected(
    make_typical: Factory, snapshot: View, fitted: bool, method: str
) -> None:
    learner = learner_of(make_typical, fitted, preprocessor=TABLE)
    message = "negative of triplet 999 is row 20"
    assert_rejected(lambda learner: getattr(learner, method)(LATE_INDICES), learner, snapshot, message)


def test_the_first_of_several_bad_rows_is_named(make: Factory) -> None:
    bad = put(put(TRIPLETS, (6, 0, 0), np.nan), (4, 1, 2), np.inf)
    with pytest.raises(InvalidInputError, match="infinity: the positive of triplet 4 at feature 2"):
        make().partial_fit(bad)


# -- another number of features --------------------------------------------------------------------------

OTHER_FEATURES: dict[str, Take] = {
    "partial_fit": lambda learner: learner.partial_fit(TRIPLETS[:, :, :3]),
    "partial_fit by index": (lambda learner: learner.set_params(preprocessor=TABLE[:, :3]).partial_fit(INDICES)),
    "learn_one": lambda learner: learner.learn_one(*TRIPLETS[0, :, :3]),
    "score": lambda learner: learner.score(TRIPLETS[:, :, :3]),
    "score with labels": lambda learner: learner.score(TABLE[:, :3], LABELS),
    "score of pairs": lambda learner: learner.score(PAIRS[:, :, :3], np.ones(9)),
    "pair_score": lambda learner: learner.pair_score(PAIRS[:, :, :3]),
    "metric": lambda learner: learner.metric().score(TABLE[:, :3], TABLE[:, :3]),
}


@pytest.mark.parametrize("take", OTHER_FEATURES.values(), ids=OTHER_FEATURES.keys())
def test_another_number_of_features_is_rejected_with_both_numbers(make: Factory, learned: View, take: Take) -> None:
    message = r"X has 3 features, but \w+ is expecting 5 features"
    assert_rejected(take, learner_of(make, fitted=True), learned, message)


@pytest.mark.parametrize(
    "take",
    [lambda learner: learner.transform(TABLE[:, :3]), lambda learner: learner.pair_distance(PAIRS[:, :, :3])],
    ids=["transform", "pair_distance"],
)
def test_items_with_another_number_of_features_cannot_be_transformed(make_typical: Factory, take: Take) -> None:
    learner = learner_of(make_typical, fitted=True)
    with pytest.raises(InvalidInputError, match=r"X has 3 features, but \w+ is expecting 5 features"):
        take(learner)


@pytest.mark.parametrize(
    "refit",
    [lambda learner: learner.fit(TRIPLETS[:, :, :3]), lambda learner: learner.fit(TABLE[:, :3], LABELS)],
    ids=["constraints", "labelled items"],
)
def test_fit_starts_again_with_another_number_of_features(make_typical: Factory, refit: Take) -> None:
    learner = learner_of(make_typical, fitted=True)
    refit(learner)
    assert learner.n_features_in_ == learner.metric().n_features == 3


# -- one triplet -----------------------------------------------------------------------------------------

A, P, N = TRIPLETS[0]

BAD_ONE: dict[str, tuple[tuple[Any, Any, Any], str]] = {
    "NaN": ((A, P, put(N, (2,), np.nan)), "NaN: the negative of triplet 0 at feature 2"),
    "infinity": ((put(A, (0,), np.inf), P, N), "infinity: the anchor of triplet 0 at feature 0"),
    "too large for float32": ((A, put(P, (1,), 1e39), N), r"1e\+39, too large for float32: the positive of"),
    "different lengths": ((A, P, N[:4]), r"of the same length.*\(5,\), \(5,\), \(4,\)"),
    "a ragged item": (([[1.0], [1.0, 2.0]], [1.0], [2.0]), "Got an item with rows of different lengths"),
    "a vector and a number": ((A, P, 3), r"of the same length.*\(5,\), \(5,\), \(\)"),
    "a vector and None": ((A, P, None), r"of the same length.*\(5,\), \(5,\), \(\)"),
    "Nones": ((None, None, None), "no feature table was given.*preprocessor="),
    "words": (("a", "b", "c"), "must be real numbers. Got strings"),
    "vectors of words": ((["a"], ["b"], ["c"]), "must be real numbers. Got strings"),
    "complex": ((A + 1j, P, N), "must be real numbers.*complex"),
    "objects": ((object(), object(), object()), "must be numbers.*'object'"),
    "no features": (([], [], []), r"0 feature\(s\)"),
    "tables": ((TABLE, TABLE, TABLE), r"shape \(n, 3, n_features\).*shape \(1, 3, 20, 5\)"),
    "sparse rows": ((sparse.csr_matrix(A[None]),) * 3, "triplets must be "),
    "indices without a table": ((0, 1, 2), "no feature table was given.*preprocessor="),
}

BAD_ONE_INDICES: dict[str, tuple[tuple[Any, Any, Any], str]] = {
    "past the end": ((0, 1, 20), "negative of triplet 0 is row 20, but the preprocessor has rows 0 to 19"),
    "negative": ((-1, 1, 2), "anchor of triplet 0 is row -1, but the preprocessor has rows 0 to 19"),
    "floats": ((0.0, 1.0, 2.0), "must be integers. Got float64"),
    "words": (("0", "1", "2"), "must be real numbers. Got strings"),
    "a None": ((0, 1, None), "must be integers"),
}


@cases(BAD_ONE)
@NEW_OR_FITTED
def test_one_bad_triplet_is_rejected(
    make_oahu: Factory, snapshot: View, fitted: bool, data: Any, message: str
) -> None:
    learner = learner_of(make_oahu, fitted)
    assert_rejected(lambda learner: learner.learn_one(*data), learner, snapshot, message)


@cases(BAD_ONE, "NaN", "different lengths", "indices without a table")
@NEW_OR_FITTED
def test_every_learner_rejects_one_bad_triplet(
    make: Factory, snapshot: View, fitted: bool, data: Any, message: str
) -> None:
    learner = learner_of(make, fitted)
    assert_rejected(lambda learner: learner.learn_one(*data), learner, snapshot, message)


@cases(BAD_ONE_INDICES)
@NEW_OR_FITTED
def test_one_bad_triplet_of_indices_is_rejected(
    make_oahu: Factory, snapshot: View, fitted: bool, data: Any, message: str
) -> None:
    learner = learner_of(make_oahu, fitted, preprocessor=TABLE)
    assert_rejected(lambda learner: learner.learn_one(*data), learner, snapshot, message)


# -- pairs -----------------------------------------------------------------------------------------------

BAD_PAIRS: dict[str, tuple[Any, str]] = {
    "NaN": (put(PAIRS, (3, 1, 2), np.nan), r"NaN: the second item of pair 3 at feature 2\b"),
    "infinity": (put(PAIRS, (8, 0, 4), -np.inf), r"infinity: the first item of pair 8 at feature 4\b"),
    "too large for float32": (put(PAIRS, (2, 0, 1), 1e39), "too large for float32: the first item of pair 2"),
    "ragged": ([[[1.0, 2.0], [1.0]]], "pairs are ragged"),
    "words": (np.full((4, 2, 5), "one"), "pairs must be real numbers. Got strings"),
    "complex": (PAIRS + 1j, "pairs must be real numbers.*complex"),
    "an object inside": (put(PAIRS, (1, 1, 1), object(), object), "pairs must be numbers"),
    "a sparse matrix": (sparse.csr_matrix(PAIRS[0]), "pairs must be a dense array"),
    "no pairs": (PAIRS[:0], r"At least one pair is needed\. Got shape \(0, 2, 5\)"),
    "no features": (PAIRS[:, :, :0], r"0 feature\(s\)"),
    "None": (None, r"shape \(n, 2, n_features\).*Got shape \(\)"),
    "one vector": (A, r"shape \(n, 2, n_features\).*shape \(5,\)"),
    "one pair without its axis": (PAIRS[0], r"shape \(2, 5\) are row numbers.*no feature table was given"),
    "four dimensions": (PAIRS[None], r"shape \(n, 2, n_features\).*shape \(1, 9, 2, 5\)"),
    "triplets": (TRIPLETS, r"pair has 2 items.*\(n, 2, n_features\). Got \(9, 3, 5\)"),
}


@cases(BAD_PAIRS)
def test_bad_pairs_are_rejected(make_oahu: Factory, snapshot: View, data: Any, message: str) -> None:
    learner = learner_of(make_oahu, fitted=True)
    assert_rejected(lambda learner: learner.pair_score(data), learner, snapshot, message)


@cases(BAD_PAIRS, "NaN", "triplets")
def test_every_learner_rejects_bad_pairs(make: Factory, snapshot: View, data: Any, message: str) -> None:
    learner = learner_of(make, fitted=True)
    assert_rejected(lambda learner: learner.pair_score(data), learner, snapshot, message)


@cases(BAD_PAIRS, "NaN", "triplets")
def test_bad_pairs_have_no_distance(make_typical: Factory, data: Any, message: str) -> None:
    learner = learner_of(make_typical, fitted=True)
    with pytest.raises(InvalidInputError, match=message):
        learner.pair_distance(data)


def test_a_pair_index_past_the_end_is_rejected(make: Factory) -> None:
    learner = learner_of(make, fitted=True, preprocessor=TABLE)
    with pytest.raises(InvalidInputError, match=r"second item of pair 1 is row 20, but .*rows 0 to 19"):
        learner.pair_score([[0, 1], [2, 20]])


# -- pairs to learn from ---------------------------------------------------------------------------------

SAME = np.where(np.arange(9) % 2 == 0, 1, -1)

#: Pairs as values and their y, for a learner of pairs.
BAD_LABELLED_PAIRS: dict[str, tuple[Any, Any, str]] = {
    "no y": (PAIRS, None, r"Pairs need y: \+1 .* -1 "),
    "too few": (PAIRS, SAME[:8], r"each of the 9 pairs.*shape \(9,\). Got \(8,\)"),
    "one for all": (PAIRS, 1, r"shape \(9,\). Got \(\)"),
    "two columns": (PAIRS, np.stack([SAME, SAME], axis=1), r"shape \(9,\). Got \(9, 2\)"),
    "zeros": (PAIRS, np.where(SAME == 1, 1, 0), r"\+1 .* -1 .* Got 0 for pair 1 "),
    "two": (PAIRS, put(SAME, (4,), 2), "Got 2 for pair 4 "),
    "NaN": (PAIRS, put(SAME, (3,), np.nan, float), "Got nan for pair 3 "),
    "words": (PAIRS, np.full(9, "same"), "Got 'same' for pair 0 "),
    "None inside": (PAIRS, [1] * 8 + [None], "Got None for pair 8 "),
    "ragged": (PAIRS, [1] * 8 + [[1, -1]], "y is ragged"),
    "triplets with y": (TRIPLETS, SAME, r"pair has 2 items.*\(n, 2, n_features\). Got \(9, 3, 5\)"),
    "NaN in an item": (put(PAIRS, (3, 1, 2), np.nan), SAME, r"NaN: the second item of pair 3 at feature 2\b"),
    "no pairs": (PAIRS[:0], SAME[:0], r"At least one pair is needed\. Got shape \(0, 2, 5\)"),
}


@cases(BAD_LABELLED_PAIRS)
def test_bad_labelled_pairs_are_rejected(
    factories: dict[str, Factory], snapshot: View, data: Any, y: Any, message: str
) -> None:
    learner = learner_of(factories["LEGO"], fitted=True)
    assert_rejected(lambda learner: learner.partial_fit(data, y), learner, snapshot, message)


@cases(BAD_LABELLED_PAIRS, "no y", "zeros", "NaN in an item")
@pytest.mark.parametrize(("fitted", "method"), CALLS[:-1])
def test_every_call_rejects_bad_labelled_pairs(
    make_of_pairs: Factory, snapshot: View, fitted: bool, method: str, data: Any, y: Any, message: str
) -> None:
    learner = learner_of(make_of_pairs, fitted)
    assert_rejected(lambda learner: getattr(learner, method)(data, y), learner, snapshot, message)


@pytest.mark.parametrize(("fitted", "method"), CALLS)
def test_triplet_learners_given_pairs_say_what_they_need(
    make_of_triplets: Factory, fitted: bool, method: str
) -> None:
    learner = learner_of(make_of_triplets, fitted)
    with pytest.raises(InvalidInputError, match=r"triplet has 3 items.*Got \(9, 2, 5\).*Pairs.*triplets\(\)"):
        getattr(learner, method)(PAIRS)


@pytest.mark.parametrize("method", ["partial_fit", "fit"])
def test_triplet_learners_given_labelled_pairs_say_what_they_need(make_of_triplets: Factory, method: str) -> None:
    learner = make_of_triplets()
    with pytest.raises(InvalidInputError, match=r"learns from triplets. Got pairs.*triplets\(\)"):
        getattr(learner, method)(Pairs(PAIRS, SAME))


@pytest.mark.parametrize("method", ["partial_fit", "fit"])
def test_triplet_learners_given_rows_of_pairs_say_what_they_need(
    make_of_triplets: Factory, snapshot: Callable[[Learner], Any], method: str
) -> None:
    learner = learner_of(make_of_triplets, fitted=True, preprocessor=TABLE)
    before = snapshot(learner)
    with pytest.raises(InvalidInputError, match=r"learns from triplets. Got pairs.*triplets\(\)"):
        getattr(learner, method)(INDICES[:, :2], SAME[:6])
    assert snapshot(learner) == before


@pytest.mark.parametrize("method", ["partial_fit", "fit"])
def test_triplet_learners_given_rows_of_triplets_reject_labels(make_of_triplets: Factory, method: str) -> None:
    with pytest.raises(InvalidInputError, match="y must be None"):
        getattr(make_of_triplets(preprocessor=TABLE), method)(INDICES, LABELS[:6])


def test_rows_of_pairs_are_scored_as_their_values(make: Factory) -> None:
    learner = learner_of(make, fitted=True, preprocessor=TABLE)
    assert learner.score(INDICES[:, :2], SAME[:6]) == learner.score(TABLE[INDICES[:, :2]], SAME[:6])


@pytest.mark.parametrize("method", ["partial_fit", "fit", "score"])
def test_labels_given_twice_are_rejected(make_of_pairs: Factory, method: str) -> None:
    learner = learner_of(make_of_pairs, fitted=True)
    with pytest.raises(InvalidInputError, match="have their own labels: y must be None"):
        getattr(learner, method)(Pairs(PAIRS, SAME), -SAME)


@pytest.mark.parametrize("items", [(A,), (A, P, N, A), ()], ids=["one", "four", "none"])
def test_a_constraint_has_two_or_three_items(make: Factory, items: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidInputError, match=rf"three items, two items and y, or .* Got {len(items)} item\(s\)"):
        make().learn_one(*items)


def test_pairs_of_one_kind_cannot_be_scored(make: Factory) -> None:
    with pytest.raises(InvalidInputError, match="needs similar and dissimilar pairs"):
        learner_of(make, fitted=True).score(PAIRS, np.ones(9))


# -- items and labels ------------------------------------------------------------------------------------

BAD_ITEMS: dict[str, tuple[Any, str]] = {
    "NaN": (put(TABLE, (3, 1), np.nan), "NaN: row 3, feature 1"),
    "infinity": (put(TABLE, (3, 1), -np.inf), "infinity: row 3, feature 1"),
    "too large for float32": (put(TABLE, (3, 1), 1e39), r"1e\+39, too large for float32: row 3, feature 1"),
    "too large for any float": (put(TABLE, (3, 1), 10**400, object), "too large"),
    "None inside": (put(TABLE, (3, 1), None, object), "NaN: row 3, feature 1"),
    "ragged": ([[1.0] * 5, [1.0] * 4], "ragged|inhomogeneous"),
    "words": (np.full((20, 5), "one"), "string"),
    "complex": (TABLE + 1j, "[Cc]omplex"),
    "an object inside": (put(TABLE, (3, 1), object(), object), "number, not 'object'"),
    "no items": (TABLE[:0], r"0 sample\(s\)|no items"),
    "no features": (TABLE[:, :0], r"0 feature\(s\)"),
    "None": (None, "2D array|n_items, n_features"),
    "a number": (3.0, "2D array|n_items, n_features"),
    "one vector": (A, "2D array|n_items, n_features"),
    "triplets": (TRIPLETS, "dim 3|n_items, n_features|pair has 2 items"),
    "four dimensions": (TRIPLETS[None], "dim 4|n_items, n_features"),
}

SPARSE_ITEMS = {"a sparse matrix": sparse.csr_matrix(TABLE), "a sparse array": sparse.csr_array(TABLE)}
LABELLED_CALLS = pytest.mark.parametrize(("fitted", "method"), [(False, "fit"), (True, "fit"), (True, "score")])


@pytest.mark.parametrize("items", SPARSE_ITEMS.values(), ids=SPARSE_ITEMS.keys())
@LABELLED_CALLS
def test_sparse_items_are_rejected(make_dense: Factory, fitted: bool, method: str, items: Any) -> None:
    learner = learner_of(make_dense, fitted)
    with pytest.raises(InvalidInputError, match=r"[Ss]parse"):
        getattr(learner, method)(items, LABELS)


@cases(BAD_ITEMS)
def test_bad_items_cannot_be_transformed(make_oahu: Factory, snapshot: View, data: Any, message: str) -> None:
    learner = learner_of(make_oahu, fitted=True)
    assert_rejected(lambda learner: learner.transform(data), learner, snapshot, message)


@cases(BAD_ITEMS, "NaN", "words", "one vector")
def test_bad_items_cannot_be_embedded(make_oahu: Factory, data: Any, message: str) -> None:
    learner = learner_of(make_oahu, fitted=True)
    with pytest.raises(InvalidInputError, match=message):
        learner.embed(data)


@cases(BAD_ITEMS)
def test_bad_items_with_labels_are_rejected(make_typical: Factory, snapshot: View, data: Any, message: str) -> None:
    learner = learner_of(make_typical, fitted=True)
    assert_rejected(lambda learner: learner.fit(data, LABELS), learner, snapshot, message)


@cases(BAD_ITEMS, "NaN", "words", "triplets")
@LABELLED_CALLS
def test_every_call_rejects_bad_items_with_labels(
    make: Factory, snapshot: View, fitted: bool, method: str, data: Any, message: str
) -> None:
    learner = learner_of(make, fitted)
    assert_rejected(lambda learner: getattr(learner, method)(data, LABELS), learner, snapshot, message)


@pytest.mark.parametrize(
    ("method", "data", "place"),
    [
        ("pair_score", np.zeros((300, 2, 5)), "second item of pair 200"),
        ("score", np.zeros((300, 3, 5)), "positive of triplet 200"),
    ],
)
def test_a_finite_item_whose_distance_would_overflow_is_named(
    make_off_sphere: Factory, method: str, data: NDArray[Any], place: str
) -> None:
    largest = put(data, (200, 1), np.finfo(np.float32).max)
    with pytest.raises(InvalidInputError, match=f"The {place} is too large for the model's float32"):
        getattr(learner_of(make_off_sphere, fitted=True), method)(largest)


def test_a_learner_that_normalizes_scores_the_largest_of_items(make_on_sphere: Factory) -> None:
    largest = put(np.zeros((300, 2, 5)), (200, 1), np.finfo(np.float32).max)
    assert np.isfinite(learner_of(make_on_sphere, fitted=True).pair_score(largest)).all()


@pytest.mark.parametrize("method", ["transform", "embed"])
def test_a_finite_item_whose_embedding_would_overflow_is_named(make_oahu: Factory, method: str) -> None:
    learner = learner_of(make_oahu, fitted=True)
    largest = put(TABLE, (3,), np.finfo(np.float32).max)
    with pytest.raises(InvalidInputError, match="Item 3 is too large for the model's float32"):
        getattr(learner, method)(largest)


BAD_LABELS: dict[str, tuple[Any, str]] = {
    "too few": (LABELS[:9], r"inconsistent numbers of samples: \[20, 9\]"),
    "two columns": (np.stack([LABELS, LABELS], axis=1), r"1d array.*shape \(20, 2\)"),
    "NaN": (np.where(LABELS == 1, np.nan, 0.0), "contains NaN"),
    "real numbers": (LABELS + 0.5, "Unknown label type: continuous"),
    "bytes": (LABELS.astype("S1"), "labels"),
    "dates": (LABELS.astype("datetime64[s]"), "labels|[Uu]nknown label type"),
    "words and numbers": (np.array(["a", 1] * 10, dtype=object), "labels"),
}

#: Labels that allow no constraint.
POOR_LABELS: dict[str, tuple[Any, str]] = {
    "one class": (np.zeros(20, int), r"(negative of another class|items of two classes)\. .* 1 class"),
    "only singletons": (np.arange(20), r"(positive of the anchor's class|two items of one class)\. .*20 classes"),
}


@cases(BAD_LABELS)
@NEW_OR_FITTED
def test_bad_labels_are_rejected(make_oahu: Factory, snapshot: View, fitted: bool, data: Any, message: str) -> None:
    learner = learner_of(make_oahu, fitted)
    assert_rejected(lambda learner: learner.fit(TABLE, data), learner, snapshot, message)


@cases(BAD_LABELS, "too few", "real numbers")
def test_every_learner_rejects_bad_labels(make: Factory, snapshot: View, data: Any, message: str) -> None:
    learner = learner_of(make, fitted=True)
    assert_rejected(lambda learner: learner.fit(TABLE, data), learner, snapshot, message)


@cases(POOR_LABELS)
@NEW_OR_FITTED
def test_labels_that_allow_no_constraint_are_rejected(
    make_drawing: Factory, snapshot: View, fitted: bool, data: Any, message: str
) -> None:
    learner = learner_of(make_drawing, fitted)
    assert_rejected(lambda learner: learner.fit(TABLE, data), learner, snapshot, message)


def test_continuous_labels_cannot_be_scored(make: Factory) -> None:
    with pytest.raises(InvalidInputError, match="Unknown label type: continuous"):
        learner_of(make, fitted=True).score(TABLE, LABELS + 0.5)


def test_partial_fit_rejects_labels_and_names_the_call_that_takes_them(make_of_triplets: Factory) -> None:
    with pytest.raises(InvalidInputError, match=r"y must be None.*pass items of shape"):
        make_of_triplets().partial_fit(TRIPLETS, LABELS[:9])


# -- parameters ------------------------------------------------------------------------------------------

# Every parameter has the ends of its range and a value of another type. OAHU and LEGO have full lists: the other
# learners validate with the same functions.
STEP = ("in (0, inf)", [0, np.inf, None])
AT_LEAST_0 = ("in [0, inf)", [-1e-9, np.inf, "0"])
CHOICE = ("one of False, True", [1, None])
TWO = [None, 3, (1,), (1, 2, 3), (2, 1), (-1, 1), ("1", 2), (np.nan, 1), (1, np.nan)]
START = ("one of 'identity', 'zero'", ["ones", 0])

#: What each parameter of a learner must be, from its documentation, and values that are not.
PARAMETERS: dict[str, dict[str, tuple[str, list[Any]]]] = {
    "OAHU": {
        "n_layers": ("an int of at least 0", [-1, 2.0, True, np.nan, None, "2", [2]]),
        "hidden_size": ("an int of at least 1", [0, -5, 6.0, True, np.nan, None, "6"]),
        "embedding_size": ("an int of at least 1", [0, -5, 4.0, True, np.nan, None, "4"]),
        "tau": (
            "in (0, 2)",
            [0.0, 2.0, 3.0, -0.1, True, np.nan, np.inf, None, "0.1", [0.1], 0.1j, np.complex128(0.1)],
        ),
        "beta": ("in (0, 1)", [0, 1, 1.5, -0.5, True, np.nan, None, "0.9"]),
        "smoothing": ("in [0, 1]", [-0.001, 1.001, True, np.nan, np.inf, None, "0"]),
        "learning_rate": ("in (0, inf)", [0, -0.3, True, np.nan, np.inf, None, "0.3", 10**400]),
        "hedge": ("one of 'printed', 'log_beta', 'hedge'", ["Hedge", "", 0, None, ["printed"]]),
        "through_thresholds": ("one of False, True", [0, 1, None, "True", np.nan]),
        "initialization": ("one of 'pytorch', 'he', 'orthogonal'", ["zeros", 0, None, True]),
        "bias": CHOICE,
    },
    "AnchoredOAHU": {
        "learning_rate": STEP,
        "temperature": STEP,
        "prior": AT_LEAST_0,
        "n_random": ("an int of at least 1", [0, 8.0]),
        "batch_size": ("an int of at least 1", [0, 4.0]),
    },
    "LEGO": {
        "learning_rate": STEP,
        "bounds": ("two ascending numbers in [0, inf)", [*TWO[1:], (1, np.inf)]),
        "percentiles": ("two ascending numbers in [0, 100]", [*TWO, (5, 101)]),
    },
    "RDML": {"learning_rate": STEP, "mode": ("one of 'project', 'ray'", ["rays", 0, None]), "start": START},
    "OASIS": {"aggressiveness": STEP, "normalize": CHOICE},
    "OPML": {
        "gamma": STEP,
        "construction": ("one of 'author', 'latest'", ["authors", 0, None]),
        "copml": CHOICE,
        "exact_hinge": CHOICE,
        "too_long": ("one of 'raise', 'skip'", ["ignore", 0, None]),
    },
    "POLA": {"relaxation": AT_LEAST_0, "start": START},
    "SOML": {
        "method": ("one of 'truncated_gradient', 'dual_averaging'", ["tg", 0, None]),
        "learning_rate": STEP,
        "sparsity": AT_LEAST_0,
        "gamma": STEP,
        "normalize": CHOICE,
    },
    "SORS": {"learning_rate": STEP, "sparsity": AT_LEAST_0, "normalize": CHOICE},
    "AdaSORS": {"learning_rate": STEP, "sparsity": AT_LEAST_0, "delta": STEP, "normalize": CHOICE},
    "Euclidean": {},
    "Cosine": {},
}

#: Parameters of all learners. The base class validates them.
COMMON: dict[str, tuple[str, list[Any]]] = {
    "n_constraints": ("an int of at least 1", [0, -1, 10.0, True, np.nan, None, "10"]),
    "dtype": ("one of 'float32', 'float64'", ["float16", "double", np.float32, np.dtype("float32"), None, 32]),
}
BAD_PARAMETERS = [
    pytest.param(learner, name, value, expected, id=f"{learner}-{name}={value!r}")
    for learner, parameters in PARAMETERS.items()
    for name, (expected, values) in (parameters | (COMMON if learner == "OAHU" else {})).items()
    for value in values
]
BEGINNING: dict[str, Take] = {
    "partial_fit": lambda learner: learner.partial_fit(TRIPLETS),
    "learn_one": lambda learner: learner.learn_one(*TRIPLETS[0]),
    "fit": lambda learner: learner.fit(TRIPLETS),
    "fit with labels": lambda learner: learner.fit(TABLE, LABELS),
    "initialize": lambda learner: learner.initialize(5),
}


@pytest.mark.parametrize(("learner", "name", "value", "expected"), BAD_PARAMETERS)
def test_a_bad_parameter_is_rejected(
    factories: dict[str, Factory], learned: View, learner: str, name: str, value: Any, expected: str
) -> None:
    message = f"The '{name}' parameter of {learner} must be {expected}. Got {shorten(value)} instead."
    with pytest.raises(InvalidInputError, match=f"^{re.escape(message)}$"):
        factories[learner](**{name: value}).partial_fit(TRIPLETS)
    model = learner_of(factories[learner], fitted=True)
    before = learned(model)
    with pytest.raises(InvalidInputError, match=name):
        model.set_params(**{name: value}).partial_fit(TRIPLETS)
    assert learned(model.set_params(**{name: factories[learner]().get_params()[name]})) == before


@pytest.mark.parametrize("begin", BEGINNING.values(), ids=BEGINNING.keys())
def test_every_first_call_rejects_a_bad_parameter(make: Factory, begin: Take) -> None:
    with pytest.raises(InvalidInputError, match=r"The 'n_constraints' parameter of \w+ must be .*Got 0 instead"):
        begin(make(n_constraints=0))


def test_every_parameter_but_tables_and_the_seed_is_validated(make_every: Factory) -> None:
    learner = make_every()
    checked = PARAMETERS[type(learner).__name__] | COMMON
    assert set(learner.get_params()) - set(checked) == {*learner.table_parameters, "random_state"}
    assert "preprocessor" in learner.table_parameters


@pytest.mark.parametrize("value", [-1, 1.0, True, np.nan, "0", [0]], ids=repr)
def test_a_bad_random_state_is_rejected(make_oahu: Factory, value: Any) -> None:
    expected = "None, an int of at least 0, a numpy Generator or a RandomState"
    message = rf"The 'random_state' parameter of \w+ must be {expected}. Got {re.escape(shorten(value))} instead"
    with pytest.raises(InvalidInputError, match=message):
        make_oahu(random_state=value).partial_fit(TRIPLETS)


@pytest.mark.parametrize("value", [0, -3, 5.0, True, None, "5"], ids=repr)
def test_initialize_needs_a_number_of_features(make_oahu: Factory, value: Any) -> None:
    message = rf"The 'n_features' parameter of \w+ must be an int of at least 1. Got {value!r} instead\."
    with pytest.raises(InvalidInputError, match=message):
        make_oahu().initialize(value)


@pytest.mark.parametrize(
    "parameters",
    [
        {"smoothing": 0},
        {"smoothing": 1},
        {"n_layers": 0},
        {"hidden_size": 1},
        {"embedding_size": 1},
        {"n_constraints": 1},
        {"n_layers": np.int64(1), "tau": np.float32(0.25)},
        {"random_state": np.uint8(3)},
    ],
    ids=str,
)
def test_parameters_at_the_ends_of_their_range_and_of_numpy_types_are_accepted(
    make_oahu: Factory, parameters: dict[str, Any]
) -> None:
    assert make_oahu(**parameters).partial_fit(TRIPLETS).n_seen_ == len(TRIPLETS)


def test_a_random_state_set_later_is_validated(make: Factory) -> None:
    with pytest.raises(InvalidInputError, match="'random_state' parameter"):
        learner_of(make, fitted=True).set_params(random_state=-1).partial_fit(TRIPLETS)


@pytest.mark.parametrize("begin", ["partial_fit", "fit"])
def test_a_rejected_call_does_not_move_the_callers_generator(make: Factory, begin: str) -> None:
    generator = np.random.default_rng(7)
    with pytest.raises(InvalidInputError):
        getattr(make(random_state=generator), begin)(put(TRIPLETS, (0, 0, 0), np.nan))
    assert generator.bit_generator.state == np.random.default_rng(7).bit_generator.state


def test_a_type_set_after_the_fit_does_not_change_what_is_too_large(make: Factory) -> None:
    learner = learner_of(make, fitted=True).set_params(dtype="float64")
    with pytest.raises(InvalidInputError, match="too large for float32"):
        learner.partial_fit(put(TRIPLETS, (2, 0, 1), 1e39))


# -- tau of 2/3 and more ---------------------------------------------------------------------------------


@pytest.mark.parametrize("tau", [2 / 3, 1.99])
@pytest.mark.parametrize("begin", BEGINNING.values(), ids=BEGINNING.keys())
def test_a_tau_for_which_theorem_1_says_nothing_warns_with_its_reason(
    make_oahu: Factory, begin: Take, tau: float
) -> None:
    with pytest.warns(UserWarning, match=r"outside \(0, 2/3\), the range of Theorem 1 .*2 - 3 tau, here") as caught:
        begin(make_oahu(tau=tau))
    apart = re.search(r"2 - 3 tau, here (\S+)\.", str(caught[0].message))
    assert apart is not None
    assert float(apart[1]) == pytest.approx(2 - 3 * tau, abs=0.01)


@pytest.mark.parametrize("begin", BEGINNING.values(), ids=BEGINNING.keys())
def test_the_warning_points_at_the_callers_line(make_oahu: Factory, begin: Take) -> None:
    with pytest.warns(UserWarning, match="Theorem 1") as caught:
        begin(make_oahu(tau=1.0))
    assert caught[0].filename == __file__


def test_a_refit_warns_again(make_oahu: Factory) -> None:
    with pytest.warns(UserWarning, match="Theorem 1"):
        learner = make_oahu(tau=1.0).fit(TRIPLETS)
    with pytest.warns(UserWarning, match="Theorem 1"):
        learner.fit(TRIPLETS)


@pytest.mark.filterwarnings("error")
def test_later_triplets_do_not_warn_again(make_oahu: Factory) -> None:
    with pytest.warns(UserWarning, match="Theorem 1"):
        learner = make_oahu(tau=1.0).partial_fit(TRIPLETS)
    assert learner.partial_fit(TRIPLETS).learn_one(*TRIPLETS[0]).n_seen_ == 2 * len(TRIPLETS) + 1


def test_a_tau_that_is_changed_later_warns_once(make_oahu: Factory) -> None:
    learner = make_oahu().partial_fit(TRIPLETS).set_params(tau=1.5)
    with pytest.warns(UserWarning, match="Theorem 1") as caught:
        learner.partial_fit(TRIPLETS).partial_fit(TRIPLETS)
    assert len(caught) == 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("begin", BEGINNING.values(), ids=BEGINNING.keys())
def test_a_tau_for_which_theorem_1_holds_does_not_warn(make_oahu: Factory, begin: Take) -> None:
    assert begin(make_oahu(tau=np.nextafter(2 / 3, 0))).n_features_in_ == 5


# -- finite triplets that overflow the model --------------------------------------------------------------

OVERFLOWING = put(np.random.default_rng(1).normal(size=(300, 3, 5)), (200,), 3e38)
OVERFLOWING[200, 1:] *= -1


@pytest.mark.parametrize("method", ["partial_fit", "fit"])
def test_a_triplet_that_would_overflow_the_model_is_rejected_by_its_row(make_oahu: Factory, method: str) -> None:
    with pytest.raises(RejectedConstraintError, match=r"Triplet 200 was rejected.*overflow") as refusal:
        getattr(make_oahu(), method)(OVERFLOWING)
    assert refusal.value.row == 200


@pytest.mark.parametrize("fitted", [False, True], ids=["new", "fitted"])
@pytest.mark.parametrize("method", ["partial_fit", "fit"])
def test_a_rejected_triplet_changes_nothing(
    make_oahu: Factory, snapshot: Callable[[Learner], Any], fitted: bool, method: str
) -> None:
    learner = learner_of(make_oahu, fitted)
    before = snapshot(learner)
    with pytest.raises(RejectedConstraintError):
        getattr(learner, method)(OVERFLOWING)
    assert snapshot(learner) == before


def test_what_learns_nothing_cannot_overflow(factories: dict[str, Factory]) -> None:
    assert factories["Euclidean"]().partial_fit(OVERFLOWING).n_seen_ == 600


@pytest.mark.parametrize("name", ["LEGO", "RDML", "POLA"])
def test_a_rejected_pair_is_named_as_the_triplet_it_came_in(factories: dict[str, Factory], name: str) -> None:
    learner = factories[name]()
    with pytest.raises(RejectedConstraintError, match=r"Triplet 200 was rejected.*overflow") as refusal:
        learner.partial_fit(OVERFLOWING)
    assert refusal.value.row == 200


@pytest.mark.parametrize("method", ["truncated_gradient", "dual_averaging"])
def test_soml_names_the_triplet_that_would_overflow(method: str) -> None:
    triplets = put(np.random.default_rng(1).normal(size=(300, 3, 5)), (200,), 1e25)
    triplets[200, 2] *= -1
    with pytest.raises(RejectedConstraintError, match=r"Triplet 200 was rejected.*overflow") as refusal:
        SOML(method=method, normalize=False).partial_fit(triplets)
    assert refusal.value.row == 200
