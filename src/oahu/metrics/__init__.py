"""Frozen, versioned metrics: what learners publish and tasks use."""

from oahu.metrics.anchored_metric import AnchoredMetric
from oahu.metrics.ensemble_metric import EnsembleMetric, Expert
from oahu.metrics.fixed_metrics import CosineMetric, EuclideanMetric
from oahu.metrics.linear_metrics import BilinearMetric, MahalanobisMetric
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
