"""The Adaptive-Bound Triplet Loss (ABTL), Section 3.3 of the paper.

Distances between unit vectors lie in [0, 2]. ABTL pulls similar pairs below one threshold and pushes dissimilar
pairs above another threshold. The threshold of a pair depends on D_orig, the distance of the pair before the
update. The threshold of a similar pair is below D_orig. The threshold of a dissimilar pair is above D_orig. Every
pair therefore has a gradient, except similar pairs at distance 0 and dissimilar pairs at distance 2.

The functions accept floats or arrays, with broadcasting. ``triplet_step.py`` compiles them for OAHU's update step.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = [
    "attractive_loss",
    "attractive_slope",
    "dissimilarity_threshold",
    "local_loss",
    "repulsive_loss",
    "repulsive_slope",
    "similarity_threshold",
]

Distance = Any  # a float or an array of floats; the result has the same shape

_E2 = math.exp(2.0) - 1.0  # e^2 - 1
_F2 = 1.0 - math.exp(-2.0)  # 1 - e^-2


def similarity_threshold(distance: Distance, tau: float) -> Distance:
    """Return d_sim, the threshold for the distance of a similar pair.

    It grows from 0 at D_orig = 0 to tau at D_orig = 2. ``distance`` is D_orig, the distance before the update.

    This is the first line of the paper's solution for the thresholds: ``tau / (e^2 - 1) * (e^D_orig - 1)``.

    >>> np.round(similarity_threshold(np.array([0.0, 1.0, 2.0]), 0.1), 3)
    array([0.   , 0.027, 0.1  ])
    """
    return tau * np.expm1(distance) / _E2


def dissimilarity_threshold(distance: Distance, tau: float) -> Distance:
    """Return d_dis, the threshold for the distance of a dissimilar pair.

    It grows from 2 - tau at D_orig = 0 to 2 at D_orig = 2. ``distance`` is D_orig, the distance before the update.

    This is the second line of the paper's solution for the thresholds:
    ``-(2 - (2 - tau)) / (1 - e^-2) * (e^-D_orig - 1) + (2 - tau)``.

    >>> np.round(dissimilarity_threshold(np.array([0.0, 1.0, 2.0]), 0.1), 3)
    array([1.9  , 1.973, 2.   ])
    """
    return (2.0 - tau) - tau * np.expm1(-distance) / _F2


def attractive_loss(distance: Distance, threshold: Distance) -> Distance:
    """Return L_attr, the loss of a similar pair. It grows from 0 at the threshold c_1 = d_sim to 1 at distance 2.

    This is the first line of the paper's Eq. (attr_rep): ``max{0, D / (2 - c_1) - c_1 / (2 - c_1)}``.

    >>> attractive_loss(np.array([0.1, 2.0]), 0.1)
    array([0., 1.])
    """
    return np.maximum(0.0, (distance - threshold) / (2.0 - threshold))


def repulsive_loss(distance: Distance, threshold: Distance) -> Distance:
    """Return L_rep, the loss of a dissimilar pair. It falls from 1 at distance 0 to 0 at the threshold c_2 = d_dis.

    This is the second line of the paper's Eq. (attr_rep): ``max{0, 1 - D / c_2}``.

    >>> repulsive_loss(np.array([0.0, 1.9]), 1.9)
    array([1., 0.])
    """
    return np.maximum(0.0, 1.0 - distance / threshold)


def local_loss(positive: Distance, negative: Distance, tau: float) -> Distance:
    """Return L^(l), the loss of one expert on a triplet: the mean of attractive and repulsive loss.

    This is the paper's Eq. (local_loss). ``positive`` and ``negative`` are the distances from the anchor to the
    positive and to the negative. The thresholds d_sim and d_dis are computed from these distances.

    >>> local_loss(np.array([0.0, 2.0]), np.array([2.0, 0.0]), 0.1)
    array([0., 1.])
    """
    attraction = attractive_loss(positive, similarity_threshold(positive, tau))
    repulsion = repulsive_loss(negative, dissimilarity_threshold(negative, tau))
    return 0.5 * (attraction + repulsion)


def attractive_slope(distance: float, tau: float, through_thresholds: bool) -> Any:
    """Return dL_attr / dD, the derivative of the attractive loss with respect to the distance.

    With ``through_thresholds=True``, d_sim is differentiated as a function of D. With False, d_sim is a constant.

    The slope is 0 at distance 0, where the loss is 0 and the gradient has no direction.

    >>> bool(attractive_slope(1.0, 0.1, False) > attractive_slope(1.0, 0.1, True) > 0)
    True
    """
    threshold = similarity_threshold(distance, tau)
    width = 2.0 - threshold
    if distance <= threshold:
        return 0.0
    if not through_thresholds:
        return 1.0 / width
    threshold_slope = tau * math.exp(distance) / _E2
    return ((1.0 - threshold_slope) * width + (distance - threshold) * threshold_slope) / (width * width)


def repulsive_slope(distance: float, tau: float, through_thresholds: bool) -> Any:
    """Return dL_rep / dD, the derivative of the repulsive loss with respect to the distance.

    With ``through_thresholds=True``, d_dis is differentiated as a function of D. With False, d_dis is a constant.

    The slope is 0 at distance 2, where the loss is 0.

    >>> bool(repulsive_slope(1.0, 0.1, False) < repulsive_slope(1.0, 0.1, True) < 0)
    True
    """
    threshold = dissimilarity_threshold(distance, tau)
    if distance >= threshold:
        return 0.0
    if not through_thresholds:
        return -1.0 / threshold
    threshold_slope = tau * math.exp(-distance) / _F2
    return (distance * threshold_slope / threshold - 1.0) / threshold
