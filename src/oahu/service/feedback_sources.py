"""The sources of feedback: how much each source has given, and how much of it contradicts other sources."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from oahu.service.feedback_log import source_factors
from oahu.service.records import undone_between
from oahu.service.store import StoreReader

__all__ = ["SourceSummary", "list_sources"]


class SourceSummary(NamedTuple):
    """The feedback of one source.

    Attributes
    ----------
    stored : int
        The number of its feedback records in the log, including undone records.
    refused : int
        The number of its feedback records that were refused, because they contradict earlier feedback.
    contradicted : int
        The number of its records in the log that contradict records of another source, or are contradicted by them.
        Undone records do not count on either side.
    weight : float
        The factor for the weights of its earlier records. 0 means that these records are undone.
    """

    source: str
    stored: int
    refused: int
    contradicted: int
    weight: float

    @property
    def share_contradicted(self) -> float:
        """The share of contradicted and refused records in all records that the source sent."""
        return (self.contradicted + self.refused) / (self.stored + self.refused)


def list_sources(reader: StoreReader, collection: int, after: str, limit: int) -> list[SourceSummary]:
    """Return at most ``limit`` sources after the source ``after``, in alphabetical order."""
    factors = source_factors(reader, collection)
    contradicted = _contradicted(reader, collection)
    return [
        SourceSummary(
            *count,
            contradicted=len(contradicted.get(count.source, ())),
            weight=factors[count.source].weight if count.source in factors else 1.0,
        )
        for count in reader.source_counts(collection, after, limit)
    ]


def _contradicted(reader: StoreReader, collection: int) -> dict[str, set[int]]:
    """Return the contradicted records of each source."""
    found = reader.contradictions(collection)
    seqs = sorted({seq for pair in found for seq in pair})
    if not seqs:
        return {}
    sources = reader.source_of(collection, seqs)
    undone = undone_between(reader.undone(collection), seqs[0], seqs[-1])
    contradicted: defaultdict[str, set[int]] = defaultdict(set)
    for pair in found:
        if sources[pair[0]] == sources[pair[1]] or not undone.isdisjoint(pair):
            continue
        for seq in pair:
            if (source := sources[seq]) is not None:
                contradicted[source].add(seq)
    return contradicted
