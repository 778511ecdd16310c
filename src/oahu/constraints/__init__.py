"""What arrives: pairs and triplets, drawing them from labels, what follows from them, and streams of them."""

from oahu.constraints.closure import closure
from oahu.constraints.contradictions import Contradiction, Given
from oahu.constraints.graph import Addition, ConstraintGraph
from oahu.constraints.implied import Implied
from oahu.constraints.sampling import sample_pairs, sample_triplets
from oahu.constraints.single import Pair, Triplet
from oahu.constraints.transformer import TupleTransformer
from oahu.constraints.tuples import Pairs, Triplets, Tuples

__all__ = [
    "Addition",
    "ConstraintGraph",
    "Contradiction",
    "Given",
    "Implied",
    "Pair",
    "Pairs",
    "Triplet",
    "Triplets",
    "TupleTransformer",
    "Tuples",
    "closure",
    "sample_pairs",
    "sample_triplets",
]
