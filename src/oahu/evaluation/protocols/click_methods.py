"""Methods of the protocol ``clicks``: learners, unlearned metrics, and baselines that are not online learners."""

from __future__ import annotations

import contextlib
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from oahu.constraints import Click
from oahu.evaluation.protocols.catalogue_ranking import CatalogueRanking, rank_by_metric
from oahu.evaluation.protocols.click_learning import learn_clicks, query_vector
from oahu.evaluation.protocols.linear_adapter import train_adapter
from oahu.evaluation.protocols.methods import Method
from oahu.metrics import CosineMetric, EuclideanMetric, Metric
from oahu.metrics.metric import normalize_rows

__all__ = ["UNLEARNED_RANKINGS", "ClickMethod", "OfflineMethod", "Rocchio", "click_method"]

Items = NDArray[np.float32]

_N_FOLDS: Final = 5  # NUDGE validates on every fifth click


def _cosine(catalogue: Items) -> CatalogueRanking:
    return rank_by_metric(CosineMetric(catalogue.shape[1]), catalogue)


def _centred_cosine(catalogue: Items) -> CatalogueRanking:
    return rank_by_metric(CosineMetric(catalogue.shape[1]), catalogue, catalogue.mean(axis=0))


def _euclidean(catalogue: Items) -> CatalogueRanking:
    return rank_by_metric(EuclideanMetric(catalogue.shape[1]), catalogue)


#: The unlearned rankings. The shares of queries made better and worse compare a method with one of them.
UNLEARNED_RANKINGS: Final[Mapping[str, Callable[[Items], CatalogueRanking]]] = {
    "cosine": _cosine,
    "centred": _centred_cosine,
    "euclidean": _euclidean,
}


class ClickMethod(ABC):
    """A method that ranks a catalogue and may learn from clicks.

    Attributes
    ----------
    learns : bool
        Whether clicks can change the ranking of queries without feedback.
    """

    learns: ClassVar[bool] = True

    def learn(self, clicks: Sequence[Click]) -> None:  # noqa: B027
        """Learn clicks. Each click has at least one mark."""

    def finish(self) -> None:  # noqa: B027
        """Called before an evaluation. A method that learns offline trains on all clicks so far."""

    @abstractmethod
    def ranking(self) -> CatalogueRanking:
        """Return the current ranking."""

    @property
    def facts(self) -> dict[str, Any]:
        """Further information about the training."""
        return {}

    @property
    def utilization(self) -> float:
        """Share of constraints that changed the model. It is NaN if this is not known."""
        return float("nan")


class _Unlearned(ClickMethod):
    learns = False

    def __init__(self, ranking: CatalogueRanking) -> None:
        self._ranking = ranking

    def ranking(self) -> CatalogueRanking:
        return self._ranking


class _Online(ClickMethod):
    """A learner that learns each click once."""

    def __init__(
        self, method: Method, params: Mapping[str, Any], catalogue: Items, rng: np.random.Generator
    ) -> None:
        self._catalogue = catalogue
        self._learner = method.build(params, rng)
        self._learner.set_params(preprocessor=catalogue)
        self._learner.initialize(catalogue.shape[1])

    def learn(self, clicks: Sequence[Click]) -> None:
        learn_clicks(self._learner, clicks)

    def ranking(self) -> CatalogueRanking:
        return rank_by_metric(self._learner.metric(), self._catalogue)

    @property
    def facts(self) -> dict[str, Any]:
        return {"n_seen": int(self._learner.n_seen_)}

    @property
    def utilization(self) -> float:
        return float(self._learner.utilization_)


class OfflineMethod(ClickMethod):
    """Base class of methods that store all clicks, and train on them from the beginning before each evaluation.

    Users see the ranking of the latest training.
    """

    def __init__(self, catalogue: Items, rng: np.random.Generator) -> None:
        self._vectors = np.asarray(normalize_rows(catalogue))
        self._seed = int(rng.integers(2**31))
        self._clicks: list[Click] = []
        self._ranking = _cosine(catalogue)
        self._catalogue = catalogue

    def learn(self, clicks: Sequence[Click]) -> None:
        for click in clicks:
            is_item = not np.ndim(click.query)
            query = click.query if is_item else np.asarray(normalize_rows(click.query[None]))[0]
            self._clicks.append(click._replace(query=query))

    def finish(self) -> None:
        if any(len(click.positives) for click in self._clicks):
            self._ranking = self._train(self._clicks, np.random.default_rng(self._seed))

    @abstractmethod
    def _train(self, clicks: Sequence[Click], rng: np.random.Generator) -> CatalogueRanking:
        """Return the ranking after training on clicks. At least one click has a positive."""

    def ranking(self) -> CatalogueRanking:
        return self._ranking

    @property
    def facts(self) -> dict[str, Any]:
        return {"n_seen": len(self._clicks)}


