"""What it is for: classification, similarity comparison and analogue retrieval, on any metric."""

from oahu.tasks.classification import Classifier, Votes
from oahu.tasks.comparison import Comparator, Comparison, Comparisons
from oahu.tasks.matches import Evidence, Match, Result, Results
from oahu.tasks.retrieval import Retriever
from oahu.tasks.roc import Roc

__all__ = [
    "Classifier",
    "Comparator",
    "Comparison",
    "Comparisons",
    "Evidence",
    "Match",
    "Result",
    "Results",
    "Retriever",
    "Roc",
    "Votes",
]
