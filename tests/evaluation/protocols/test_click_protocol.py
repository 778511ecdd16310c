"""Tests of the protocol `clicks`: its scores by plain loops, its clicks, methods and settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import oahu
from oahu import Click, InvalidInputError
from oahu.evaluation import datasets
from oahu.evaluation.datasets import Dataset
from oahu.evaluation.protocols import DEFAULT_METHODS, PROTOCOLS, as_method, click_protocol
from oahu.evaluation.protocols.click_methods import UNLEARNED_RANKINGS, Rocchio
from oahu.evaluation.protocols.click_protocol import ClickProtocol, checkpoints, nearest_neighbour_labels
from oahu.evaluation.protocols.constraint_streams import ConstraintCache, generator_for
from oahu.evaluation.protocols.methods import CLICK_BASELINES, CLICK_METHODS
from oahu.evaluation.trials import Outcome, Trial

Measure = Callable[..., Outcome]


@pytest.fixture(scope="module")
def tiles() -> Dataset:
    """Three hundred tiles that are alike if they have the same colour."""
    data = datasets.load("tiles:colour")
    return Dataset("some tiles", data.X[:300], data.y[:300])


def run(dataset: Dataset, method: Any, number: int = 0, **changed: Any) -> Outcome:
    protocol, compared = PROTOCOLS["clicks"], as_method(method)
    settings = protocol.settings(dataset, **{"n_clicks": 40, **changed})
    return protocol.measure(
        Trial("clicks", dataset.name, compared.name, number, settings), dataset, compared, ConstraintCache()
    )


@pytest.fixture
def clicks(monkeypatch: pytest.MonkeyPatch) -> list[Click]:
    """Record all clicks, also those without marks."""
    made: list[Click] = []
    original = click_protocol._Simulation._clicks

    def record(simulation: Any, n: int) -> list[Click]:
        new = list(original(simulation, n))
        made.extend(new)
        return new

    monkeypatch.setattr(click_protocol._Simulation, "_clicks", record)
    return made


def split_of(dataset: Dataset, number: int = 0, **changed: Any) -> Any:
    settings = PROTOCOLS["clicks"].settings(dataset, **changed)
    return click_protocol._split(dataset, settings, generator_for(0, dataset.name, "clicks", number, "split"))


# -- scores ----------------------------------------------------------------------------------------------


def test_scores_by_plain_loops(tiles: Dataset) -> None:
    split = split_of(tiles)
    expected: dict[str, list[float]] = {"error_rate": [], "precision@10": [], "ndcg@10": [], "recall@1": []}
    for query, label in zip(split.unseen, split.unseen_labels, strict=True):
        distances = [float(np.linalg.norm(query - item)) for item in split.catalogue]
        nearest = sorted(range(len(distances)), key=distances.__getitem__)[:10]
        found = [int(split.labels[row]) for row in nearest]
        votes = {each: found[:5].count(each) for each in dict.fromkeys(found[:5])}  # nearest label first
        expected["error_rate"].append(max(votes, key=votes.__getitem__) != label)
        expected["precision@10"].append(found.count(label) / 10)
        expected["recall@1"].append(found[0] == label)
        gain = sum(1 / np.log2(i + 2) for i, each in enumerate(found) if each == label)
        n_relevant = min(10, int((split.labels == label).sum()))
        expected["ndcg@10"].append(gain / sum(1 / np.log2(i + 2) for i in range(n_relevant)))
    scores = run(tiles, "Euclidean").scores
    for name, values in expected.items():
        assert scores[name] == pytest.approx(np.mean(values)), name


def test_pair_auc_is_that_of_all_pairs(tiles: Dataset) -> None:
    split = split_of(tiles)
    first, second = np.triu_indices(len(split.unseen), 1)
    distances = np.linalg.norm(split.unseen[first] - split.unseen[second], axis=1)
    same = split.unseen_labels[first] == split.unseen_labels[second]
    assert run(tiles, "Euclidean").scores["pair_auc"] == pytest.approx(roc_auc_score(same, -distances), abs=0.02)


def test_drawn_pairs_have_different_items_and_the_given_labels() -> None:
    labels = np.random.default_rng(0).integers(4, size=50)
    pairs, same = click_protocol._draw_pairs(labels, np.random.default_rng(1))
    assert (pairs[:, 0] != pairs[:, 1]).all()
    assert np.array_equal(labels[pairs[:, 0]] == labels[pairs[:, 1]], same)
    assert same.mean() == 0.5
    expected = {(i, j) for i in range(50) for j in range(50) if i != j}
    assert set(map(tuple, pairs.tolist())) == expected


@pytest.mark.parametrize("labels", [[0, 1, 2], [0, 0, 0]])
def test_without_two_kinds_of_pairs_there_are_none(labels: list[int]) -> None:
    pairs, same = click_protocol._draw_pairs(np.array(labels), np.random.default_rng(0))
    assert len(pairs) == len(same) == 0


def test_unlearned_baseline_changes_no_query(tiles: Dataset) -> None:
    for name, method in (("cosine", "Cosine"), ("centred", "CentredCosine"), ("euclidean", "Euclidean")):
        scores = run(tiles, method, baseline=name).scores
        assert (scores["better"], scores["worse"]) == (0, 0)
    assert run(tiles, "Euclidean", baseline="cosine").scores["better"] > 0


def test_votes_with_equal_counts_go_to_the_nearest_label() -> None:
    assert nearest_neighbour_labels(np.array([[4, 2, 2, 4, 1], [3, 2, 2, 1, 0]])).tolist() == [4, 2]


@pytest.mark.parametrize(
    ("n", "expected"), [(5, [5]), (10, [10]), (40, [10, 30, 40]), (3_000, [10, 30, 100, 300, 1_000, 3_000])]
)
def test_checkpoints_end_with_the_last_click(n: int, expected: list[int]) -> None:
    assert checkpoints(n) == expected


# -- the split -------------------------------------------------------------------------------------------


def test_split_has_no_common_items() -> None:
    data = Dataset("rows", np.arange(1, 301, dtype=np.float32)[:, None].repeat(2, 1), np.arange(300) % 7)
    split = split_of(data, click_queries="held-out")
    parts = [set(part[:, 0].astype(int).tolist()) for part in (split.catalogue, split.unseen, split.pool)]
    assert [len(part) for part in parts] == [150, 100, 50]
    assert set.union(*parts) == set(range(1, 301))
    for items, labels in ((split.catalogue, split.labels), (split.unseen, split.unseen_labels)):
        assert np.array_equal((items[:, 0].astype(int) - 1) % 7, labels)
    assert np.array_equal((split.pool[:, 0].astype(int) - 1) % 7, split.pool_labels)


def test_split_has_at_most_the_requested_numbers(tiles: Dataset) -> None:
    split = split_of(tiles, catalogue=60, queries=30)
    assert (len(split.catalogue), len(split.unseen)) == (60, 30)
    everything = split_of(tiles, queries=None)
    assert (len(everything.catalogue), len(everything.unseen)) == (150, 150)


# -- clicks ----------------------------------------------------------------------------------------------


def test_marks_follow_from_the_labels(tiles: Dataset, clicks: list[Click]) -> None:
    run(tiles, "LEGO")
    split = split_of(tiles)
    assert len(clicks) == 40
    for click in clicks:
        assert (split.labels[click.positives] == split.labels[click.query]).all()
        assert (split.labels[click.negatives] != split.labels[click.query]).all()
        shown = [*click.positives, *click.negatives]
        assert len(set(shown)) == 10
        assert click.query not in shown


def test_held_out_queries_are_vectors(tiles: Dataset, clicks: list[Click]) -> None:
    run(tiles, "LEGO", click_queries="held-out")
    split = split_of(tiles, click_queries="held-out")
    pool = {tuple(row) for row in split.pool.tolist()}
    assert all(tuple(click.query.tolist()) in pool for click in clicks)


def test_first_items_are_shown_by_the_untrained_metric(tiles: Dataset, clicks: list[Click]) -> None:
    run(tiles, "LEGO", refresh=5)
    split = split_of(tiles)
    ranking = UNLEARNED_RANKINGS["euclidean"](split.catalogue)  # LEGO starts with the identity matrix
    agrees = []
    for click in clicks:
        top = ranking.top(split.catalogue[[click.query]], 10, np.array([click.query]))[0]
        agrees.append(set(top) == {*click.positives, *click.negatives})
    assert all(agrees[:5])
    assert not all(agrees[5:])


def test_all_methods_get_the_same_queries(tiles: Dataset, clicks: list[Click]) -> None:
    queries = []
    for method in ("LEGO", "OASIS", "LinearAdapter"):
        clicks.clear()
        run(tiles, method, noise=0.2, user="cascade")
        queries.append([click.query for click in clicks])
    assert queries[0] == queries[1] == queries[2]


@pytest.mark.parametrize("user", ["all", "alike", "not-alike", "cascade", "position"])
@pytest.mark.parametrize("method", ["LEGO", "OASIS", "AnchoredOAHU", "LinearAdapter"])
def test_methods_learn_from_every_user(user: str, method: str, tiles: Dataset, clicks: list[Click]) -> None:
    outcome = run(tiles, method, user=user, noise=0.1, careless=0.1)
    facts = outcome.facts
    for name, part in (("n_positives", "positives"), ("n_negatives", "negatives"), ("n_unmarked", "shown")):
        assert facts[name] == sum(len(getattr(click, part)) for click in clicks)
    assert all(np.isfinite(outcome.scores[name]) for name in ("error_rate", "precision@10", "ndcg@10", "pair_auc"))


def test_interleaving_shows_items_of_both_rankings(tiles: Dataset, clicks: list[Click]) -> None:
    run(tiles, "LEGO", interleave="team-draft", baseline="cosine")
    split = split_of(tiles)
    cosine, euclidean = (UNLEARNED_RANKINGS[name](split.catalogue) for name in ("cosine", "euclidean"))
    for click in clicks[:20]:  # shown by the untrained metric
        query, row = split.catalogue[[click.query]], np.array([click.query])
        firsts = {int(ranking.top(query, 1, row)[0, 0]) for ranking in (cosine, euclidean)}
        both = {*cosine.top(query, 10, row)[0], *euclidean.top(query, 10, row)[0]}
        assert firsts <= {*click.positives, *click.negatives} <= both


# -- methods ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["LEGO", "AnchoredOAHU", "LinearAdapter", "Rocchio", "CentredCosine"])
def test_outcome_depends_only_on_the_run(method: str, tiles: Dataset) -> None:
    def result(number: int) -> Any:
        outcome = run(tiles, method, number, noise=0.2).as_json()
        outcome["curves"]["clicks"].pop("ms_per_click", None)
        outcome["scores"].pop("ms_per_click", None)
        return outcome["scores"], outcome["curves"]

    assert result(0) == result(0)
    assert result(0) != result(1)


def test_curve_has_every_score_at_every_checkpoint(tiles: Dataset) -> None:
    outcome = run(tiles, "LEGO")
    curve = outcome.curves["clicks"]
    assert curve["clicks"] == [10, 30, 40]
    names = "error_rate precision@10 ndcg@10 recall@1 pair_auc better better_low better_high worse ms_per_click"
    for name in names.split():
        assert len(curve[name]) == 3
    assert curve["precision@10"][-1] == outcome.scores["precision@10"]
    assert curve["better_low"][-1] <= curve["better"][-1] <= curve["better_high"][-1]


def test_examples_are_matches_before_and_after_learning(tiles: Dataset) -> None:
    examples = run(tiles, "LEGO", baseline="euclidean").curves["examples"]
    split = split_of(tiles)
    assert [entry["query"] for entry in examples["learned"]] == split.unseen_rows[:4].tolist()
    for entry in examples["unlearned"]:
        distances = np.linalg.norm(tiles.X[split.rows] - tiles.X[entry["query"]], axis=1)
        assert entry["found"] == split.rows[np.argsort(distances)[:8]].tolist()
    shares = {
        name: np.mean([tiles.y[entry["found"]] == tiles.y[entry["query"]] for entry in entries])
        for name, entries in examples.items()
    }
    assert shares["learned"] > shares["unlearned"]
    assert "examples" not in run(tiles, "Cosine").curves


def test_clicks_about_the_colour_teach_the_colour(tiles: Dataset) -> None:
    before, after = (run(tiles, method).scores["precision@10"] for method in ("Euclidean", "LEGO"))
    assert after > before + 0.1


def test_evaluation_does_not_change_what_is_learned(tiles: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run(tiles, "LEGO", noise=0.2).scores["precision@10"]
    monkeypatch.setattr(click_protocol, "CHECKPOINTS", (10, 13, 17, 30))
    assert run(tiles, "LEGO", noise=0.2).scores["precision@10"] == expected


def test_unlearned_methods_have_constant_curves_and_no_clicks(tiles: Dataset, clicks: list[Click]) -> None:
    for method in ("Cosine", "CentredCosine", "Rocchio", oahu.EuclideanMetric(64)):
        curve = run(tiles, method).curves["clicks"]
        assert len(set(curve["precision@10"])) == 1
        assert "ms_per_click" not in curve
    assert not clicks


def test_rocchio_moves_a_query_by_its_feedback() -> None:
    catalogue = np.array([[2.0, 0.0], [0.0, 3.0], [-4.0, 0.0]], np.float32)
    click = Click(np.array([1.0, 1.0]), np.array([0, 1]), np.array([2]), np.empty(0, int))
    moved = Rocchio(catalogue).moved(np.array([[5.0, 0.0]]), [click])
    assert moved == pytest.approx(np.array([[1 + 0.75 / 2 + 0.15, 0.75 / 2]]))


def test_rocchio_improves_the_second_page_of_its_own_query(tiles: Dataset) -> None:
    scores = run(tiles, "Rocchio").scores
    assert scores["second_page"] > scores["second_page_unlearned"]
    assert scores["precision@10"] == run(tiles, "Cosine").scores["precision@10"]


def test_nudge_needs_its_package(tiles: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "nudge", None)
    with pytest.raises(
        ImportError, match=r"The method NUDGE requires nudge-ft\. Install it with: pip install nudge-ft"
    ):
        run(tiles, "NUDGE")


@pytest.mark.slow
@pytest.mark.parametrize("source", ["catalogue", "held-out"])
def test_nudge_moves_items(tiles: Dataset, source: str) -> None:
    scores = run(tiles, "NUDGE", n_clicks=100, click_queries=source).scores
    assert 0 < scores["precision@10"] < 1


def test_baselines_belong_to_this_protocol() -> None:
    for name in CLICK_BASELINES:
        method = as_method(name.lower())
        assert (method.name, method.baseline, method.identity) == (name, name, {"class": name})
        assert [each for each, protocol in PROTOCOLS.items() if protocol.applies_to(method)] == ["clicks"]
    assert set(CLICK_METHODS) == {*DEFAULT_METHODS, "CentredCosine", "Rocchio", "LinearAdapter"}


# -- settings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"user": "some"}, r"The setting 'user' must be one of all, .*Got 'some' instead\."),
        ({"noise": 0.7}, r"The 'noise' of a simulated user must be a number from 0 to 0\.5\. Got 0\.7 instead\."),
        ({"n_clicks": 0}, r"The setting 'n_clicks' must be at least 1\. Got 0 instead\."),
        ({"catalogue": 5}, r"The setting 'catalogue' must be at least 22\. Got 5 instead\."),
        (
            {"k": 150},
            r"The setting 'k' must be less than the number of items of the catalogue \(150\)\. Got 150 ",
        ),
        ({"shown": 99, "catalogue": 60}, r"The setting 'shown' must be less than .* \(60\)\. Got 99 instead\."),
        ({"n_constraints": 5}, r"clicks has no setting 'n_constraints'\."),
        ({"baseline": "none"}, r"The setting 'baseline' must be one of cosine, centred, euclidean\."),
    ],
)
def test_wrong_settings_are_rejected(tiles: Dataset, changed: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        PROTOCOLS["clicks"].settings(tiles, **changed)


@pytest.mark.parametrize("y", [np.zeros(100), np.arange(40)])
def test_small_data_sets_are_rejected(y: Any) -> None:
    data = Dataset("few", np.ones((len(y), 2)), y)
    with pytest.raises(InvalidInputError, match=f"needs at least 44 items and two classes. few has {len(y)} items"):
        ClickProtocol().check_dataset(data)


def test_smallest_data_set_can_be_measured() -> None:
    rng = np.random.default_rng(0)
    data = Dataset("smallest", rng.normal(size=(44, 3)).astype(np.float32), np.arange(44) % 2)
    for method in ("Rocchio", "LEGO"):
        assert 0 <= run(data, method, click_queries="held-out").scores["precision@10"] <= 1
