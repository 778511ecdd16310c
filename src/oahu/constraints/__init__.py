"""What arrives: pairs and triplets, drawing them from labels, what follows from them, and streams of them."""

from oahu.constraints.closure import closure
from oahu.constraints.contradictions import Contradiction, Given
from oahu.constraints.features import Features, read_features, read_labels
from oahu.constraints.graph import Addition, ConstraintGraph
from oahu.constraints.implied import Implied
from oahu.constraints.records import Pair, Triplet
from oahu.constraints.sampling import sample_pairs, sample_triplets
from oahu.constraints.streams import Line, read_stream, write_stream
from oahu.constraints.transformer import TupleTransformer
from oahu.constraints.tuples import Pairs, Triplets, Tuples

__all__ = [
    "Addition",
    "ConstraintGraph",
    "Contradiction",
    "Features",
    "Given",
    "Implied",
    "Line",
    "Pair",
    "Pairs",
    "Triplet",
    "Triplets",
    "TupleTransformer",
    "Tuples",
    "closure",
    "read_features",
    "read_labels",
    "read_stream",
    "sample_pairs",
    "sample_triplets",
    "write_stream",
]