class _LinearAdapter(OfflineMethod):
    """A linear adapter, trained by InfoNCE for ten epochs (see `train_adapter`)."""

    def _train(self, clicks: Sequence[Click], rng: np.random.Generator) -> CatalogueRanking:
        matrix = train_adapter(self._vectors, clicks, rng)

        def encode(items: NDArray[Any]) -> Any:
            return normalize_rows(normalize_rows(items) @ matrix.T)

        return CatalogueRanking(self._catalogue, encode, encode)


class _Nudge(OfflineMethod):
    """NUDGE-N (Zeighami, Wellmer and Parameswaran, 2024), which moves the vectors of items and leaves the queries.

    It uses only positives. Every fifth click is used for validation: is the first item alike? If the query of a
    click is an item of the catalogue, the query itself comes first, so that validation counts the first two items.
    More items would be misleading, because users mark only shown items.
    """

    def __init__(self, catalogue: Items, rng: np.random.Generator) -> None:
        _import_nudge()  # raise the error before the first click
        super().__init__(catalogue, rng)

    def _train(self, clicks: Sequence[Click], rng: np.random.Generator) -> CatalogueRanking:
        used = [click for click in clicks if len(click.positives)]
        training = [click for i, click in enumerate(used) if i % _N_FOLDS] or used
        validation = [_with_query(click) for click in used[::_N_FOLDS]]
        n_validated = 1 if np.ndim(used[0].query) else 2
        with contextlib.redirect_stdout(io.StringIO()):  # the package prints its progress
            moved = _import_nudge()().finetune_embeddings(
                self._vectors, self._questions(training), self._questions(validation), val_k=n_validated
            )
        return _MovedItems(self._catalogue, np.asarray(moved, np.float32))

    def _questions(self, clicks: Sequence[Click]) -> dict[str, Any]:
        queries = np.stack([query_vector(click, self._vectors) for click in clicks]).astype(np.float32)
        return {"q_embs": queries, "q_ans_indx": [list(click.positives) for click in clicks]}


def _with_query(click: Click) -> Click:
    """Return a click whose query, if it is an item of the catalogue, is one of the positives."""
    return click if np.ndim(click.query) else click._replace(positives=[*click.positives, click.query])


class _MovedItems(CatalogueRanking):
    """A ranking by moved vectors of the items. A pair of queries is compared by cosine, because neither moved."""

    def __init__(self, catalogue: Items, vectors: Items) -> None:
        super().__init__(catalogue, lambda items: vectors, normalize_rows, "ip")
        self._encode_items = normalize_rows


def _import_nudge() -> Any:
    try:
        from nudge import NUDGEN
    except ImportError as error:
        raise ImportError("The method NUDGE requires nudge-ft. Install it with: pip install nudge-ft") from error
    return NUDGEN


class Rocchio(_Unlearned):
    """Rocchio's relevance feedback: a query moves towards its positives and away from its negatives.

    Feedback on one query does not change the ranking for another query. On unseen queries, the scores are therefore
    those of the cosine. The protocol measures separately what feedback does for its own query: the second page.
    """

    weights: ClassVar[tuple[float, float, float]] = (1.0, 0.75, 0.15)  # of the query, the positives, the negatives

    def __init__(self, catalogue: Items) -> None:
        super().__init__(_cosine(catalogue))
        self._vectors = np.asarray(normalize_rows(catalogue))

    def moved(self, queries: NDArray[Any], clicks: Sequence[Click]) -> NDArray[Any]:
        """Return the moved vector of each query. ``clicks[i]`` is the click of query i."""
        moved = self.weights[0] * normalize_rows(queries)
        for vector, click in zip(moved, clicks, strict=True):
            if len(click.positives):
                vector += self.weights[1] * self._vectors[click.positives].mean(axis=0)
            if len(click.negatives):
                vector -= self.weights[2] * self._vectors[click.negatives].mean(axis=0)
        return moved


def click_method(
    method: Method, params: Mapping[str, Any], catalogue: Items, rng: np.random.Generator
) -> ClickMethod:
    """Return a method for the protocol ``clicks``, before the first click."""
    baselines: Mapping[str, Callable[[], ClickMethod]] = {
        "CentredCosine": lambda: _Unlearned(_centred_cosine(catalogue)),
        "Rocchio": lambda: Rocchio(catalogue),
        "LinearAdapter": lambda: _LinearAdapter(catalogue, rng),
        "NUDGE": lambda: _Nudge(catalogue, rng),
    }
    if method.baseline is not None:
        return baselines[method.baseline]()
    if method.learns_from == "nothing":
        metric: Metric | None = method.metric
        if method.learner is not None:
            metric = method.build({}, rng).initialize(catalogue.shape[1]).metric()
        assert metric is not None
        return _Unlearned(rank_by_metric(metric, catalogue))
    return _Online(method, params, catalogue, rng)
