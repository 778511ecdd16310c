"""Data sets to measure learners on: where they are, what they hold, how to get them."""

from oahu.evaluation.datasets.cache import data_home
from oahu.evaluation.datasets.dataset import Dataset, Fold, Views
from oahu.evaluation.datasets.registry import DATASETS, fetch, load, source
from oahu.evaluation.datasets.source import Source

__all__ = ["DATASETS", "Dataset", "Fold", "Source", "Views", "data_home", "fetch", "load", "source"]
