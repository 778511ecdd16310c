"""Evaluation of learners: scores, data sets, protocols, benchmarks and reports."""

from oahu.evaluation.scores import (
    eer,
    error_rate,
    macro_f1,
    recall_at_k,
    roc_auc,
    tar_at_far,
    triplet_accuracy,
)

__all__ = [
    "eer",
    "error_rate",
    "macro_f1",
    "recall_at_k",
    "roc_auc",
    "tar_at_far",
    "triplet_accuracy",
]
