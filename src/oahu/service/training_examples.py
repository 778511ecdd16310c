"""Training examples: the constraints of a feedback record, and further constraints that they imply.

A feedback record is expanded into training examples once, when the record is accepted, with the constraint graph at
that time. The store keeps the examples together with the log. The learner therefore needs no constraint graph, and
a replay of the log uses identical examples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

import oahu.constraints
from oahu.constraints import ConstraintGraph, Pair, Triplet
from oahu.randomness import RandomState, as_generator
from oahu.service.records import Click, ExampleKind, FeedbackRecord, constraints_of

__all__ = ["NO_EXAMPLES", "Examples", "TrainingBatch", "decode_examples", "encode_examples", "expand"]

Example = Pair | Triplet | Click
Examples = NDArray[np.int64] | list[oahu.constraints.Click]

#: The encoded examples of a record that is not learned.
NO_EXAMPLES: Final = bytes(8)

_WEIGHTED: Final = -(2**32)  # the first number of encoded clicks with a weight or with shown items is at most this


def expand(
    graph: ConstraintGraph, record: FeedbackRecord, seq: int, closure: int, kind: ExampleKind
) -> list[Example]:
    """Add the constraints of a feedback record to the graph, and return the training examples of the record.

    The examples of a constraint are the constraint itself and at most ``closure`` implied constraints. For a
    learner of pairs, a triplet is converted to its two pairs. For a learner of triplets, a pair is converted to the
    triplets that it forms with earlier pairs. For a learner of clicks, the first example is the whole record as a
    click, and implied triplets and pairs follow as clicks. Implied constraints are selected at random, with the
    sequence number ``seq`` as the random seed.
    """
    generator = _LateGenerator(seq)
    if kind == "clicks":
        return [_as_click(record), *map(_as_click, _implied(graph, record, closure, generator))]
    examples: list[Example] = []
    for constraint in constraints_of(record):
        graph.extend([constraint])
        if isinstance(constraint, Pair) and kind == "triplets":
            examples += graph.completions(constraint, 1 + closure, generator())
            continue
        parts = constraint.pairs if isinstance(constraint, Triplet) and kind == "pairs" else (constraint,)
        for part in parts:
            examples += [part, *(graph.variants(part, closure, generator()) if closure else ())]
    return examples


def _implied(
    graph: ConstraintGraph, record: FeedbackRecord, closure: int, generator: _LateGenerator
) -> Iterator[Pair | Triplet]:
    """Add the constraints of a record to the graph. For each of them, yield at most ``closure`` implied ones."""
    for constraint in constraints_of(record):
        graph.extend([constraint])
        if closure:
            yield from graph.variants(constraint, closure, generator())


class _LateGenerator:
    """A random generator that is created for the first draw, because its creation takes time."""

    def __init__(self, seed: int) -> None:
        self._state: RandomState = seed

    def __call__(self) -> np.random.Generator:
        self._state = as_generator(self._state)
        return self._state


def _as_click(record: FeedbackRecord) -> Click:
    if isinstance(record, Triplet):
        return Click(record.anchor, (record.positive,), (record.negative,))
    if isinstance(record, Pair):
        return Click(record.first, *(((record.second,), ()) if record.same else ((), (record.second,))))
    return record


class TrainingBatch(NamedTuple):
    """The examples of several feedback records, as item numbers.

    Attributes
    ----------
    given : ndarray of shape (n, 3)
        The triplets of the records, without implied triplets. The metric is evaluated on these triplets before
        training.
    examples : ndarray of shape (m, 3), or list of Click
        For a learner of triplets, each row is a triplet. For a learner of pairs, each row contains two items, and 1
        if the items are similar, else 0. For a learner of clicks, a list of `oahu.Click` objects.
    """

    given: NDArray[np.int64]
    examples: Examples


def encode_examples(record: FeedbackRecord, examples: Sequence[Example], weight: float = 1.0) -> bytes:
    """Return the encoded examples of a feedback record.

    The first number is n, the number of triplets of the record, or -1 - n if the examples are clicks. If the clicks
    have a weight or shown items, the first number is -2^32 - n, and the weight follows the triplets.

    >>> encoded = encode_examples(Triplet(1, 2, 3), [Triplet(1, 2, 3), Triplet(2, 1, 3)])
    >>> batch = decode_examples([encoded], "triplets")
    >>> batch.given.tolist(), batch.examples.tolist()
    ([[1, 2, 3]], [[1, 2, 3], [2, 1, 3]])
    >>> [click.query for click in decode_examples([encoded], "clicks").examples]
    [1, 2]
    >>> decode_examples([encode_examples(Pair(1, 2, True), [Click(1, (2,), ())])], "clicks").examples
    [Click(query=1, positives=(2,), negatives=(), shown=(), weight=1.0)]
    >>> click = Click(1, (2,), (), (3, 4))
    >>> decode_examples([encode_examples(click, [click], 0.3)], "clicks").examples
    [Click(query=1, positives=(2,), negatives=(), shown=(3, 4), weight=0.3)]
    """
    triplets = [number for one in constraints_of(record) if isinstance(one, Triplet) for number in one]
    n = len(triplets) // 3
    clicks = [example for example in examples if isinstance(example, Click)]
    if clicks and (weight != 1.0 or any(click.shown for click in clicks)):
        numbers: list[Any] = [_WEIGHTED - n, *triplets, int(np.float64(weight).view(np.int64))]
        for click in clicks:
            numbers += (*map(len, click[1:]), click.query, *click.positive, *click.negative, *click.shown)
        return np.array(numbers, "<i8").tobytes()
    numbers = [-1 - n if clicks else n, *triplets]
    for example in examples:
        if isinstance(example, Click):
            numbers += (len(example.positive), len(example.negative), example.query)
            numbers += (*example.positive, *example.negative)
        else:
            numbers += example
    return np.array(numbers, "<i8").tobytes()


def decode_examples(encoded: Sequence[bytes], kind: ExampleKind) -> TrainingBatch:
    """Return the examples of several feedback records as one batch.

    Triplets are also accepted for a learner of clicks: oahu 0.1.0 stored them for AnchoredOAHU.
    """
    given, examples = [np.empty((0, 3), np.int64)], [np.empty((0, 3), np.int64)]
    clicks: list[oahu.constraints.Click] = []
    for data in encoded:
        numbers = np.frombuffer(data, "<i8")
        form, n = _form_and_count(int(numbers[0]))
        end = 1 + 3 * n
        given.append(numbers[1:end].reshape(-1, 3))
        if form == "weighted":
            clicks += _decode_clicks(numbers[end + 1 :].tolist(), 3, float(numbers[end : end + 1].view("<f8")[0]))
        elif form == "clicks":
            clicks += _decode_clicks(numbers[end:].tolist(), 2, 1.0)
        elif kind == "clicks":
            clicks += [oahu.constraints.Click(a, (b,), (c,)) for a, b, c in numbers[end:].reshape(-1, 3).tolist()]
        else:
            examples.append(numbers[end:].reshape(-1, 3))
    return TrainingBatch(np.concatenate(given), clicks if kind == "clicks" else np.concatenate(examples))


def _form_and_count(first: int) -> tuple[str, int]:
    """Return the form of encoded examples, and the number of triplets of the record."""
    if first >= 0:
        return "arrays", first
    return ("weighted", _WEIGHTED - first) if first <= _WEIGHTED else ("clicks", -1 - first)


def _decode_clicks(numbers: list[int], n_parts: int, weight: float) -> list[oahu.constraints.Click]:
    """Return clicks with ``n_parts`` lists each: positives, negatives, and possibly shown items."""
    clicks, start = [], 0
    while start < len(numbers):
        counts, query = numbers[start : start + n_parts], numbers[start + n_parts]
        start += n_parts + 1
        parts = []
        for count in counts:
            parts.append(tuple(numbers[start : start + count]))
            start += count
        shown = parts[2] if n_parts > 2 else ()
        clicks.append(oahu.constraints.Click(query, parts[0], parts[1], shown, weight))
    return clicks
