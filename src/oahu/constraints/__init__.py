"""What arrives: tuple constraints, and drawing them from labels."""

from oahu.constraints.sampling import sample_triplets
from oahu.constraints.transformer import TupleTransformer
from oahu.constraints.tuples import Tuples

__all__ = ["TupleTransformer", "Tuples", "sample_triplets"]
