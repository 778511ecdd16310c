"""Warnings about input scales that do not suit a method. The warnings are issued before the first trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.protocols.constraint_streams import generator_for
from oahu.evaluation.protocols.methods import Method
from oahu.evaluation.protocols.scaling import fit_scaling
from oahu.learners import LEGO, OPML, POLA, RDML

__all__ = ["scale_warnings"]

_N_ITEMS: Final = 1_000  # size of the sample
_LARGE_DISTANCE: Final = 50.0  # median squared distance above which fixed thresholds and step sizes fail
_DOMINANT_RATIO: Final = 100.0  # a feature dominates if its standard deviation is this many times the median


def scale_warnings(dataset: Dataset, methods: Sequence[Method], settings: Mapping[str, Any]) -> list[str]:
    """Return a warning for each problem that the chosen input scaling causes for some of the methods.

    LEGO, RDML and POLA compare distances with thresholds near 1 and have fixed step sizes. The update of OPML
    requires ``gamma ||x - n||^2 < 1``. Other learners need no warning about the scale of distances, because they
    normalise their inputs or adapt to the scale of their inputs.
    """
    rows = generator_for(0, "scale").permutation(len(dataset))[:_N_ITEMS]
    items = _scaled(dataset.X[rows], settings["scaling"], settings["pca"])
    labels = dataset.y[rows]
    differ = labels[1:] != labels[:-1]
    squared = np.square(items[1:] - items[:-1]).sum(axis=1)
    feature_warning = _feature_warning(dataset, items) if settings["pca"] is None else ""
    advice = "--scaling standard" if feature_warning else "--scaling unit or --scaling centred"
    warnings = [feature_warning]
    if len(squared):
        warnings += [_distance_warning(dataset, methods, float(np.median(squared)), advice)]
        warnings += [_opml_warning(dataset, method, settings, squared[differ], advice) for method in methods]
    return [warning for warning in warnings if warning]


def _scaled(items: NDArray[Any], scaling: str, pca: int | None) -> NDArray[np.float64]:
    """Return scaled items. If ``pca`` is given, the principal components are approximated to save time."""
    if pca is not None:
        n_components = min(pca, *items.shape)
        items = PCA(n_components, svd_solver="randomized", random_state=0).fit_transform(items.astype(np.float64))
    return fit_scaling(items, scaling)(items).astype(np.float64)


def _feature_warning(dataset: Dataset, items: NDArray[np.float64]) -> str:
    spread = items.std(axis=0)
    widest, median = int(spread.argmax()), float(np.median(spread[spread > 0])) if spread.any() else 0.0
    if not median or spread[widest] < _DOMINANT_RATIO * median:
        return ""
    return (
        f"Feature {widest} of {dataset.name} has {spread[widest] / median:,.0f} times the standard deviation of "
        "the median feature and dominates the distances. Use --scaling standard to give all features equal "
        "weight."
    )


def _distance_warning(dataset: Dataset, methods: Sequence[Method], median: float, advice: str) -> str:
    names = [method.name for method in methods if isinstance(method.learner, LEGO | RDML | POLA)]
    if not names or median <= _LARGE_DISTANCE:
        return ""
    return (
        f"{', '.join(names)}: thresholds and step sizes are designed for distances near 1, but the median "
        f"squared distance between items of {dataset.name} is {median:,.0f}. Use {advice}."
    )


def _opml_warning(
    dataset: Dataset, method: Method, settings: Mapping[str, Any], squared: NDArray[np.float64], advice: str
) -> str:
    learner = method.learner
    if not isinstance(learner, OPML) or not len(squared):
        return ""
    gamma = float(settings["params"].get("gamma", learner.gamma))
    share = float(np.mean(gamma * squared >= 1))
    if not share:
        return ""
    effect = "skips such triplets" if learner.too_long == "skip" else "rejects such triplets, and its runs fail"
    return (
        f"{method.name}: gamma ||x - n||^2 must be below 1. With gamma {gamma:g}, it is larger for {share:.0%} of "
        f"the sampled pairs of {dataset.name}. {method.name} {effect}. Use {advice}, or "
        f"--set {method.name}.gamma=VALUE with a value below {1 / squared.max():.1g}."
    )
