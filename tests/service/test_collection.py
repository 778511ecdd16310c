"""Collections: feedback affects the next query, and concurrent readers see consistent states."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

import oahu
from oahu import Comparator, Retriever
from oahu.constraints import Pair, Triplet
from oahu.io import model_files
from oahu.io.model_files import Content
from oahu.service import feature_store, learner_loop
from oahu.service.collection import Collection
from oahu.service.errors import (
    ConflictError,
    ContradictoryFeedbackError,
    InvalidRequestError,
    LearnerFailedError,
    NotFoundError,
    NotLearnedError,
    OverloadedError,
)
from oahu.service.learner_factory import new_learner
from oahu.service.records import Click, CollectionConfig, ModelReplacement, NewItem, PublishedMetric, Undo
from oahu.service.service import Service

TIMEOUT = 600.0  # seconds; only a real hang exceeds it


def keys(collection: Collection, query: Any, k: int = 5, **options: Any) -> list[str]:
    return [item.key for item in collection.search(query, k, **options).matches]


def wait_until_learned(collection: Collection) -> PublishedMetric:
    """Wait until the whole log is learned. Return the metric."""
    return collection.learner.wait_for(collection.feedback_log.last_seq, TIMEOUT)


def numbers_and_rows(collection: Collection, n: int) -> Any:
    numbers = [collection.catalogue.item(f"i{at}").number for at in range(n)]
    return numbers, collection.catalogue.features.take(numbers)


def brute_force_keys(collection: Collection, query: str, k: int, n: int) -> list[str]:
    """Return the results of a retriever over all items, without the query."""
    numbers, rows = numbers_and_rows(collection, n)
    retriever = Retriever(wait_until_learned(collection).metric, collection.config.vote).add(numbers, rows)
    return [
        collection.catalogue.features.key(int(key))
        for key in retriever.similar_to(collection.catalogue.item(query).number, k).keys
    ]


# -- search ----------------------------------------------------------------------------------------------------


def test_a_new_collection_gives_no_results(make_collection: Any) -> None:
    collection = make_collection(0)
    assert collection.search(np.zeros(4, np.float32), 5).matches == ()
    assert collection.classify(np.zeros(4, np.float32), 5).labels == ()
    assert collection.queries.index.n_items == 0


def test_stored_items_are_found(make_collection: Any) -> None:
    collection = make_collection(20)
    assert keys(collection, "i3", 5) == brute_force_keys(collection, "i3", 5, 20)


def test_search_by_features(make_collection: Any) -> None:
    collection = make_collection(20)
    vector = collection.catalogue.features.take([collection.catalogue.item("i7").number])[0]
    assert keys(collection, vector, 1) == ["i7"]


@pytest.mark.parametrize("query", ["search", "classify"])
def test_a_query_for_a_missing_item_is_an_error(make_collection: Any, query: str) -> None:
    with pytest.raises(NotFoundError, match="'missing'"):
        getattr(make_collection(3), query)("missing", 5)


@pytest.mark.parametrize("learner", ["OASIS", "AnchoredOAHU"])
def test_feedback_affects_the_next_query(make_collection: Any, learner: str) -> None:
    collection = make_collection(20, learner=learner)
    before = collection.published
    receipt = collection.add_feedback([Triplet("i0", "i2", "i1"), Click("i4", ("i6", "i8"), ("i3",))]).result(
        TIMEOUT
    )
    found = collection.search("i10", 5)
    assert found.published.version == receipt.last_seq == 2
    assert found.published.constraints > before.constraints
    assert found.candidates.version == 0


def test_results_after_a_refresh_equal_brute_force(make_collection: Any) -> None:
    collection = make_collection(60, learner="OASIS")
    for at in range(0, 40, 2):
        collection.add_feedback([Triplet(f"i{at}", f"i{at + 2}", f"i{at + 1}")]).result(TIMEOUT)
    wait_until_learned(collection)
    collection.refresh_index()
    assert collection.search("i50", 5).candidates.version == 20
    assert [keys(collection, f"i{at}", 7) for at in (50, 51, 52)] == [
        brute_force_keys(collection, f"i{at}", 7, 60) for at in (50, 51, 52)
    ]


def test_items_with_feedback_come_first_or_last(make_collection: Any) -> None:
    collection = make_collection(20)
    order = brute_force_keys(collection, "i0", 19, 20)
    collection.add_feedback([Click("i0", (order[-1],), (order[0],))]).result(TIMEOUT)
    found = keys(collection, "i0", 19)
    assert (found[0], found[-1]) == (order[-1], order[0])
    assert keys(collection, "i0", 19, use_feedback=False) == brute_force_keys(collection, "i0", 19, 20)


def test_implied_relations_are_reported(make_collection: Any) -> None:
    collection = make_collection(20)
    collection.add_feedback([Pair("i0", "i1", True), Pair("i1", "i2", True), Pair("i2", "i3", False)]).result(
        TIMEOUT
    )
    matches = collection.search("i0", 19).matches
    relations = {item.key: item.relation for item in matches if item.relation}
    assert relations == {"i1": "similar", "i2": "similar", "i3": "dissimilar"}


def test_undone_feedback_has_no_effect(make_collection: Any) -> None:
    collection = make_collection(10)
    collection.add_feedback([Pair("i0", "i9", True)]).result(TIMEOUT)
    assert keys(collection, "i0", 1) == ["i9"]
    collection.undo(1).result(TIMEOUT)
    assert keys(collection, "i0", 9) == brute_force_keys(collection, "i0", 9, 10)


def test_a_replaced_item_is_found_by_its_new_features(make_collection: Any) -> None:
    collection = make_collection(20)
    vector = np.full(4, 50.0, np.float32)
    collection.put_items([NewItem("i3", vector.tobytes(), "even")]).result(TIMEOUT)
    assert keys(collection, vector, 1) == ["i3"]
    assert len(keys(collection, vector, 100)) == 20
    assert "i3" in keys(collection, vector, 100, label="even")


def test_replacing_items_repeatedly_does_not_grow_the_memory(
    make_collection: Any, items: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_store, "_MIN_ROWS", 8)
    collection = make_collection(20)
    referenced = collection.catalogue.features.take([collection.catalogue.item(key).number for key in ("i0", "i1")])
    collection.add_feedback([Pair("i0", "i1", True)]).result(TIMEOUT)
    for seed in range(1, 10):
        collection.put_items(items(20, seed=seed)).result(TIMEOUT)
        assert keys(collection, "i0", 19) == brute_force_keys(collection, "i0", 19, 20)
    assert len(collection.catalogue.features) <= 2 * (20 + 2)
    # A replay needs the features that the log refers to.
    np.testing.assert_array_equal(collection.catalogue.features.take([1, 2]), referenced)


def test_a_deleted_item_is_not_found(make_collection: Any) -> None:
    collection = make_collection(20)
    collection.delete_items(["i3", "i4"]).result(TIMEOUT)
    assert len(keys(collection, "i0", 100)) == 17
    with pytest.raises(NotFoundError):
        collection.catalogue.item("i3")
    with pytest.raises(NotFoundError):
        collection.search("i3", 5)
    assert collection.describe()["items"] == 18


def test_an_item_does_not_vote_for_its_own_label(make_collection: Any) -> None:
    collection = make_collection(40)
    collection.put_items([NewItem("far", np.full(4, 90.0, np.float32).tobytes(), "alone")]).result(TIMEOUT)
    assert collection.classify("far", 1).labels[0][0] in ("even", "odd")
    assert collection.classify(np.full(4, 89.0, np.float32), 1).labels == (("alone", 1.0),)


# -- compare ---------------------------------------------------------------------------------------------------


def labelled(n: int = 10) -> list[tuple[str, str, bool]]:
    return [(f"i{a}", f"i{b}", a % 2 == b % 2) for a in range(n) for b in range(a)]


def test_compare_without_calibration_explains_what_to_do(make_collection: Any) -> None:
    with pytest.raises(ConflictError, match="calibrate"):
        make_collection(5).compare("i0", "i1")


def test_thresholds_are_calibrated_for_the_newest_metric(make_collection: Any) -> None:
    collection = make_collection(20, learner="OASIS")
    collection.calibrate(labelled(), {"target": "f1"}).result(TIMEOUT)
    for at in (0, 4):
        collection.add_feedback([Triplet(f"i{at}", f"i{at + 2}", f"i{at + 1}")]).result(TIMEOUT)
        found = collection.compare("i0", "i12")
        _, rows = numbers_and_rows(collection, 20)
        pairs = [[int(first[1:]), int(second[1:])] for first, second, _ in labelled()]
        comparator = Comparator(collection.published.metric)
        comparator.calibrate(rows[pairs], [same for *_, same in labelled()], target="f1")
        expected = comparator.compare(rows[0], rows[12])
        assert (found.answer, found.score) == (expected.answer, expected.score)
        assert found.yes_below == comparator.yes_below_


def test_a_calibration_outlives_a_restart_and_its_items(open_service: Any, items: Any) -> None:
    service = open_service()
    collection = service.create(CollectionConfig("things", 4, "Euclidean"))
    collection.put_items(items(12)).result(TIMEOUT)
    collection.calibrate(labelled(), {"target": "accuracy"}).result(TIMEOUT)
    collection.delete_items([f"i{at}" for at in range(5)]).result(TIMEOUT)
    before = collection.compare("i10", "i11")
    service.close()
    again = open_service().collection("things")
    assert again.describe()["calibrated"]
    after = again.compare("i10", "i11")
    assert (after.answer, after.yes_below, after.no_from) == (before.answer, before.yes_below, before.no_from)


@pytest.mark.parametrize(
    ("pairs", "target", "error"),
    [
        ([("i0", "missing", True)], {"target": "f1"}, NotFoundError),
        ([("i0", "i2", True)], {"target": "f1"}, InvalidRequestError),
        ([("i0", "i1", False), ("i0", "i3", False)], {"target": "f1"}, InvalidRequestError),
        (labelled(4), {"target": "beauty"}, InvalidRequestError),
        (labelled(4), {}, InvalidRequestError),
        (labelled(4), {"target_far": 2.0}, InvalidRequestError),
    ],
)
def test_invalid_calibration_pairs_are_rejected(make_collection: Any, pairs: Any, target: Any, error: Any) -> None:
    with pytest.raises(error):
        make_collection(6).queries.check_calibration(pairs, target)


# -- features --------------------------------------------------------------------------------------------------


def encoded(*values: float) -> str:
    return base64.b64encode(np.array(values, "<f4").tobytes()).decode()


@pytest.mark.parametrize("given", [[1, 2.5, -3, 0], encoded(1, 2.5, -3, 0)])
def test_features_are_numbers_or_base64(make_collection: Any, given: Any) -> None:
    row = make_collection(0).catalogue.parse_features(given, "vector")
    assert row.dtype == np.float32
    assert row.tolist() == [1, 2.5, -3, 0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1, 2, 3], "4 numbers. Got 3"),
        ([1, 2, 3, 4, 5], "4 numbers. Got 5"),
        ([], "4 numbers. Got 0"),
        ([[1, 2, 3, 4]], "4 numbers"),
        ([[1, 2], [3, 4]], "4 numbers"),
        ([[1], [2, 3]], "4 numbers"),
        ([1, 2, float("nan"), 4], "index 2 is not finite"),
        ([1, float("inf"), 3, 4], "index 1 is not finite"),
        ([1, 2, 3, -float("inf")], "index 3 is not finite"),
        ([1, None, 3, 4], "index 1 is not finite"),
        ([1, 2, 3, 10**400], "4 numbers"),
        ([1, 2, 3, "four"], "4 numbers"),
        ([1e9, 1e9, 0, 0], "norm .* Got 1.41e\\+09"),
        ([1e300, 1e300, 0, 0], "norm"),
        (encoded(1, 2, 3), "Got 3"),
        (encoded(1, 2, 3, float("nan")), "index 3 is not finite"),
        (encoded(3e38, 0, 0, 0), "norm"),
        ("not base64!", "base64"),
        ("AAA", "base64"),
        ("AAAA", "base64"),
        ("", "Got 0"),
        ("\u00e4" * 8, "base64"),
    ],
)
def test_invalid_features_are_rejected(make_collection: Any, given: Any, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message) as caught:
        make_collection(0).catalogue.parse_features(given, "items/3/vector")
    assert caught.value.more["where"] == "items/3/vector"


def test_the_largest_accepted_item_can_be_found(make_collection: Any) -> None:
    collection = make_collection(5)
    row = collection.catalogue.parse_features([1e9, 0, 0, 0], "vector")
    collection.put_items([NewItem("large", row.tobytes())]).result(TIMEOUT)
    assert keys(collection, row, 1) == ["large"]


# -- feedback log ----------------------------------------------------------------------------------------------


def test_a_contradiction_is_counted_and_proved(make_collection: Any) -> None:
    collection = make_collection(5, contradictions="refuse")
    collection.add_feedback([Pair("i0", "i1", True)]).result(TIMEOUT)
    with pytest.raises(ContradictoryFeedbackError) as caught:
        collection.add_feedback([Pair("i1", "i0", False)]).result(TIMEOUT)
    assert caught.value.more["proof"] == [{"seq": 1, "first": "i1", "second": "i0", "same": True}]
    assert (collection.counts.accepted, collection.counts.contradictions) == (1, 1)


def test_the_log_shows_keys_and_effective_records(make_collection: Any) -> None:
    collection = make_collection(6, learner="OASIS")
    collection.add_feedback([Pair("i0", "i1", True), Click("i2", ("i3",), ("i4", "i5"))]).result(TIMEOUT)
    assert collection.undo(1).result(TIMEOUT) == 3
    assert collection.replace_model(collection.learner.model_file()).result(TIMEOUT) == 4
    collection.add_feedback([Triplet("i0", "i2", "i4")]).result(TIMEOUT)
    log = collection.feedback_log.page(0, 10)
    assert [entry.change for entry, _ in log if not isinstance(entry.change, ModelReplacement)] == [
        Pair("i0", "i1", True),
        Click("i2", ("i3",), ("i4", "i5")),
        Undo(1, 1),
        Triplet("i0", "i2", "i4"),
    ]
    assert [entry.seq for entry, effective in log if effective] == [2, 5]
    assert [entry.seq for entry, _ in collection.feedback_log.page(2, 2)] == [3, 4]


@pytest.mark.parametrize("undone", [False, True])
def test_the_log_can_be_read_after_its_items_are_deleted(open_service: Any, items: Any, undone: bool) -> None:
    service = open_service()
    collection = service.create(CollectionConfig("things", 4, "OASIS"))
    collection.put_items(items(4)).result(TIMEOUT)
    collection.add_feedback([Triplet("i0", "i1", "i2")]).result(TIMEOUT)
    if undone:
        collection.undo(1).result(TIMEOUT)
    collection.delete_items(["i0", "i1", "i2"]).result(TIMEOUT)
    service.close()
    (entry, effective), *_ = open_service().collection("things").feedback_log.page(0, 10)
    assert (entry.change, effective) == (Triplet("i0", "i1", "i2"), not undone)


def test_feedback_is_rejected_if_the_learner_is_too_far_behind(open_service: Any, items: Any) -> None:
    service = open_service(max_learning_lag=3)
    collection = service.create(CollectionConfig("things", 4, "OASIS"))
    collection.put_items(items(6)).result(TIMEOUT)
    with collection.learner._training:  # blocks the learner
        collection.add_feedback([Pair("i0", "i1", True)] * 3).result(TIMEOUT)
        with pytest.raises(OverloadedError, match="3 feedback records are not learned yet") as caught:
            collection.add_feedback([Pair("i0", "i2", True)])
        assert caught.value.retry_after
    wait_until_learned(collection)
    collection.add_feedback([Pair("i0", "i2", True)]).result(TIMEOUT)
    assert collection.feedback_log.last_seq == 4


def test_a_repeated_request_changes_nothing(make_collection: Any) -> None:
    collection = make_collection(6, learner="OASIS")
    first = collection.add_feedback([Triplet("i0", "i1", "i2")], "request").result(TIMEOUT)
    again = collection.add_feedback([Triplet("i0", "i1", "i2")], "request").result(TIMEOUT)
    assert again == first._replace(replayed=True)
    assert (collection.feedback_log.last_seq, collection.counts.accepted) == (1, 1)


# -- versions --------------------------------------------------------------------------------------------------


@pytest.fixture
def trained_collection(make_collection: Any) -> Collection:
    """Return a collection that has learned five triplets."""
    collection = make_collection(20, learner="OASIS")
    for at in range(0, 10, 2):
        collection.add_feedback([Triplet(f"i{at}", f"i{at + 2}", f"i{at + 1}")]).result(TIMEOUT)
    wait_until_learned(collection)
    assert isinstance(collection, Collection)
    return collection


def model(collection: Collection) -> bytes:
    wait_until_learned(collection)
    return collection.learner.model_file()


def test_the_model_can_be_loaded(trained_collection: Collection) -> None:
    learner = model_files.from_bytes(trained_collection.learner.model_file(), "model")
    assert learner.n_seen_ == trained_collection.published.constraints


def test_undoing_the_last_record_gives_the_previous_model(trained_collection: Collection) -> None:
    before = model(trained_collection)
    trained_collection.add_feedback([Triplet("i1", "i3", "i2")]).result(TIMEOUT)
    assert model(trained_collection) != before
    trained_collection.undo(6).result(TIMEOUT)
    assert model(trained_collection) == before


def test_restoring_a_version_gives_its_model(trained_collection: Collection) -> None:
    before = model(trained_collection)
    trained_collection.add_feedback([Triplet("i1", "i3", "i2"), Triplet("i5", "i7", "i8")]).result(TIMEOUT)
    assert trained_collection.restore(5).result(TIMEOUT) == 8
    assert model(trained_collection) == before


def test_restoring_version_0_gives_the_untrained_learner(trained_collection: Collection) -> None:
    trained_collection.restore(0).result(TIMEOUT)
    assert model(trained_collection) == model_files.to_bytes(new_learner(trained_collection.config))


def test_restoring_a_version_from_before_an_undo_gives_its_model(trained_collection: Collection) -> None:
    before = model(trained_collection)
    trained_collection.undo(2).result(TIMEOUT)
    trained_collection.add_feedback([Triplet("i1", "i3", "i2")]).result(TIMEOUT)
    trained_collection.restore(5).result(TIMEOUT)
    assert model(trained_collection) == before


def test_restoring_a_version_from_before_a_model_replacement_gives_its_model(
    trained_collection: Collection,
) -> None:
    before = model(trained_collection)
    trained_collection.replace_model(model_files.to_bytes(new_learner(trained_collection.config))).result(TIMEOUT)
    trained_collection.add_feedback([Triplet("i1", "i3", "i2")]).result(TIMEOUT)
    trained_collection.restore(5).result(TIMEOUT)
    assert model(trained_collection) == before


def test_a_restore_can_be_reverted_by_another_restore(trained_collection: Collection) -> None:
    before = model(trained_collection)
    trained_collection.restore(2).result(TIMEOUT)
    assert model(trained_collection) != before
    trained_collection.restore(5).result(TIMEOUT)
    assert model(trained_collection) == before


@pytest.mark.parametrize("seed", range(3))
def test_restoring_any_version_after_random_changes_gives_its_model(make_collection: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    collection = make_collection(20, learner="OASIS")
    models = {0: model(collection)}
    for _ in range(14):
        step = rng.integers(6)
        effective = [entry.seq for entry, counts in collection.feedback_log.page(0, 99) if counts]
        if step == 0 and effective:
            collection.undo(int(rng.choice(effective))).result(TIMEOUT)
        elif step == 1:
            collection.replace_model(models[int(rng.choice(list(models)))]).result(TIMEOUT)
        elif step == 2 and collection.feedback_log.last_seq:
            version = int(rng.integers(collection.feedback_log.last_seq))
            collection.restore(version).result(TIMEOUT)
            assert model(collection) == models[version]
        else:
            at = 2 * int(rng.integers(9))
            collection.add_feedback([Triplet(f"i{at}", f"i{at + 2}", f"i{at + 1}")]).result(TIMEOUT)
        models[collection.feedback_log.last_seq] = model(collection)


@pytest.mark.parametrize(("version", "error"), [(-1, NotFoundError), (6, NotFoundError), (5, ConflictError)])
def test_an_invalid_version_cannot_be_restored(trained_collection: Collection, version: int, error: Any) -> None:
    with pytest.raises(error):
        trained_collection.restore(version).result(TIMEOUT)
    assert trained_collection.feedback_log.last_seq == 5


def test_learning_continues_from_a_replacement_model(trained_collection: Collection) -> None:
    other = new_learner(trained_collection.config).partial_fit(np.random.default_rng(1).normal(size=(9, 3, 4)))
    trained_collection.replace_model(model_files.to_bytes(other)).result(TIMEOUT)
    assert model(trained_collection) == model_files.to_bytes(other)
    trained_collection.add_feedback([Triplet("i1", "i3", "i2")]).result(TIMEOUT)
    assert model_files.from_bytes(model(trained_collection), "model").n_seen_ > other.n_seen_


def overflowing(config: CollectionConfig) -> bytes:
    """Return a valid model that overflows for every item."""
    content = new_learner(config)._to_content()
    arrays = {name: np.asarray(array * 3e38, array.dtype) for name, array in content.arrays.items()}
    learner: Any = type(new_learner(config))._from_content(Content(content.state, arrays))
    return model_files.to_bytes(learner)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda config: b"no model", "truncated|not"),
        (lambda config: model_files.to_bytes(new_learner(config))[:-4], "damaged|truncated"),
        (
            lambda config: model_files.to_bytes(new_learner(CollectionConfig("a", 4, "RDML"))),
            "type LEGO.*Got RDML",
        ),
        (lambda config: model_files.to_bytes(new_learner(config).metric()), "type LEGO"),
        (
            lambda config: model_files.to_bytes(new_learner(CollectionConfig("a", 5, "LEGO"))),
            "4 features.*Got 5",
        ),
        (overflowing, "too large|overflow"),
    ],
)
def test_an_invalid_replacement_model_is_rejected(
    make_collection: Any, make: Callable[[CollectionConfig], bytes], message: str
) -> None:
    collection = make_collection(8, learner="LEGO")
    with pytest.raises(InvalidRequestError, match=message):
        collection.replace_model(make(collection.config)).result(TIMEOUT)
    assert collection.feedback_log.last_seq == 0


def test_an_uploaded_model_must_not_refer_to_rows_of_a_feature_table(make_collection: Any) -> None:
    collection = make_collection(8, learner="AnchoredOAHU")
    table = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    clicks = [oahu.Click(row, [row + 1], [row + 2]) for row in range(38)]
    by_row = oahu.AnchoredOAHU(preprocessor=table, random_state=0).partial_fit(clicks)
    with pytest.raises(InvalidRequestError, match="row numbers of a feature table"):
        collection.replace_model(model_files.to_bytes(by_row)).result(TIMEOUT)
    assert collection.feedback_log.last_seq == 0
    by_value = oahu.AnchoredOAHU(background=table, random_state=0)
    by_value.partial_fit(oahu.Clicks(clicks, preprocessor=table))
    collection.replace_model(model_files.to_bytes(by_value)).result(TIMEOUT)
    for at in range(5):
        collection.add_feedback([Triplet(f"i{at}", f"i{at + 1}", "i7")]).result(TIMEOUT)
    wait_until_learned(collection)
    assert collection.learner.error is None
    assert collection.published.constraints == 38 + 5


def test_the_history_holds_the_weights_of_versions(make_collection: Any) -> None:
    collection = make_collection(
        20, learner="OAHU", parameters={"n_layers": 2, "hidden_size": 6, "embedding_size": 4}
    )
    (start,) = collection.learner.history()
    assert (start.version, start.constraints) == (0, 0)
    for at in range(0, 8, 2):
        collection.add_feedback([Triplet(f"i{at}", f"i{at + 2}", f"i{at + 1}")]).result(TIMEOUT)
        wait_until_learned(collection)
    points = {point.version: point for point in collection.learner.history()}
    assert all(sum(point.weights) == pytest.approx(1) for point in points.values())
    assert max(points) <= 4


# -- concurrency -----------------------------------------------------------------------------------------------


def test_an_item_can_be_queried_as_soon_as_it_is_committed(
    make_collection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = make_collection(10)
    notify = collection._catalogue_changed
    found: list[Any] = []

    def query_first(change: Any) -> None:  # the item is committed, but not in the index yet
        found.extend([keys(collection, "new", 3), keys(collection, "i3", 3)])
        notify(change)

    monkeypatch.setattr(collection, "_catalogue_changed", query_first)
    rows = np.full((2, 4), [[7.0], [8.0]], np.float32)
    collection.put_items([NewItem("new", rows[0].tobytes()), NewItem("i3", rows[1].tobytes())]).result(TIMEOUT)
    assert [len(one) for one in found] == [3, 3]


def test_feedback_is_never_learned_without_the_features_of_its_items(
    make_collection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = make_collection(6, learner="OASIS")
    wait_until_learned(collection)
    loop, notify = collection.learner, collection._catalogue_changed

    def learn_first(change: Any) -> None:  # the item is committed, but not in the index yet
        loop._advance()
        notify(change)

    monkeypatch.setattr(collection, "_catalogue_changed", learn_first)
    blocked, submitted = Event(), Event()
    with loop._training:  # the background thread waits, and the test learns instead
        collection._store.commit(lambda _: blocked.set() or submitted.wait(TIMEOUT))
        assert blocked.wait(TIMEOUT)
        put = collection.put_items([NewItem("new", np.ones(4, np.float32).tobytes())])
        added = collection.add_feedback([Triplet("i4", "new", "i3")])
        submitted.set()
        put.result(TIMEOUT)
        added.result(TIMEOUT)
        assert collection.published.version == 1
    assert collection.is_healthy


def random_actions(collection: Collection) -> Iterator[Callable[[Any], Any]]:
    """Yield client actions. Each takes a random generator."""

    def key(rng: Any) -> str:
        return f"i{rng.integers(30)}"

    def add_feedback(rng: Any) -> None:
        a, b, c = (f"i{n}" for n in rng.permutation(30)[:3])
        collection.add_feedback([Triplet(a, b, c), Pair(a, c, False)][: rng.integers(1, 3)]).result(TIMEOUT)

    def undo(rng: Any) -> None:
        collection.undo(int(rng.integers(1, collection.feedback_log.last_seq + 2))).result(TIMEOUT)

    def put(rng: Any) -> None:
        rows = rng.normal(size=(2, 4)).astype(np.float32)
        collection.put_items([NewItem(key(rng), row.tobytes(), "new") for row in rows]).result(TIMEOUT)

    def delete(rng: Any) -> None:
        collection.delete_items([key(rng)]).result(TIMEOUT)

    def query(rng: Any) -> None:
        found = collection.search(key(rng), 5).matches
        assert len({item.key for item in found}) == len(found)
        collection.classify(key(rng), 5)
        collection.feedback_log.page(0, 100)

    def refresh(rng: Any) -> None:
        collection.refresh_index()

    yield from (add_feedback, add_feedback, undo, put, delete, query, refresh)


def test_concurrent_actions_do_not_fail_and_a_restart_changes_nothing(
    open_service: Any, items: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_store, "_MIN_ROWS", 8)  # feature tables are compacted often
    service = open_service(snapshot_every=20)
    collection = service.create(CollectionConfig("things", 4, "OASIS"))
    collection.put_items(items(30)).result(TIMEOUT)
    expected = (NotFoundError, ConflictError, ContradictoryFeedbackError, InvalidRequestError)
    failures: list[Exception] = []

    def repeat(action: Callable[[Any], Any], seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(40):
            try:
                action(rng)
            except expected:
                continue
            except Exception as error:
                failures.append(error)

    actions = list(random_actions(collection))
    threads = [Thread(target=repeat, args=(action, seed)) for seed, action in enumerate(actions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    before = model(collection), [keys(collection, item.key, 100) for item in collection.catalogue.page(0, 100)]
    service.close()
    shutil.rmtree(tmp_path / "data" / "snapshots")  # the whole log is learned again
    again = open_service().collection("things")
    assert model(again) == before[0]
    assert [set(keys(again, item.key, 100)) for item in again.catalogue.page(0, 100)] == [
        set(one) for one in before[1]
    ]


# -- a failed learner ------------------------------------------------------------------------------------------


@pytest.fixture
def failed_collection(make_collection: Any, monkeypatch: pytest.MonkeyPatch) -> Collection:
    """A collection with a learner that failed at the second record."""
    collection = make_collection(10, learner="OASIS")
    collection.add_feedback([Triplet("i0", "i2", "i1")]).result(TIMEOUT)
    wait_until_learned(collection)

    def fail(*_: Any) -> None:
        raise ZeroDivisionError("expected failure")

    monkeypatch.setattr(learner_loop.LearnerLoop, "_train", fail)
    collection.add_feedback([Triplet("i4", "i6", "i5")]).result(TIMEOUT)
    wait_until_learned(collection)
    monkeypatch.undo()
    assert isinstance(collection, Collection)
    return collection


def test_a_failed_learner_is_reported(failed_collection: Collection) -> None:
    assert not failed_collection.is_healthy
    assert "expected failure" in failed_collection.describe()["learner_error"]


def test_a_failed_learner_that_has_not_learned_everything_cannot_be_downloaded(
    failed_collection: Collection,
) -> None:
    with pytest.raises(LearnerFailedError, match="has failed"):
        failed_collection.model_file()


def test_queries_continue_after_the_learner_failed(failed_collection: Collection) -> None:
    found = failed_collection.search("i7", 3)
    assert (found.published.version, len(found.matches)) == (1, 3)
    assert failed_collection.classify("i7", 3).labels


def test_a_failed_learner_rejects_feedback(failed_collection: Collection) -> None:
    with pytest.raises(LearnerFailedError):
        failed_collection.add_feedback([Triplet("i1", "i3", "i2")])
    assert failed_collection.feedback_log.last_seq == 2


def test_a_restart_learns_the_records_after_the_failure(
    failed_collection: Collection, service: Service, open_service: Any
) -> None:
    service.close()
    again = open_service().collection("things")
    assert again.is_healthy
    assert again.published.version == 2


# -- state -----------------------------------------------------------------------------------------------------


def test_describe_returns_the_state_of_a_collection(make_collection: Any) -> None:
    collection = make_collection(6, learner="OASIS", closure=0)
    collection.add_feedback([Triplet("i0", "i2", "i1")]).result(TIMEOUT)
    collection.queries.apply_changes()
    wait_until_learned(collection)
    state = collection.describe()
    expected = {
        "name": "things",
        "dimension": 4,
        "learner": "OASIS",
        "closure": 0,
        "contradictions": "newest",
        "vote": "experts",
        "items": 6,
        "last_seq": 1,
        "metric_version": 1,
        "constraints": 1,
        "pending_feedback": 0,
        "calibrated": False,
        "ready": True,
        "learner_error": None,
    }
    assert {name: state[name] for name in expected} == expected
    assert state["candidates"]["metric_version"] == 0
    assert state["candidates"]["constraints_behind"] == 1


def test_a_refresh_is_needed_once_there_is_a_newer_metric(open_service: Any, items: Any) -> None:
    service = open_service(refresh_every=1e-9)
    service._stop.set()  # only the test refreshes
    service._refresher.join()
    collection = service.create(CollectionConfig("things", 4, "OASIS"))
    collection.put_items(items(5)).result(TIMEOUT)
    assert not collection.queries.needs_refresh(0)
    collection.add_feedback([Triplet("i0", "i2", "i1")]).result(TIMEOUT)
    wait_until_learned(collection)
    assert collection.queries.needs_refresh(0)
    collection.refresh_index()
    assert not collection.queries.needs_refresh(0)
    assert collection.counts.refreshes == 1


def test_items_are_listed_in_pages(make_collection: Any) -> None:
    collection = make_collection(5)
    collection.put_items([NewItem("i9", bytes(16), "x", {"n": [1, None]}, b"png")]).result(TIMEOUT)
    found = collection.catalogue.page(0, 3)
    assert [item.key for item in found] == ["i0", "i1", "i2"]
    assert [item.key for item in collection.catalogue.page(found[-1].number, 10)] == ["i3", "i4", "i9"]
    assert [item.key for item in collection.catalogue.page(0, 10, "odd")] == ["i1", "i3"]
    assert collection.catalogue.item("i9").payload == {"n": [1, None]}
    assert collection.catalogue.thumbnail("i9") == b"png"
    assert collection.catalogue.thumbnail("i0") is None


# -- counts and model files ----------------------------------------------------------------------------------


def test_the_state_counts_stored_items_and_feedback_that_is_not_undone(
    open_service: Any, make_collection: Any, items: Any
) -> None:
    collection = make_collection(5)

    def counts(collection: Collection) -> tuple[int, int]:
        state = collection.describe()
        return state["items"], state["feedback"]

    assert counts(collection) == (5, 0)
    collection.put_items(items(7)).result(TIMEOUT)  # no query has updated the index
    collection.delete_items(["i0", "i1"]).result(TIMEOUT)
    assert counts(collection) == (5, 0)
    with pytest.raises(NotFoundError):
        collection.delete_items(["i2", "missing"]).result(TIMEOUT)
    assert counts(collection) == (5, 0)
    collection.add_feedback([Pair("i2", "i3", True), Pair("i2", "i4", True), Pair("i5", "i6", True)]).result(
        TIMEOUT
    )
    assert counts(collection) == (5, 3)
    collection.undo(2).result(TIMEOUT)
    assert counts(collection) == (5, 2)
    collection.replace_model(model_files.to_bytes(new_learner(collection.config))).result(TIMEOUT)
    assert counts(collection) == (5, 2)
    collection.restore(3).result(TIMEOUT)  # undoes the undo
    assert counts(collection) == (5, 3)
    collection.restore(1).result(TIMEOUT)
    assert counts(collection) == (5, 1)


def test_the_counts_are_the_same_after_a_restart(open_service: Any) -> None:
    service = open_service()
    collection = service.create(CollectionConfig("things", 4, "Euclidean"))
    collection.put_items([NewItem(key, np.ones(4, np.float32).tobytes()) for key in ("a", "b")]).result(TIMEOUT)
    collection.add_feedback([Pair("a", "b", True)]).result(TIMEOUT)
    service.close()
    state = open_service().collection("things").describe()
    assert (state["items"], state["feedback"]) == (2, 1)


def test_a_model_file_after_a_restore_is_the_restored_model(make_collection: Any) -> None:
    collection = make_collection(9, learner="OASIS")
    pairs = [Triplet("i0", "i2", "i1"), Triplet("i4", "i6", "i3"), Triplet("i5", "i7", "i8")]
    collection.add_feedback(pairs[:1]).result(TIMEOUT)
    before = collection.model_file()
    for record in pairs[1:]:
        collection.add_feedback([record]).result(TIMEOUT)
        assert collection.model_file() != before
    collection.restore(1).result(TIMEOUT)
    assert collection.model_file() == before


def test_a_model_file_that_takes_too_long_is_an_error(
    make_collection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The learner is stopped, so that it never learns the feedback."""
    monkeypatch.setattr("oahu.service.collection._MODEL_WAIT", 0.01)
    collection = make_collection(3)
    collection.learner.stop()
    collection.add_feedback([Pair("i0", "i1", True)]).result(TIMEOUT)
    with pytest.raises(NotLearnedError, match=r"has not learned all log entries yet \(1 of 1 are left\)") as error:
        collection.model_file()
    assert (error.value.status, error.value.retry_after) == (503, 2)
