"""Pairs, triplets and clicks: validation, sampling from labels, implied constraints and contradictions."""

from oahu.constraints.add_result import AddResult
from oahu.constraints.batch import ConstraintBatch
from oahu.constraints.clicks import Clicks, are_constraint_objects
from oahu.constraints.closure import closure
from oahu.constraints.constraint_graph import ConstraintGraph
from oahu.constraints.contradictions import Contradiction, GivenPair
from oahu.constraints.implied import ImpliedConstraints
from oahu.constraints.sampling import sample_pairs, sample_triplets
from oahu.constraints.single import Click, Pair, Triplet
from oahu.constraints.transformer import TupleTransformer
from oahu.constraints.tuples import Pairs, Triplets, Tuples

__all__ = [
    "AddResult",
    "Click",
    "Clicks",
    "ConstraintBatch",
    "ConstraintGraph",
    "Contradiction",
    "GivenPair",
    "ImpliedConstraints",
    "Pair",
    "Pairs",
    "Triplet",
    "Triplets",
    "TupleTransformer",
    "Tuples",
    "are_constraint_objects",
    "closure",
    "sample_pairs",
    "sample_triplets",
]
