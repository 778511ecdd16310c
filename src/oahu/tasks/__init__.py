"""Classification, comparison and retrieval with any metric."""

from oahu.tasks.classification import Classifier, ClassVotes
from oahu.tasks.comparison import Comparator, PairComparison, PairComparisons
from oahu.tasks.matches import Match, RetrievalResult, RetrievalResults, SpaceVote
from oahu.tasks.retrieval import Retriever
from oahu.tasks.roc import Roc

__all__ = [
    "ClassVotes",
    "Classifier",
    "Comparator",
    "Match",
    "PairComparison",
    "PairComparisons",
    "RetrievalResult",
    "RetrievalResults",
    "Retriever",
    "Roc",
    "SpaceVote",
]
