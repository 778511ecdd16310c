"""Evidence: which spaces order the marks of a click best, before the click is learned.

Each group with two alike items asks two questions for each pair (i, j) of alike items. Is j nearer to i than the
random items of the catalogue are? Is j nearer to i than the near items that are marked as not alike? Three hedges
(Freund and Schapire, 1997) share the answers: one over the starting spaces, one over the learned spaces, and one
over profiles. A profile gives a total weight to the learned spaces, or is a fixed mixture of all spaces, the
balanced mixture.

The first question is also asked about the items that are marked as not alike, and its answers are subtracted. All
marked items come from the top of the current ranking, so a space that moves them nearer would otherwise gain weight
even if the marks are random. The first question matters less if the second one can be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oahu.learners.anchored.groups import Groups
from oahu.metrics.anchored_metric import N_ANCHORS, SPACES

__all__ = ["Evidence"]

Floats = NDArray[np.floating]

#: What each starting space is evaluated as. The catalogue-whitened space has at most half of the weight: it
#: magnifies small differences, so half decides the order of near items, and does less harm if whitening is wrong.
_ANCHORS: Final = np.array(
    [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0.5, 0, 0.5, 0], [0, 0, 0, 0, 1.0]]
)
_ANCHOR_PRIOR: Final = np.array([0.35, 0.4, 0.2, 0.02, 0.03])
_EXPERT_PRIOR: Final = np.array([0.2, 0.7, 0.1])
_TOTALS: Final = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
#: The balanced mixture. Triplets with random negatives cannot tell which space orders near items best, but this
#: mixture is good on all development sets. A hedge over single spaces would choose one of them.
_BALANCED: Final = np.array([1, 1, 1, 0, 21, 0, 5, 3]) / 32
_PROFILE_PRIOR: Final = np.array([0.33, 0.33, 0.2, 0.08, 0.02, 0.04])  # of the totals and of the balanced mixture
_RATE: Final = 4.0
_DECAY: Final = 0.999
_NEAR: Final = 0.05  # a negative counts if it is nearer than all but this share of the random items
_RANK_SCALE: Final = 0.02  # the share of nearer random items at which an answer counts half
_MAX_TOTAL: Final = 0.5  # starting spaces are compared together with learned spaces of at most this total weight
_RANK_SHARE: Final = 0.3  # the weight of the first question if there are near negatives
_MAX_COMPARISONS: Final = 2_048  # pairs of items whose answers are compared in one round

_N_EXPERTS = len(SPACES) - N_ANCHORS
_SLICES: Final = (
    slice(0, N_ANCHORS),
    slice(N_ANCHORS, N_ANCHORS + _N_EXPERTS),
    slice(len(SPACES), len(SPACES) + len(_TOTALS) + 1),
)
_PRIORS: Final = (_ANCHOR_PRIOR, _EXPERT_PRIOR, _PROFILE_PRIOR)
_CENTRED: Final = 1  # the starting space that the others are compared with


class Evidence(NamedTuple):
    """The sums of gains of three hedges.

    Attributes
    ----------
    gains : ndarray of shape (n_spaces + 6,)
        The decayed sum of gains of each starting space, of each learned space, and of each profile.
    squares : ndarray of shape (3,)
        The decayed sum of mean squared gains of each hedge, plus 1.
    """

    gains: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def start(cls) -> Evidence:
        return cls(np.zeros(_SLICES[2].stop), np.ones(len(_SLICES)))

    def _weights(self, hedge: int) -> NDArray[np.float64]:
        exponents = _RATE * self.gains[_SLICES[hedge]] / np.sqrt(self.squares[hedge])
        weights = _PRIORS[hedge] * np.exp(exponents - exponents.max())
        return np.asarray(weights / weights.sum())

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each space. The weights sum to 1."""
        return np.asarray(self._weights(2) @ self._profiles())

    def _profiles(self) -> NDArray[np.float64]:
        """Return the weights of the spaces in each profile, of shape (n_profiles, n_spaces)."""
        totals = np.append(_TOTALS, 0)[:, None]
        profiles = np.hstack([(1 - totals) * (self._weights(0) @ _ANCHORS), totals * self._weights(1)])
        profiles[-1] = _BALANCED
        return profiles

    def add(self, spaces: Sequence[Floats], groups: Groups) -> Evidence:
        """Return the evidence after more groups.

        Parameters
        ----------
        spaces : list of ndarray of shape (n_items + n_random, dimensions)
            The vectors of the groups' items, and of random items, in each space.
        """
        marks = groups.padded_marks()
        m = marks.shape[1]
        alike = marks > 0
        asking = np.flatnonzero(alike.sum(axis=1) > 1)
        most = max(1, _MAX_COMPARISONS // m**2)
        asking = asking[:: -(-len(asking) // most)] if len(asking) > most else asking
        if not len(asking):
            return self
        with np.errstate(over="ignore", invalid="ignore"):  # distances of very large items overflow
            own, random = _similarities(spaces, groups, asking)
        anchors, experts = self._weights(0) @ _ANCHORS, self._weights(1)
        total = min(float(self.weights[N_ANCHORS:].sum()), _MAX_TOTAL)
        mixtures = np.zeros((self.gains.size + 1, len(SPACES)))
        mixtures[-1, _SLICES[0]] = anchors  # the reference of the learned spaces
        mixtures[_SLICES[0], :N_ANCHORS] = (1 - total) * _ANCHORS
        mixtures[_SLICES[0], N_ANCHORS:] = total * experts
        mixtures[_SLICES[1], :N_ANCHORS] = 0.5 * anchors
        mixtures[_SLICES[1], N_ANCHORS:] = 0.5 * np.eye(_N_EXPERTS)
        mixtures[_SLICES[2]] = self._profiles()
        weights = mixtures.astype(own.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = _scores(np.tensordot(weights, own, 1), np.tensordot(weights, random, 1), marks[asking])
        if not np.isfinite(scores).all():
            return self
        scores *= groups.weights[asking]
        answers, reference = scores[:-1].T, scores[-1][:, None]
        gains = np.concatenate(
            [
                answers[:, _SLICES[0]] - answers[:, [_CENTRED]],
                answers[:, _SLICES[1]] - reference,
                answers[:, _SLICES[2]] - answers[:, [_SLICES[2].start]],
            ],
            axis=1,
        )
        means = np.stack([np.square(gains[:, part]).mean(axis=1) for part in _SLICES], axis=1)
        decays = _DECAY ** np.arange(len(gains))[::-1, None]  # of each answer, at the end
        decay = _DECAY ** len(gains)
        return Evidence(
            decay * self.gains + (decays * gains).sum(axis=0),
            1 + decay * (self.squares - 1) + (decays * means).sum(axis=0),
        )


def _similarities(spaces: Sequence[Floats], groups: Groups, asking: NDArray[np.intp]) -> tuple[Any, Any]:
    """Return the similarities -||a - b||^2 / 2 in each space: among the items of a group, and to random items.

    The shapes are (n_spaces, n_asking, m, m) and (n_spaces, n_asking, m, n_random).
    """
    own, random, n = [], [], len(groups.rows)
    for vectors in spaces:
        items, others = groups.pad(vectors[:n])[asking], vectors[n:]
        halves = 0.5 * np.einsum("nik,nik->ni", items, items)
        other_halves = 0.5 * np.einsum("ik,ik->i", others, others)
        own.append(items @ items.transpose(0, 2, 1) - halves[:, :, None] - halves[:, None, :])
        crossed = items.reshape(-1, others.shape[1]) @ others.T  # one product is faster than one for each group
        random.append(crossed.reshape(*halves.shape, -1) - halves[:, :, None] - other_halves)
    return np.stack(own), np.stack(random)


def _scores(own: Floats, random: Floats, marks: Floats) -> NDArray[np.float64]:
    """Return the mean answer to both questions for each mixture and group, of shape (n_mixtures, n_groups).

    The last mixture is the starting metric. It decides which negatives are near.
    """
    n, m = marks.shape
    alike = (marks > 0).astype(own.dtype)
    pairs = _normalized(alike[:, :, None] * alike[:, None, :] * (1 - np.eye(m, dtype=own.dtype)))
    unlike = np.maximum(-marks, 0)
    n_random = random.shape[3]
    threshold = np.full(n, -np.inf)
    if n_random:
        rank = min(n_random - 1, int((1 - _NEAR) * n_random))
        threshold = np.partition(random[-1, :, 0], rank, axis=1)[:, rank]
    near = np.where(own[-1, :, 0, :] >= threshold[:, None], unlike, 0)
    total = near.sum(axis=1)
    near /= np.where(total > 0, total, 1)[:, None]
    scores = np.zeros((len(own), n))
    if n_random:
        others, pair = random[:, :, :, None, :], own[:, :, :, :, None]
        nearer = 0.5 * ((others > pair).sum(axis=4) + (others >= pair).sum(axis=4))  # equal distances count half
        unlike_pairs = _normalized(alike[:, :, None] * unlike[:, None, :]) * unlike.max(axis=1)[:, None, None]
        answers = (pairs - unlike_pairs) / (1 + nearer / (_RANK_SCALE * n_random))
        scores = answers.sum(axis=(2, 3), dtype=np.float64)
        _limit(scores[_SLICES[2]], (total == 0) & unlike.any(axis=1))
        scores *= np.where(total > 0, _RANK_SHARE, 1)
    apart = own[:, :, :, :, None] - own[:, :, :, None, :]
    better = (np.sign(apart) + 1) / 2
    return np.asarray(scores + np.einsum("cnijk,nij,nk->cn", better, pairs, near, dtype=np.float64))


def _limit(scores: NDArray[np.float64], are_far: NDArray[np.bool_]) -> None:
    """Limit the answers to the first question, which says little about the order of near items, in place.

    Groups whose negatives are all far support only the balanced mixture. In other groups, a total weight above 1/4
    and the balanced mixture gain nothing more from the first question than a total weight of 1/4.

    Parameters
    ----------
    scores : ndarray of shape (n_profiles, n_groups)
    are_far : ndarray of bool, of shape (n_groups,)
        Whether a group has negatives, and none of them is near.
    """
    quarter = 1
    limits = np.where(are_far, scores[0], scores[quarter])
    scores[1:-1] = np.minimum(scores[1:-1], limits)
    scores[-1] = np.where(are_far, scores[-1], np.minimum(scores[-1], limits))


def _normalized(weights: Floats) -> Floats:
    """Return the weights of the pairs of each group, divided by their sum. If the sum is 0, they remain 0."""
    total = weights.sum(axis=(1, 2), keepdims=True)
    return np.asarray(weights / np.where(total > 0, total, 1))
