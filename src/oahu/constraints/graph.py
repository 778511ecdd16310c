"""What follows from constraints: alike is an equivalence, and unlike holds between whole groups of alike items.

The four rules of the paper's footnote (Section 3) say just that, so two structures hold everything that follows:
components of alike items (a union-find) and unlike edges between components. Pairs are counted and drawn from
products of components, and never listed unless they are asked for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain, combinations, pairwise, permutations
from math import isqrt
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar, cast, overload

import numpy as np

from oahu.constraints.records import Pair, Triplet
from oahu.exceptions import InvalidInputError, InvalidTypeError
from oahu.randomness import RandomState, as_generator

__all__ = ["Addition", "ConstraintGraph", "Contradiction", "ContradictionError", "Given", "Implied", "closure"]

Policy = Literal["raise", "ignore", "newest"]
Constraint = TypeVar("Constraint", Pair, Triplet)

_POLICIES: Final = ("raise", "ignore", "newest")
_LONGEST: Final = 10  # links of a chain that a message shows
_HALF: Final = 32  # bits: two items' numbers as one int
_ROOT: Final = -1  # the parent of a root in the forest of proofs
_STALE: Final = "The graph has changed since: ask for what follows before you add the next."


class Given(NamedTuple):
    """A pair that was said: by which constraint, and what. A triplet says two, under one number."""

    number: int
    first: Any
    second: Any
    same: bool


class ContradictionError(InvalidInputError):
    """A constraint says the opposite of what follows from those before; the graph is as it was.

    Attributes
    ----------
    constraint : Pair or Triplet
        What was refused.
    chain : tuple of Given
        What proves the opposite, link by link.
    """

    def __init__(self, message: str, constraint: Pair | Triplet, chain: tuple[Given, ...]) -> None:
        super().__init__(message)
        self.constraint = constraint
        self.chain = chain

    def __reduce__(self) -> tuple[type[ContradictionError], tuple[str, Pair | Triplet, tuple[Given, ...]]]:
        return type(self), (str(self), self.constraint, self.chain)


class Contradiction:
    """Why a constraint cannot be true together with what was held when it arrived.

    Attributes
    ----------
    constraint : Pair or Triplet
    number : int
        Its place in the stream, counted from 0.
    pair : Pair
        What it says that contradicts: itself, or one of a triplet's two pairs.
    """

    def __init__(
        self, constraint: Pair | Triplet, number: int, pair: Pair, prove: Callable[[], list[Given]]
    ) -> None:
        self.constraint, self.number, self.pair = constraint, number, pair
        self._prove: Callable[[], list[Given]] | None = prove
        self._chain: tuple[Given, ...] = ()

    @property
    def chain(self) -> tuple[Given, ...]:
        """What proves the opposite of ``pair``, in order from its first to its second item.

        At most one link says unlike. An item is like itself without proof: then the chain is empty. A triplet that
        contradicts what follows from its own similar pair has that as the first link, under its own number.
        """
        if self._prove is not None:
            self._chain, self._prove = tuple(self._prove()), None
        return self._chain

    def __str__(self) -> str:
        first, second, same = self.pair
        words = [_in_words(*link) for link in self.chain]
        if len(words) > _LONGEST:
            half = _LONGEST // 2
            words[half:-half] = [f"... {len(words) - 2 * half} more ..."]
        proof = "; ".join(words) if words else "an item is like itself"
        opposite = "unlike" if same else "alike"
        return (
            f"Constraint {_in_words(self.number, first, second, same)}, but they are {opposite}: {proof}. "
            "Correct one of these, or choose policy='ignore' or 'newest'."
        )

    def error(self) -> ContradictionError:
        return ContradictionError(str(self), self.constraint, self.chain)


def _in_words(number: int, first: Any, second: Any, same: bool) -> str:
    return f"#{number} says {first!r} and {second!r} are {'alike' if same else 'unlike'}"


# -- products of components ----------------------------------------------------------------------------------


class _Span(NamedTuple):
    """Some of a component's items: a stretch of its list, which only ever grows at the end."""

    items: list[int]
    start: int
    stop: int


