"""Data sets for benchmarks: registry, downloads and readers."""

from oahu.evaluation.datasets.dataset import Dataset, Fold, Views
from oahu.evaluation.datasets.downloads import data_home
from oahu.evaluation.datasets.registry import DATASETS, fetch, load, source
from oahu.evaluation.datasets.source import DatasetSource

__all__ = ["DATASETS", "Dataset", "DatasetSource", "Fold", "Views", "data_home", "fetch", "load", "source"]
