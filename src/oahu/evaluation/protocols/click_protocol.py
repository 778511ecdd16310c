"""Learning from clicks: a simulated user marks the items that the current metric shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from oahu.constraints import Click
from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.protocols.base_protocol import EvaluationProtocol
from oahu.evaluation.protocols.catalogue_ranking import CatalogueRanking
from oahu.evaluation.protocols.click_learning import is_empty
from oahu.evaluation.protocols.click_methods import UNLEARNED_RANKINGS, ClickMethod, Rocchio, click_method
from oahu.evaluation.protocols.constraint_streams import ConstraintCache, generator_for
from oahu.evaluation.protocols.method_training import Stopwatch
from oahu.evaluation.protocols.methods import CLICK_METHODS, Method
from oahu.evaluation.protocols.scaling import fit_scaling
from oahu.evaluation.protocols.simulated_user import USER_MODELS, Marks, SimulatedUser
from oahu.evaluation.scores import changed_shares, ndcg_at_k, precision_at_k, recall_at_k, roc_auc
from oahu.evaluation.trials import Outcome, Trial
from oahu.exceptions import InvalidInputError
from oahu.tasks.interleaving import interleave

__all__ = ["CHECKPOINTS", "ClickProtocol", "checkpoints", "nearest_neighbour_labels"]

Rows = NDArray[np.intp]
Labels = NDArray[np.intp]
Items = NDArray[np.float32]

#: The numbers of clicks after which a method is evaluated. The last number of a run is always evaluated.
CHECKPOINTS: Final = (10, 30, 100, 300, 1_000, 3_000, 10_000)

_DEPTH: Final = 10  # of precision@10 and nDCG@10
_N_PAIRS: Final = 20_000  # similar pairs, and as many dissimilar pairs, for the AUC
_N_EXAMPLES: Final = 4  # unseen queries whose first matches are stored
_N_MATCHES: Final = 8  # stored matches per example
_MIN_ITEMS: Final = 2 * (2 * _DEPTH + 2)  # the second page of Rocchio has ten items after the first ten


@dataclass(frozen=True, eq=False)
class _Split:
    """The items of a run. Each part has features and labels. ``rows`` and ``unseen_rows`` are rows of the data set.

    Click queries are rows of the catalogue if ``pool`` is None, and otherwise rows of ``pool``, which are no items.
    """

    catalogue: Items
    labels: Labels
    unseen: Items
    unseen_labels: Labels
    pool: Items | None
    pool_labels: Labels
    rows: Rows
    unseen_rows: Rows


class ClickProtocol(EvaluationProtocol):
    """A simulated user searches a catalogue and marks shown items. Evaluate the metric on queries never clicked.

    Half of the items, at most 8,000, are the catalogue. Each click shows the best ten items by the current metric,
    which is refreshed every 20 clicks. At the checkpoints, unseen queries are searched in the catalogue.
    """

    name = "clicks"
    score = "precision@10"
    higher_is_better = True
    tunable = False
    runs = 5
    default_methods = CLICK_METHODS
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **EvaluationProtocol.choices,
        "user": USER_MODELS,
        "click_queries": ("catalogue", "held-out"),
        "interleave": ("no", "team-draft"),
        "baseline": tuple(UNLEARNED_RANKINGS),
    }
    defaults: ClassVar[Mapping[str, Any]] = {
        "n_clicks": 3_000,
        "user": "all",
        "noise": 0.0,
        "careless": 0.0,
        "click_queries": "catalogue",
        "interleave": "no",
        "shown": 10,
        "refresh": 20,
        "baseline": "cosine",
        "catalogue": 8_000,
        "queries": 3_000,
        "k": 5,
    }

    def settings(self, dataset: Dataset, **changed: Any) -> dict[str, Any]:
        settings = super().settings(dataset, **changed)
        SimulatedUser(settings["user"], settings["noise"], settings["careless"])  # validates the values
        n_items = max(min(settings["catalogue"], len(dataset) // 2), _MIN_ITEMS // 2)  # see `check_dataset`
        for name in ("k", "shown"):
            if settings[name] >= n_items:
                raise InvalidInputError(
                    f"The setting {name!r} must be less than the number of items of the catalogue ({n_items:,}). "
                    f"Got {settings[name]:,} instead."
                )
        return settings

    def applies_to(self, method: Method) -> bool:
        return True

    def check_dataset(self, dataset: Dataset) -> None:
        if len(dataset) < _MIN_ITEMS or dataset.n_classes < 2:
            raise InvalidInputError(
                f"The protocol clicks needs at least {_MIN_ITEMS} items and two classes. {dataset.name} has "
                f"{len(dataset)} items and {dataset.n_classes} class(es)."
            )

    def measure(self, trial: Trial, dataset: Dataset, method: Method, cache: ConstraintCache) -> Outcome:
        stopwatch, settings = Stopwatch(), trial.settings
        seed_words = (settings["seed"], dataset.name, "clicks", trial.run)
        with stopwatch("inputs"):
            split = _split(dataset, settings, generator_for(*seed_words, "split"))
            baseline = UNLEARNED_RANKINGS[settings["baseline"]](split.catalogue)
            evaluation = _Evaluation(split, baseline, settings["k"], generator_for(*seed_words, "pairs"))
            learner_rng = generator_for(*seed_words, "learner", method.name)
            model = click_method(method, settings["params"], split.catalogue, learner_rng)
        numbers = checkpoints(settings["n_clicks"])
        marks = {"n_positives": 0, "n_negatives": 0, "n_unmarked": 0}
        if model.learns:
            simulation = _Simulation(model, split, baseline, settings, generator_for(*seed_words, "user"))
            measured = [simulation.run_to(n, stopwatch, evaluation) for n in numbers]
            marks = simulation.marks
        else:
            with stopwatch("evaluation"):
                measured = [evaluation.scores(model.ranking())] * len(numbers)
        curve = {name: [scores.get(name) for scores in measured] for name in measured[0]}
        scores = {name: value for name, value in measured[-1].items() if not name.endswith(("_low", "_high"))}
        scores["utilization"] = model.utilization
        if isinstance(model, Rocchio):
            with stopwatch("evaluation"):
                scores |= _second_page(model, split, settings, generator_for(*seed_words, "second page"))
        facts = {**model.facts, **marks, "n_unseen": len(split.unseen), "n_catalogue": len(split.catalogue)}
        curves: dict[str, Any] = {"clicks": {"clicks": numbers, **curve}}
        if model.learns:
            rankings = {"unlearned": baseline, "learned": model.ranking()}
            curves["examples"] = {name: _examples(split, ranking) for name, ranking in rankings.items()}
        return Outcome(trial, scores, curves, stopwatch.seconds, facts)

    def validate(self, trial: Trial, dataset: Dataset, method: Method, cache: ConstraintCache) -> Outcome:
        raise InvalidInputError("The protocol clicks cannot tune methods. Set their parameters instead.")


def checkpoints(n_clicks: int) -> list[int]:
    """Return the numbers of clicks after which a method is evaluated.

    Examples
    --------
    >>> checkpoints(500)
    [10, 30, 100, 300, 500]
    """
    return [n for n in CHECKPOINTS if n < n_clicks] + [n_clicks]


def _split(dataset: Dataset, settings: Mapping[str, Any], rng: np.random.Generator) -> _Split:
    """Split the items at random into the catalogue, unseen queries and, for click queries, further vectors.

    With held-out click queries, at least a third of the items outside the catalogue are click queries.
    """
    order = rng.permutation(len(dataset))
    n_catalogue = min(settings["catalogue"], len(dataset) // 2)
    chosen, rest = order[:n_catalogue], order[n_catalogue:]
    from_catalogue = settings["click_queries"] == "catalogue"
    n_unseen = len(rest) if from_catalogue else 2 * len(rest) // 3
    n_unseen = min(n_unseen, settings["queries"] or n_unseen)
    unseen, pool = rest[:n_unseen], rest[n_unseen:]
    transform = fit_scaling(dataset.X[chosen], settings["scaling"], settings["pca"])
    labels = np.unique(dataset.y, return_inverse=True)[1]
    catalogue = transform(dataset.X[chosen])
    return _Split(
        catalogue,
        labels[chosen],
        transform(dataset.X[unseen]),
        labels[unseen],
        None if from_catalogue else transform(dataset.X[pool]),
        labels[chosen if from_catalogue else pool],
        chosen,
        unseen,
    )


class _Simulation:
    """The clicks of one run: each click has a query, shown items and marks.

    The queries, and the positions of the mistakes, are the same for all methods of a run. They do not depend on the
    checkpoints.
    """

    def __init__(
        self,
        model: ClickMethod,
        split: _Split,
        baseline: CatalogueRanking,
        settings: Mapping[str, Any],
        rng: np.random.Generator,
    ) -> None:
        self._model, self._split, self._baseline = model, split, baseline
        self._query_rng, self._rng = rng.spawn(2)
        self._user = SimulatedUser(settings["user"], settings["noise"], settings["careless"])
        self._n_shown = settings["shown"]
        self._refresh, self._interleaves = settings["refresh"], settings["interleave"] == "team-draft"
        self._ranking = model.ranking()
        self._n_clicks, self._learning_seconds = 0, 0.0
        self.marks = {"n_positives": 0, "n_negatives": 0, "n_unmarked": 0}

    def run_to(self, n_clicks: int, stopwatch: Stopwatch, evaluation: _Evaluation) -> dict[str, float]:
        """Simulate and learn clicks up to a number of clicks. Return the scores at this number."""
        while self._n_clicks < n_clicks:
            with stopwatch("constraints"):
                if self._n_clicks and self._n_clicks % self._refresh == 0:
                    self._ranking = self._model.ranking()
                n = min(self._refresh - self._n_clicks % self._refresh, n_clicks - self._n_clicks)
                clicks = [click for click in self._clicks(n) if not is_empty(click)]
            if clicks:
                with stopwatch("learning"):
                    self._model.learn(clicks)
            self._n_clicks += n
        with stopwatch("learning"):
            self._model.finish()
        seconds = stopwatch.seconds["learning"]
        with stopwatch("evaluation"):
            scores = evaluation.scores(self._model.ranking())
        return {**scores, "ms_per_click": 1000 * seconds / n_clicks}

    def _clicks(self, n: int) -> Iterator[Click]:
        """Yield the next clicks of the user."""
        split = self._split
        rows = np.array([self._query_rng.integers(len(split.pool_labels)) for _ in range(n)])
        own = rows if split.pool is None else None
        vectors = split.catalogue[rows] if split.pool is None else split.pool[rows]
        shown = self._ranking.top(vectors, self._n_shown, own)
        others = self._baseline.top(vectors, self._n_shown, own) if self._interleaves else shown
        for i, row in enumerate(rows):
            items = interleave(shown[i], others[i], self._n_shown, self._rng) if self._interleaves else shown[i]
            is_alike = split.labels[items] == split.pool_labels[row]
            marks = self._user.mark(items, is_alike, self._rng)
            for name, part in zip(self.marks, marks, strict=True):
                self.marks[name] += len(part)
            yield _click(int(row) if split.pool is None else vectors[i], marks)


def _click(query: Any, marks: Marks) -> Click:
    return Click(query, marks.positives.tolist(), marks.negatives.tolist(), marks.unmarked.tolist())


class _Evaluation:
    """Scores of a ranking on the unseen queries of a run."""

    def __init__(self, split: _Split, baseline: CatalogueRanking, k: int, rng: np.random.Generator) -> None:
        self._split, self._k = split, k
        counts = np.bincount(split.labels, minlength=int(split.unseen_labels.max()) + 1)
        self._n_relevant = counts[split.unseen_labels]
        self._pairs, self._same = _draw_pairs(split.unseen_labels, rng)
        self._before = precision_at_k(split.unseen_labels, self._labels_of(baseline), _DEPTH)

    def scores(self, ranking: CatalogueRanking) -> dict[str, float]:
        """Return all scores of a ranking."""
        truth, found = self._split.unseen_labels, self._labels_of(ranking)
        precision = precision_at_k(truth, found, _DEPTH)
        better, worse = changed_shares(self._before, precision)
        return {
            "error_rate": float(np.mean(nearest_neighbour_labels(found[:, : self._k]) != truth)),
            "precision@10": float(precision.mean()),
            "ndcg@10": float(ndcg_at_k(truth, found, self._n_relevant, _DEPTH).mean()),
            "recall@1": recall_at_k(truth, found, (1,))[1],
            "pair_auc": roc_auc(self._same, ranking.pair_scores(self._split.unseen, self._pairs))
            if len(self._pairs)
            else float("nan"),
            **{f"better{end}": value for end, value in zip(("", "_low", "_high"), better, strict=True)},
            **{f"worse{end}": value for end, value in zip(("", "_low", "_high"), worse, strict=True)},
        }

    def _labels_of(self, ranking: CatalogueRanking) -> Labels:
        return np.asarray(self._split.labels[ranking.top(self._split.unseen, max(_DEPTH, self._k))])


def nearest_neighbour_labels(labels: Labels) -> Labels:
    """Return the most frequent label of each row. Of several labels, the one whose first item is nearest wins.

    Parameters
    ----------
    labels : ndarray of int, of shape (n_queries, k)
        Labels of the nearest items, nearest item first.

    Examples
    --------
    >>> nearest_neighbour_labels(np.array([[3, 7, 7], [3, 7, 5]])).tolist()
    [7, 3]
    """
    counts = (labels[:, :, None] == labels[:, None, :]).sum(axis=2)
    return np.asarray(labels[np.arange(len(labels)), counts.argmax(axis=1)])


def _draw_pairs(labels: Labels, rng: np.random.Generator) -> tuple[Rows, NDArray[np.bool_]]:
    """Return random pairs of different items, and whether their labels are equal: as many equal as different ones.

    If no pair has equal labels, or no pair has different labels, return no pairs.
    """
    order = np.argsort(labels, kind="stable")
    _, starts, place, counts = np.unique(labels[order], return_index=True, return_inverse=True, return_counts=True)
    if counts.max() < 2 or len(counts) < 2:
        return np.empty((0, 2), np.intp), np.empty(0, bool)
    several = np.flatnonzero(counts[place] > 1)  # positions in ``order`` of items whose class has other items
    first = rng.choice(several, _N_PAIRS)
    start, count = starts[place[first]], counts[place[first]]
    second = start + (first - start + rng.integers(1, count)) % count
    third = rng.integers(len(order), size=_N_PAIRS)
    start, count = starts[place[third]], counts[place[third]]
    fourth = (start + count + rng.integers(0, len(order) - count)) % len(order)
    pairs = np.concatenate([np.column_stack([first, second]), np.column_stack([third, fourth])])
    return order[pairs], np.arange(2 * _N_PAIRS) < _N_PAIRS


def _examples(split: _Split, ranking: CatalogueRanking) -> list[dict[str, Any]]:
    """Return the first matches of the first unseen queries, by row number of the data set."""
    found = split.rows[ranking.top(split.unseen[:_N_EXAMPLES], _N_MATCHES)]
    queries = split.unseen_rows[:_N_EXAMPLES]
    return [{"query": int(query), "found": row.tolist()} for query, row in zip(queries, found, strict=True)]


def _second_page(
    model: Rocchio, split: _Split, settings: Mapping[str, Any], rng: np.random.Generator
) -> dict[str, float]:
    """Return the precision of the second page of ten items, with and without feedback on the first page.

    Each unseen query gets one click. The items of the first page are left out of both second pages.
    """
    user = SimulatedUser(settings["user"], settings["noise"], settings["careless"])
    ranking = model.ranking()
    first_page = ranking.top(split.unseen, _DEPTH)
    clicks = [
        _click(query, user.mark(items, split.labels[items] == label, rng))
        for query, items, label in zip(split.unseen, first_page, split.unseen_labels, strict=True)
    ]
    pages: Sequence[NDArray[Any]] = (model.moved(split.unseen, clicks), split.unseen)
    with_feedback, without = (
        precision_at_k(split.unseen_labels, split.labels[ranking.top(queries, _DEPTH, first_page)], _DEPTH).mean()
        for queries in pages
    )
    return {"second_page": float(with_feedback), "second_page_unlearned": float(without)}
