"""Evaluation of learners: scores, data sets, protocols, benchmarks and reports."""

from oahu.evaluation.scores import (
    Share,
    changed_shares,
    eer,
    error_rate,
    macro_f1,
    ndcg_at_k,
    precision_at_k,
    recall_at_k,
    roc_auc,
    tar_at_far,
    triplet_accuracy,
)

__all__ = [
    "Share",
    "changed_shares",
    "eer",
    "error_rate",
    "macro_f1",
    "ndcg_at_k",
    "precision_at_k",
    "recall_at_k",
    "roc_auc",
    "tar_at_far",
    "triplet_accuracy",
]
