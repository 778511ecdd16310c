"""Immutable metrics with version numbers. Learners return metrics, and tasks use metrics."""

from oahu.metrics.anchored_metric import AnchoredMetric, AnchoredSpace
from oahu.metrics.ensemble_metric import EnsembleMetric, Expert
from oahu.metrics.fixed_metrics import CosineMetric, EuclideanMetric
from oahu.metrics.linear_metrics import BilinearMetric, MahalanobisMetric
from oahu.metrics.metric import DistanceMetric, Metric

__all__ = [
    "AnchoredMetric",
    "AnchoredSpace",
    "BilinearMetric",
    "CosineMetric",
    "DistanceMetric",
    "EnsembleMetric",
    "EuclideanMetric",
    "Expert",
    "MahalanobisMetric",
    "Metric",
]
