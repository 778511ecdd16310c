"""Frozen, versioned metrics: what learners publish and tasks use."""

from oahu.metrics.anchored import AnchoredMetric
from oahu.metrics.ensemble import EnsembleMetric, Expert
from oahu.metrics.fixed import CosineMetric, EuclideanMetric
from oahu.metrics.linear import BilinearMetric, MahalanobisMetric
from oahu.metrics.metric import DistanceMetric, Metric

__all__ = [
    "AnchoredMetric",
    "BilinearMetric",
    "CosineMetric",
    "DistanceMetric",
    "EnsembleMetric",
    "EuclideanMetric",
    "Expert",
    "MahalanobisMetric",
    "Metric",
]
