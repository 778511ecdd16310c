"""Training examples: the constraints of a feedback record, and further constraints that they imply.

A feedback record is expanded into training examples once, when the record is accepted, with the constraint graph at
that time. The store keeps the examples together with the log. The learner therefore needs no constraint graph, and
a replay of the log uses identical examples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oahu.constraints import ConstraintGraph, Pair, Triplet
from oahu.randomness import RandomState, as_generator

__all__ = ["TrainingBatch", "decode_examples", "encode_examples", "expand"]


def expand(
    graph: ConstraintGraph, constraints: Iterable[Pair | Triplet], seq: int, closure: int, for_pairs: bool
) -> list[Pair | Triplet]:
    """Add the constraints of a feedback record to the graph, and return the training examples.

    The examples of a constraint are the constraint itself and at most ``closure`` implied constraints. If
    ``for_pairs`` is True, the examples are pairs, and a triplet is converted to its two pairs. If ``for_pairs`` is
    False, the examples are triplets, and a pair is converted to the triplets that it forms with earlier pairs.
    Implied constraints are selected at random, with the sequence number ``seq`` as the random seed.
    """
    examples: list[Pair | Triplet] = []
    generator: RandomState = seq  # a generator takes time to create, so it is created for the first draw
    for constraint in constraints:
        graph.extend([constraint])
        if closure == 0 and isinstance(constraint, Triplet):
            examples += constraint.pairs if for_pairs else (constraint,)
            continue
        generator = as_generator(generator)
        if for_pairs:
            for pair in constraint.pairs if isinstance(constraint, Triplet) else (constraint,):
                examples += [pair, *graph.variants(pair, closure, generator)]
        elif isinstance(constraint, Triplet):
            examples += [constraint, *graph.variants(constraint, closure, generator)]
        else:
            examples += graph.completions(constraint, 1 + closure, generator)
    return examples


class TrainingBatch(NamedTuple):
    """The examples of several feedback records, as item numbers.

    Attributes
    ----------
    given : ndarray of shape (n, 3)
        The triplets of the records, without implied triplets. The metric is evaluated on these triplets before
        training.
    examples : ndarray of shape (m, 3)
        For a triplet learner, each row is a triplet. For a pair learner, each row contains two items, and 1 if the
        items are similar, else 0.
    """

    given: NDArray[np.int64]
    examples: NDArray[np.int64]


def encode_examples(given: Iterable[Pair | Triplet], examples: Iterable[Pair | Triplet]) -> bytes:
    """Return the encoded examples of a feedback record.

    >>> batch = decode_examples([encode_examples([Triplet(1, 2, 3)], [Triplet(1, 2, 3), Triplet(2, 1, 3)])])
    >>> batch.given.tolist(), batch.examples.tolist()
    ([[1, 2, 3]], [[1, 2, 3], [2, 1, 3]])
    """
    triplets = [number for one in given if isinstance(one, Triplet) for number in one]
    numbers: list[Any] = [len(triplets) // 3, *triplets]
    for example in examples:
        numbers += example
    return np.array(numbers, "<i8").tobytes()


def decode_examples(encoded: Sequence[bytes]) -> TrainingBatch:
    """Return the examples of several feedback records as one batch."""
    given, examples = [np.empty((0, 3), np.int64)], [np.empty((0, 3), np.int64)]
    for data in encoded:
        numbers = np.frombuffer(data, "<i8")
        end = 1 + 3 * int(numbers[0])
        given.append(numbers[1:end].reshape(-1, 3))
        examples.append(numbers[end:].reshape(-1, 3))
    return TrainingBatch(np.concatenate(given), np.concatenate(examples))