class _Pairs(NamedTuple):
    """Each of ``first`` with each of ``second``; all pairs within, if they are one."""

    first: _Span
    second: _Span
    same: bool

    @property
    def size(self) -> int:
        (_, start, stop), (_, start2, stop2) = self.first, self.second
        n = stop - start
        return n * (n - 1) // 2 if self.first is self.second else n * (stop2 - start2)

    def at(self, place: int) -> tuple[int, int, int]:
        (items, start, _), (items2, start2, stop2) = self.first, self.second
        if self.first is self.second:
            j = (1 + isqrt(1 + 8 * place)) // 2  # the pairs (i, j) with i < j, by j: j(j - 1)/2 come before
            return items[start + place - j * (j - 1) // 2], items[start + j], self.same
        i, j = divmod(place, stop2 - start2)
        return items[start + i], items2[start2 + j], self.same


class _Triplets(NamedTuple):
    """Each anchor with each positive (not itself) and each negative."""

    anchors: _Span
    positives: _Span
    negatives: _Span

    @property
    def size(self) -> int:
        (_, start, stop), (_, start2, stop2), (_, start3, stop3) = self
        return (stop - start) * (stop2 - start2 - (self.anchors is self.positives)) * (stop3 - start3)

    def at(self, place: int) -> tuple[int, int, int]:
        (items, start, _), (items2, start2, stop2), (items3, start3, stop3) = self
        within = self.anchors is self.positives
        place, k = divmod(place, stop3 - start3)
        i, j = divmod(place, stop2 - start2 - within)
        return items[start + i], items2[start2 + j + (within and j >= i)], items3[start3 + k]


class Implied(Generic[Constraint]):
    """Constraints that follow, counted without listing them: iterate over them, or draw some.

    Each is there once, in an order that depends only on the constraints that were added; a pair is there in one of
    its two directions. What was given is left out. To be used before the next `ConstraintGraph.add`.
    """

    def __init__(
        self,
        graph: ConstraintGraph,
        blocks: Iterable[_Pairs] | Iterable[_Triplets],
        record: Callable[[int, int, int], Constraint],
        given: Callable[[tuple[int, int, int]], bool],
        n_given: int,
    ) -> None:
        self._graph: ConstraintGraph = graph
        self._version: int = graph._version
        self._blocks: list[_Pairs | _Triplets] = list(blocks)
        self._ends = list(accumulate(block.size for block in self._blocks))
        self._record: Callable[[int, int, int], Constraint] = record
        self._given, self._n_given = given, n_given

    @property
    def count(self) -> int:
        """How many; ``len`` is the same, up to ``sys.maxsize``."""
        self._check()
        return (self._ends[-1] if self._ends else 0) - self._n_given

    def __len__(self) -> int:
        return self.count

    def __bool__(self) -> bool:
        return self.count > 0

    def __iter__(self) -> Iterator[Constraint]:
        for block in self._blocks:
            for place in range(block.size):
                self._check()
                found = block.at(place)
                if not self._given(found):
                    yield self._record(*found)

    def sample(self, limit: int, random_state: RandomState = None) -> list[Constraint]:
        """At most ``limit`` of them, uniformly and without replacement, in the order of iteration."""
        _check_number("limit", limit)
        rng = as_generator(random_state)
        if limit >= self.count:
            return list(self)
        drawn: list[tuple[int, tuple[int, int, int]]] = []
        places = _shuffled(self._ends[-1], rng)
        while len(drawn) < limit:
            place = next(places)
            block = bisect_right(self._ends, place)
            found = self._blocks[block].at(place - (self._ends[block - 1] if block else 0))
            if not self._given(found):
                drawn.append((place, found))
        return [self._record(*found) for _, found in sorted(drawn)]

    def _check(self) -> None:
        if self._graph._version != self._version:
            raise InvalidInputError(_STALE)


def _shuffled(n: int, rng: np.random.Generator) -> Iterator[int]:
    """The numbers below n in random order, as many as are asked for: a shuffle that keeps only what it moved."""
    moved: dict[int, int] = {}
    for i in range(n):
        j = i + _below(n - i, rng)
        yield moved.get(j, j)
        moved[j] = moved.pop(i, i)


def _below(n: int, rng: np.random.Generator) -> int:
    """A number below n, which may be more than 64 bits hold."""
    n_bits = (n - 1).bit_length()
    n_bytes = (n_bits + 7) // 8
    while True:
        number = int.from_bytes(rng.bytes(n_bytes), "little") >> (8 * n_bytes - n_bits)
        if number < n:
            return number


# -- what one constraint brings ------------------------------------------------------------------------------


class _Piece(NamedTuple):
    """Items that were in one component before and are in one now, and those to whom they newly are unlike."""

    span: _Span
    was: int
    now: int
    fresh: list[_Piece]


#: The pieces of the components that have changed, by component.
_Changes = dict[int, list[_Piece]]


class Addition:
    """What came of one constraint.

    Attributes
    ----------
    constraint : Pair or Triplet
    number : int
        Its place in the stream, counted from 0.
    accepted : bool
        Whether the graph holds it; if not, the graph is as it was.
    contradiction : Contradiction or None
    dropped : tuple of Given
        What the graph holds no longer, with policy "newest"; oldest first. The two pairs of a triplet are dropped
        one by one.
    """

    def __init__(
        self,
        graph: ConstraintGraph,
        constraint: Pair | Triplet,
        contradiction: Contradiction | None,
        accepted: bool,
    ) -> None:
        self.constraint, self.contradiction, self.accepted = constraint, contradiction, accepted
        self.number = graph._version - 1
        self.dropped: tuple[Given, ...] = ()
        self._graph, self._version = graph, graph._version
        self._changes: Callable[[], _Changes] = dict
        self._own: tuple[tuple[int, int], ...] = ()  # the pairs it says that were not known before
        self._triplet: tuple[int, int, int] | None = None  # itself, if it was not known before

    @property
    def pairs(self) -> Implied[Pair]:
        """The pairs that hold now and did not before, without what the constraint says itself."""
        own = {pair for first, second in self._own for pair in ((first, second), (second, first))}
        return Implied(
            self._graph, self._blocks_of_pairs(), self._graph._pair, lambda t: t[:2] in own, len(self._own)
        )

    @property
    def triplets(self) -> Implied[Triplet]:
        """The triplets that hold now and did not before, without the constraint itself."""
        own = self._triplet
        n_own = int(own is not None)
        return Implied(self._graph, self._blocks_of_triplets(), self._graph._triplet, lambda t: t == own, n_own)

    def _blocks_of_pairs(self) -> Iterator[_Pairs]:
        changes = self._ask()
        for pieces in changes.values():
            for one, two in combinations(pieces, 2):
                yield _Pairs(one.span, two.span, True)
        for piece in chain.from_iterable(changes.values()):
            for other in piece.fresh:
                if other.now not in changes or piece.now < other.now:  # once, not from both sides
                    yield _Pairs(piece.span, other.span, False)

    def _blocks_of_triplets(self) -> Iterator[_Triplets]:
        changes = self._ask()
        for now, pieces in changes.items():
            # Those that were alike before are news with new negatives only; those that were not, with all.
            for anchors, positives in permutations(pieces, 2):
                for other in self._graph._neighbours(now, changes):
                    yield _Triplets(anchors.span, positives.span, other.span)
            for piece in pieces:
                for other in piece.fresh:
                    yield _Triplets(piece.span, piece.span, other.span)
                    if other.now not in changes:
                        yield _Triplets(other.span, other.span, piece.span)

    def _ask(self) -> _Changes:
        if self._graph._version != self._version:
            raise InvalidInputError(_STALE)
        return self._changes()


# -- the graph -----------------------------------------------------------------------------------------------


class ConstraintGraph:
    """Everything that follows from alike and unlike, kept up to date constraint by constraint.

    Adding takes amortised near-constant time (logarithmic at worst), and memory grows with the constraints added,
    not with what follows from them.

    Parameters
    ----------
    policy : {"raise", "ignore", "newest"}
        What to do with a constraint that contradicts those before: raise `ContradictionError`; leave it out; or
        believe it. Then what is held is believed from the newest to the oldest, and what does not go with all that
        is newer is dropped; that takes time in proportion to the components it touches. What no graph could hold
        (an item unlike itself, a triplet whose negative is its anchor or positive) is an error there too.

    Notes
    -----
    Items are whatever can be hashed. ``len(graph)`` counts the distinct pairs that were given and are held; a
    triplet gives two. Numbers count the constraints that arrived: all but those that were answered by an error.

    Examples
    --------
    >>> graph = ConstraintGraph()
    >>> graph.add(Triplet("tea", "green tea", "coffee")).pairs.sample(10)
    [Pair(first='green tea', second='coffee', same=False)]
    >>> list(graph.add(Pair("espresso", "coffee", same=True)).pairs)
    [Pair(first='espresso', second='tea', same=False), Pair(first='espresso', second='green tea', same=False)]
    >>> graph.why("espresso", "green tea")  # doctest: +NORMALIZE_WHITESPACE
    (Given(number=1, first='espresso', second='coffee', same=True),
     Given(number=0, first='coffee', second='tea', same=False),
     Given(number=0, first='tea', second='green tea', same=True))
    """

    def __init__(self, policy: Policy = "raise") -> None:
        if policy not in _POLICIES:
            raise InvalidInputError(
                f"The 'policy' parameter of ConstraintGraph must be one of {_POLICIES}. Got {policy!r} instead."
            )
        self.policy: Final = policy
        self._version = 0  # how many constraints arrived
        self._numbers: dict[Hashable, int] = {}
        self._items: list[Any] = []
        # By item: what was said of it, as {other: 2 * number + same}; its parent in the union-find; its parent in a
        # forest whose links are given pairs, which is where proofs are read off.
        self._said: list[dict[int, int]] = []
        self._parent: list[int] = []
        self._proof: list[int] = []
        # By component, which is called after its root in the union-find: its items, and the given pair that makes
        # each of its neighbours one.
        self._members: dict[int, list[int]] = {}
        self._edges: dict[int, dict[int, int]] = {}
        self._n_said = 0
        self._triplets_said: set[int] = set()

    def add(self, constraint: Pair | Triplet) -> Addition:
        """Take in a constraint, or none of it, and say what newly follows."""
        said = _checked(constraint)
        n_known = len(self._items)
        like, unlike = ((self._enter(pair[0]), self._enter(pair[1])) if pair else None for pair in said)
        contradiction = self._contradiction(constraint, like, unlike)
        if contradiction and (self.policy != "newest" or _impossible(like, unlike)):
            error = None if self.policy == "ignore" else contradiction.error()
            self._forget(n_known)
            if error:
                raise error
            self._version += 1
            return Addition(self, constraint, contradiction, accepted=False)
        self._version += 1
        addition = Addition(self, constraint, contradiction, accepted=True)
        merges = like if like and self._find(like[0]) != self._find(like[1]) else None
        parts = unlike if unlike and not self._are_unlike(*unlike) else None
        addition._own = tuple(pair for pair in (merges, parts) if pair)
        if like and unlike and like[0] != like[1]:
            addition._triplet = (*like, unlike[1]) if addition._own else None
            self._triplets_said.add(_join(_join(*like), unlike[1]))
        if contradiction:
            _ = contradiction.chain  # to be read now, because what proves it is about to change
            addition.dropped, addition._changes = self._believe(like, unlike, addition.number)
            return addition
        if like:
            self._say(*like, 2 * addition.number + 1)
        if unlike:
            self._say(*unlike, 2 * addition.number)
        if addition._own:
            addition._changes = self._apply(merges, parts)
        return addition

    def alike(self, a: Hashable, b: Hashable) -> bool:
        """Whether it follows that they are alike; an item always is like itself."""
        i, j = self._number(a), self._number(b)
        return a == b if i is None or j is None else self._find(i) == self._find(j)

    def unlike(self, a: Hashable, b: Hashable) -> bool:
        """Whether it follows that they are unlike."""
        i, j = self._number(a), self._number(b)
        return i is not None and j is not None and self._are_unlike(i, j)

    def why(self, a: Hashable, b: Hashable) -> tuple[Given, ...] | None:
        """The given pairs that prove that two items are alike or unlike, from the one to the other.

        There is a link that says unlike, and only one, if that is what they are. An item is like itself without
        proof: an empty tuple. None if nothing follows. There may be other proofs, also shorter ones.
        """
        i, j = self._number(a), self._number(b)
        if i is None or j is None:
            return () if a == b else None
        if self._find(i) == self._find(j):
            return tuple(self._path(i, j))
        edge = self._edges.get(self._find(i), {}).get(self._find(j))
        return None if edge is None else tuple(self._path(i, j, edge))

    def components(self) -> list[tuple[Any, ...]]:
        """The groups of alike items; items and groups in the order in which they were first named."""
        groups: dict[int, list[Any]] = {}
        for number, item in enumerate(self._items):
            groups.setdefault(self._find(number), []).append(item)
        return [tuple(group) for group in groups.values()]

    @property
    def n_items(self) -> int:
        return len(self._items)

    def __len__(self) -> int:
        return self._n_said

    def __bool__(self) -> bool:
        return True

    def __contains__(self, item: Hashable) -> bool:
        return self._number(item) is not None

    @property
    def pairs(self) -> Implied[Pair]:
        """All pairs that follow and were not given."""
        return Implied(self, self._blocks_of_pairs(), self._pair, lambda t: t[1] in self._said[t[0]], self._n_said)

    @property
    def triplets(self) -> Implied[Triplet]:
        """All triplets that follow and were not given (as a triplet, both pairs of which are held)."""
        n_given = len(self._triplets_said)
        if self.policy == "newest":
            n_given = sum(self._holds(*_split(_split(code)[0]), _split(code)[1]) for code in self._triplets_said)
        return Implied(
            self, self._blocks_of_triplets(), self._triplet, lambda t: self._is_given_triplet(*t), n_given
        )

    @overload
    def implied(
        self, limit: int, random_state: RandomState = None, *, kind: Literal["pairs"] = "pairs"
    ) -> list[Pair]: ...
    @overload
    def implied(
        self, limit: int, random_state: RandomState = None, *, kind: Literal["triplets"]
    ) -> list[Triplet]: ...
    def implied(
        self, limit: int, random_state: RandomState = None, *, kind: Literal["pairs", "triplets"] = "pairs"
    ) -> list[Pair] | list[Triplet]:
        """At most ``limit`` of all that follows and was not given, uniformly and without replacement.

        Time and memory grow with the graph and the limit, not with what follows. For all of it, one by one, iterate
        over `pairs` or `triplets`.

        Parameters
        ----------
        limit : int
        random_state : None, int, numpy Generator or RandomState
        kind : {"pairs", "triplets"}
        """
        if kind not in ("pairs", "triplets"):
            raise InvalidInputError(f"The 'kind' parameter must be 'pairs' or 'triplets'. Got {kind!r} instead.")
        if kind == "pairs":
            return self.pairs.sample(limit, random_state)
        return self.triplets.sample(limit, random_state)

    # Items, and what was said of them.

    def _number(self, item: Hashable) -> int | None:
        _check_hashable(item)
        return self._numbers.get(item)

    def _enter(self, item: Hashable) -> int:
        number = self._numbers.setdefault(item, len(self._items))
        if number == len(self._items):
            self._items.append(item)
            self._said.append({})
            self._parent.append(number)
            self._proof.append(_ROOT)
            self._members[number] = [number]
        return number

    def _forget(self, n_known: int) -> None:
        """Take back the items that entered with a constraint that is refused."""
        for number in range(n_known, len(self._items)):
            del self._numbers[self._items[number]], self._members[number]
        for by_item in (self._items, self._said, self._parent, self._proof):
            del by_item[n_known:]

    def _say(self, i: int, j: int, code: int) -> None:
        if i == j or (self.policy != "newest" and j in self._said[i]):
            return  # proofs that are read later keep the numbers that they had
        self._n_said += j not in self._said[i]
        self._said[i][j] = self._said[j][i] = code

    def _given(self, i: int, j: int) -> Given:
        code = self._said[i][j]
        return Given(code >> 1, self._items[i], self._items[j], bool(code & 1))

    def _holds(self, a: int, p: int, n: int) -> bool:
        """Whether both pairs of a triplet are among what was given and is held."""
        return self._said[a].get(p, 0) & 1 == 1 and self._said[a].get(n, 1) & 1 == 0

    def _is_given_triplet(self, a: int, p: int, n: int) -> bool:
        return _join(_join(a, p), n) in self._triplets_said and self._holds(a, p, n)

    def _pair(self, i: int, j: int, same: int) -> Pair:
        return Pair(self._items[i], self._items[j], bool(same))

    def _triplet(self, a: int, p: int, n: int) -> Triplet:
        return Triplet(self._items[a], self._items[p], self._items[n])

    # Components and edges.

    def _find(self, i: int) -> int:
        parent = self._parent
        while (up := parent[i]) != i:
            parent[i] = i = parent[up]
        return i

    def _are_unlike(self, i: int, j: int) -> bool:
        return self._find(j) in self._edges.get(self._find(i), ())

    def _merge(self, i: int, j: int) -> tuple[_Span, _Span, int, dict[int, int], list[int]]:
        """Make two components one.

        The one with more edges stays, and only the edges of the other are walked. Returns the items of the one that
        stays and of the one that goes, the name of the latter, its edges, and the neighbours that are new to the
        former.
        """
        if len(self._edges.get(self._find(i), ())) < len(self._edges.get(self._find(j), ())):
            i, j = j, i
        keep, gone = self._find(i), self._find(j)
        lost, fresh = self._edges.pop(gone, {}), []
        if lost:
            kept = self._edges.setdefault(keep, {})
            for other, edge in lost.items():
                back = self._edges[other]
                del back[gone]
                if other not in kept:
                    kept[other] = back[keep] = edge
                    fresh.append(other)
        self._parent[gone] = keep
        items, more = self._members[keep], self._members.pop(gone)
        stays = len(items) >= len(more)
        if not stays:
            items, more, i, j = more, items, j, i
        n = len(items)
        items.extend(more)
        self._members[keep] = items
        self._prove(j, i)  # the smaller tree is turned around
        spans = _Span(items, 0, n), _Span(items, n, len(items))
        return (*(spans if stays else spans[::-1]), gone, lost, fresh)

    def _part(self, i: int, j: int) -> int | None:
        """Make two components unlike; which one that is new to the first's, if it is."""
        one, two = self._find(i), self._find(j)
        edges = self._edges.setdefault(one, {})
        if two in edges:
            return None
        edges[two] = self._edges.setdefault(two, {})[one] = _join(i, j)
        return two

    def _apply(self, like: tuple[int, int] | None, unlike: tuple[int, int] | None) -> Callable[[], _Changes]:
        """Enter what was not known; what it changes is worked out when someone asks."""
        merged = self._merge(*like) if like else None
        fresh = merged[-1] if merged else []
        if unlike and (other := self._part(*unlike)) is not None:
            fresh.append(other)
        now = self._find(like[0] if like else unlike[0] if unlike else 0)

        def changes() -> _Changes:
            new = [self._whole(other) for other in fresh]
            if merged is None:
                return {now: [self._whole(now)._replace(fresh=new)]}
            kept, lost, gone, edges, _ = merged
            also = [self._whole(other) for other in self._edges.get(now, ()) if other not in edges]
            return {now: [_Piece(kept, now, now, new), _Piece(lost, gone, now, also)]}

        return changes

    def _believe(
        self, like: tuple[int, int] | None, unlike: tuple[int, int] | None, number: int
    ) -> tuple[tuple[Given, ...], Callable[[], _Changes]]:
        """Take the touched components apart and believe what is said in them anew, from the newest to the oldest.

        What was held went together, so whatever does not go together now needs the new constraint, and lies within
        the components of its items.
        """
        roots = dict.fromkeys(self._find(i) for i in (*(like or ()), *(unlike or ())))
        old = {root: self._edges.pop(root, {}) for root in roots}
        was = {i: root for root in roots for i in self._members.pop(root)}
        for root, edges in old.items():
            for other in edges.keys() - roots.keys():
                del self._edges[other][root]
        for i in was:
            self._parent[i], self._proof[i], self._members[i] = i, _ROOT, [i]
        dropped = []
        for pair, same in ((like, 1), (unlike, 0)):
            if pair:
                if self._said[pair[0]].get(pair[1], same) & 1 != same:
                    dropped.append(self._given(*pair))
                self._say(*pair, 2 * number + same)
        said = ((code, i, j) for i in was for j, code in self._said[i].items() if i < j or j not in was)
        for code, i, j in sorted(said, reverse=True):
            if self._are_unlike(i, j) if code & 1 else self._find(i) == self._find(j):
                dropped.append(self._given(i, j))
                del self._said[i][j], self._said[j][i]
                self._n_said -= 1
            elif not code & 1:
                self._part(i, j)
            elif self._find(i) != self._find(j):
                self._merge(i, j)

        def changes() -> _Changes:
            groups: dict[tuple[int, int], list[int]] = {}
            for i, root in was.items():
                groups.setdefault((self._find(i), root), []).append(i)
            pieces: _Changes = {}
            for (now, root), items in groups.items():
                pieces.setdefault(now, []).append(_Piece(_Span(items, 0, len(items)), root, now, []))
            for now in pieces:
                near = list(self._neighbours(now, pieces))
                for piece in pieces[now]:
                    piece.fresh.extend(other for other in near if other.was not in old[piece.was])
            return pieces

        return tuple(sorted(dropped, key=lambda given: (given.number, not given.same))), changes

    def _whole(self, root: int) -> _Piece:
        items = self._members[root]
        return _Piece(_Span(items, 0, len(items)), root, root, [])

    def _neighbours(self, root: int, changes: _Changes) -> Iterator[_Piece]:
        for other in self._edges.get(root, ()):
            yield from changes.get(other) or (self._whole(other),)

    def _blocks_of_pairs(self) -> Iterator[_Pairs]:
        spans = {root: _Span(items, 0, len(items)) for root, items in self._members.items()}
        for root, span in spans.items():
            if span.stop > 1:
                yield _Pairs(span, span, True)
            for other in self._edges.get(root, ()):
                if root < other:
                    yield _Pairs(span, spans[other], False)

    def _blocks_of_triplets(self) -> Iterator[_Triplets]:
        spans = {root: _Span(items, 0, len(items)) for root, items in self._members.items()}
        for root, span in spans.items():
            if span.stop > 1:
                for other in self._edges.get(root, ()):
                    yield _Triplets(span, span, spans[other])

    # Proofs.

    def _prove(self, i: int, j: int) -> None:
        """Hang i's tree of proofs under j, by the pair that says so: the links above i turn around."""
        proof = self._proof
        while i != _ROOT:
            proof[i], i, j = j, proof[i], i

    def _path(self, i: int, j: int, edge: int | None = None) -> list[Given]:
        """The given pairs that lead from i to j, over the unlike ``edge`` if they are in two components."""
        if edge is not None:
            x, y = _split(edge)
            if self._find(x) != self._find(i):
                x, y = y, x
            return [*self._path(i, x), self._given(x, y), *self._path(y, j)]
        ups = [i]
        if i != j:
            while (i := self._proof[i]) != _ROOT:
                ups.append(i)
        place = {i: n for n, i in enumerate(ups)}
        downs = [j]
        while j not in place:
            j = self._proof[j]
            downs.append(j)
        way = ups[: place[j]] + downs[::-1]
        return [self._given(*link) for link in pairwise(way)]

    def _contradiction(
        self, constraint: Pair | Triplet, like: tuple[int, int] | None, unlike: tuple[int, int] | None
    ) -> Contradiction | None:
        """Why a constraint cannot be true. Its proof can be read later: what a forest proves, it proves the same
        way when it has grown."""
        number = self._version
        one, two = constraint.pairs if isinstance(constraint, Triplet) else (constraint, constraint)
        if like:
            edge = self._edges.get(self._find(like[0]), {}).get(self._find(like[1]))
            if edge is not None:
                return Contradiction(constraint, number, one, partial(self._path, *like, edge))
        if unlike:
            if self._find(unlike[0]) == self._find(unlike[1]):
                return Contradiction(constraint, number, two, partial(self._path, *unlike))
            if like and self._find(like[1]) == self._find(unlike[1]):
                own, rest = Given(number, *one), partial(self._path, like[1], unlike[1])
                return Contradiction(constraint, number, two, lambda: [own, *rest()])
        return None


def _impossible(like: tuple[int, int] | None, unlike: tuple[int, int] | None) -> bool:
    """Whether no graph could hold it."""
    return unlike is not None and (unlike[0] == unlike[1] or (like is not None and like[1] == unlike[1]))


def _join(i: int, j: int) -> int:
    return i << _HALF | j


def _split(code: int) -> tuple[int, int]:
    return code >> _HALF, code & ((1 << _HALF) - 1)


def _checked(constraint: Any) -> tuple[tuple[Any, Any] | None, tuple[Any, Any] | None]:
    """What a constraint says is alike, and what unlike."""
    if isinstance(constraint, Triplet):
        for item in constraint:
            _check_hashable(item)
        return constraint[:2], constraint[::2]
    if not isinstance(constraint, Pair):
        raise InvalidTypeError(
            f"A constraint must be a Pair or a Triplet of oahu.constraints. Got {constraint!r} instead."
        )
    first, second, same = constraint
    _check_hashable(first)
    _check_hashable(second)
    if not isinstance(same, bool | np.bool_):
        raise InvalidTypeError(f"'same' of a Pair must be True or False. Got {same!r} instead.")
    return ((first, second), None) if same else (None, (first, second))


def _check_hashable(item: Any) -> None:
    try:
        hash(item)
    except TypeError as error:
        raise InvalidTypeError(
            f"An item of a constraint must be hashable, such as a row number or a string. Got {item!r} instead."
        ) from error


def _check_number(name: str, value: Any) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 0:
        raise InvalidInputError(f"The {name!r} parameter must be an int of at least 0. Got {value!r} instead.")


# -- seeds and what follows from them ------------------------------------------------------------------------

Seeds = TypeVar("Seeds", bound=Any)


def closure(seeds: Seeds, n_more: int, random_state: RandomState = None, *, exact: bool = True) -> Seeds:
    """Seeds and n more constraints that follow from them, as one stream.

    The paper's "5,000 seeds, then 5,000 more by transitive closure" (Section 4.2). The ones that follow are drawn
    uniformly and without replacement from all that follow and are no seeds, and stand "in chronological order of
    creation": right behind the seed from which they first followed.

    Parameters
    ----------
    seeds : array-like of shape (n, 3), tuple (pairs of shape (n, 2), y of shape (n,)), or sequence of records
        Triplets of items (anchor, positive, negative); or pairs of items and whether they are alike, as truth
        values or +1 and -1; or `Pair` records; or `Triplet` records.
    n_more : int
    random_state : None, int, numpy Generator or RandomState
    exact : bool
        Whether it is an error that fewer than ``n_more`` follow. If not, there are just fewer.

    Returns
    -------
    stream : as ``seeds``: ndarray of shape (n + n_more, 3), (ndarray, ndarray), or list of records

    Examples
    --------
    >>> closure(np.array([[0, 1, 2], [2, 3, 0]]), 2, random_state=0)
    array([[0, 1, 2],
           [1, 0, 2],
           [2, 3, 0],
           [3, 2, 1]])
    """
    _check_number("n_more", n_more)
    constraints, restore = _records(seeds)
    graph = ConstraintGraph()
    for constraint in constraints:
        graph.add(constraint)
    triplets = bool(constraints) and isinstance(constraints[0], Triplet)
    following: Implied[Pair] | Implied[Triplet] = graph.triplets if triplets else graph.pairs
    if exact and following.count < n_more:
        raise InvalidInputError(
            f"{n_more} more {'triplets' if triplets else 'pairs'} were asked for, and {following.count} follow "
            f"from {len(constraints)} seed(s). Ask for fewer, pass more seeds over fewer items, or exact=False."
        )
    drawn: Sequence[Pair | Triplet] = following.sample(n_more, random_state)
    behind: list[list[Pair | Triplet]] = [[] for _ in constraints]
    for more, seed in zip(drawn, _first_followed(constraints, drawn), strict=True):
        behind[seed].append(more)
    return cast(Seeds, restore([c for seed, more in zip(constraints, behind, strict=True) for c in (seed, *more)]))


def _first_followed(seeds: Sequence[Pair | Triplet], drawn: Sequence[Pair | Triplet]) -> list[int]:
    """After which seed each of ``drawn`` held: a binary search for all of them at once, over the same replays."""
    low, high = [0] * len(drawn), [len(seeds) - 1] * len(drawn)
    while any(map(int.__lt__, low, high)):
        at: dict[int, list[int]] = {}
        for k, (lo, hi) in enumerate(zip(low, high, strict=True)):
            if lo < hi:
                at.setdefault((lo + hi) // 2, []).append(k)
        graph = ConstraintGraph()
        for middle, seed in enumerate(seeds[: max(at) + 1]):
            graph.add(seed)
            for k in at.get(middle, ()):
                like, unlike = _checked(drawn[k])
                if (like is None or graph.alike(*like)) and (unlike is None or graph.unlike(*unlike)):
                    high[k] = middle
                else:
                    low[k] = middle + 1
    return low


def _records(seeds: Any) -> tuple[list[Pair | Triplet], Callable[[list[Pair | Triplet]], Any]]:
    """Seeds as records, and what gives records the form that the seeds had."""
    if isinstance(seeds, Sequence) and any(isinstance(seed, Pair | Triplet) for seed in seeds):
        if not all(type(seed) is type(seeds[0]) for seed in seeds):
            raise InvalidTypeError(
                "Seeds must be all Pair or all Triplet records: what follows is of the same kind."
            )
        return list(seeds), list
    if isinstance(seeds, tuple) and len(seeds) == 2:
        items, y = _table(seeds[0], 2), np.asarray(seeds[1])
        if y.shape != items.shape[:1]:
            raise InvalidInputError(
                f"There must be one y for each of {len(items)} pairs. Got y of shape {y.shape}."
            )
        if y.dtype != bool and not np.isin(y, (-1, 1)).all():
            raise InvalidInputError("y must be truth values, or +1 for alike and -1 for unlike.")
        pairs: list[Pair | Triplet] = [
            Pair(i, j, v > 0) for (i, j), v in zip(items.tolist(), y.tolist(), strict=True)
        ]

        def restore(records: list[Any]) -> tuple[Any, Any]:
            same = np.array([record.same for record in records], dtype=bool)
            rows = np.array([record[:2] for record in records], dtype=items.dtype).reshape(-1, 2)
            return rows, (same if y.dtype == bool else np.where(same, 1, -1).astype(y.dtype))

        return pairs, restore
    table = _table(seeds, 3)
    triplets: list[Pair | Triplet] = [Triplet(*row) for row in table.tolist()]
    return triplets, lambda records: np.array(records, dtype=table.dtype).reshape(-1, 3)


def _table(rows: Any, width: int) -> Any:
    try:
        table = np.asarray(rows)
    except ValueError as error:
        raise InvalidInputError(f"Seeds must be rows of {width} items each ({error}).") from error
    if table.ndim != 2 or table.shape[1] != width:
        raise InvalidInputError(
            f"Seeds must be items of shape (n, {width}), such as row numbers. Got shape {table.shape} instead."
        )
    return table
