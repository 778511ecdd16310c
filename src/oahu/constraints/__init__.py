"""What arrives: pairs and triplets, and drawing them from labels."""

from oahu.constraints.records import Pair, Triplet
from oahu.constraints.sampling import sample_pairs, sample_triplets
from oahu.constraints.transformer import TupleTransformer
from oahu.constraints.tuples import Pairs, Triplets, Tuples

__all__ = ["Pair", "Pairs", "Triplet", "Triplets", "TupleTransformer", "Tuples", "sample_pairs", "sample_triplets"]
