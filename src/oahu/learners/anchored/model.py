"""The learned arrays of AnchoredOAHU, and their names in model files."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from oahu.learners.anchored.background import Background, starting_background
from oahu.learners.anchored.evidence import Evidence
from oahu.learners.anchored.experts import Adam
from oahu.learners.anchored.pair_whitening import PairWhitening
from oahu.learners.state import Arrays
from oahu.metrics.anchored_metric import SpaceArrays

__all__ = ["Experts", "Model", "Progress"]

Floats = NDArray[np.floating]

_HIDDEN_UNITS: Final = 256
_WHITENING_FLOOR: Final = 0.3  # of the catalogue whitening: added to all variances, relative to their weighted mean
_PAIR_ARRAYS: Final = ("pair_scatter", "pair_squares", "pair_whitening", "pair_gains")


class Progress(NamedTuple):
    """Counts that decide when the next round takes place, and which items it draws.

    Attributes
    ----------
    n_learned : int
        The number of groups that have been trained on.
    n_pending : int
        The number of groups that have been accepted since the last round.
    n_rounds : int
        The number of rounds: it is part of the seed of each round.
    n_steps : int
        The number of steps of each expert.
    n_background : int
        The number of items from which the background was estimated.
    credit : float
        A round takes place when the credit reaches 1. Each group adds to the credit.
    """

    n_learned: int = 0
    n_pending: int = 0
    n_rounds: int = 0
    n_steps: int = 0
    n_background: int = 0
    credit: float = 0.0


class Experts(NamedTuple):
    """The arrays of the experts that are trained by gradient steps."""

    log_axis_weights: Adam
    linear_map: Adam
    hidden_weights: Adam
    hidden_bias: Adam
    output_weights: Adam


class Model(NamedTuple):
    """Everything that is learned except the stored groups. All arrays are replaced, and never changed in place."""

    background: Background
    experts: Experts
    whitening: PairWhitening
    evidence: Evidence
    progress: Progress
    seed: NDArray[np.uint32]

    @classmethod
    def start(cls, n_features: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Self:
        """Return the model before any item is known. It has no axes."""
        seed = rng.integers(2**32, size=4, dtype=np.uint32)
        return cls.with_background(starting_background(n_features, dtype), Progress(), seed)

    @classmethod
    def with_background(cls, background: Background, progress: Progress, seed: NDArray[np.uint32]) -> Self:
        """Return an untrained model for a background."""
        n_axes, r, dtype = background.axes.shape[1], background.n_leading, background.axes.dtype
        rng = np.random.default_rng(seed)
        hidden = rng.normal(0, np.sqrt(2), (r, _HIDDEN_UNITS)).astype(dtype)  # items have length 1
        experts = Experts(
            Adam.start(np.zeros(n_axes, dtype)),
            Adam.start(np.eye(r, dtype=dtype)),
            Adam.start(hidden),
            Adam.start(np.zeros(_HIDDEN_UNITS, dtype)),
            Adam.start(np.zeros((_HIDDEN_UNITS, r), dtype)),
        )
        whitening = PairWhitening.start(r, n_axes - r, dtype)
        return cls(background, experts, whitening, Evidence.start(), progress, seed)

    @property
    def spaces(self) -> SpaceArrays:
        """The arrays that define the metric's spaces."""
        background, experts = self.background, self.experts
        return SpaceArrays(
            background.mean,
            background.spread,
            background.axes,
            _gains(background.variances),
            self.whitening.matrix,
            self.whitening.gains,
            np.exp(experts.log_axis_weights.values),
            experts.linear_map.values,
            experts.hidden_weights.values,
            experts.hidden_bias.values,
            experts.output_weights.values,
        )

    def to_arrays(self) -> Arrays:
        """Return the arrays of the model by name."""
        arrays: Arrays = {**self.background._asdict(), "seed": self.seed, **self.evidence._asdict()}
        for name, expert in self.experts._asdict().items():
            arrays |= {name: expert.values, f"{name}_means": expert.means, f"{name}_squares": expert.squares}
        *pair_arrays, n_pairs, next_at = self.whitening
        arrays |= dict(zip(_PAIR_ARRAYS, pair_arrays, strict=True))
        arrays["pair_counts"] = np.array([n_pairs, next_at])
        arrays["progress"] = np.array(self.progress, np.float64)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Return the model with these arrays, without copying them."""
        experts = (Adam(*(arrays[name + end] for end in ("", "_means", "_squares"))) for name in Experts._fields)
        n_pairs, next_at = arrays["pair_counts"].tolist()
        *counts, credit = arrays["progress"].tolist()
        return cls(
            Background(*(arrays[name] for name in Background._fields)),
            Experts(*experts),
            PairWhitening(
                arrays["pair_scatter"],
                arrays["pair_squares"],
                arrays["pair_whitening"],
                arrays["pair_gains"],
                n_pairs,
                next_at,
            ),
            Evidence(*(arrays[name] for name in Evidence._fields)),
            Progress(*map(int, counts))._replace(credit=credit),
            arrays["seed"],
        )


def _gains(variances: Floats) -> Floats:
    """Return the factors of the principal axes that whiten the catalogue, up to a floor of the variances."""
    largest = float(variances.max(initial=0))
    if not largest > 0:
        return np.ones_like(variances)
    scaled = variances.astype(np.float64) / largest  # squares of large variances overflow
    floor = _WHITENING_FLOOR * np.square(scaled).sum() / scaled.sum()
    gains = (scaled + floor) ** -0.5
    return np.asarray(gains / gains.max(), variances.dtype)
