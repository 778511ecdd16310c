"""What follows from constraints: alike is an equivalence, and unlike holds between whole groups of alike items.

The four rules of the paper's footnote (Section 3) say just that, so two structures hold everything that follows:
components of alike items (a union-find) and unlike edges between components. Pairs are counted and drawn from
products of components, and never listed unless they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, combinations, islice, pairwise, permutations
from typing import Any, Final, Literal, NamedTuple, overload

import numpy as np

from oahu.constraints.contradictions import Contradiction, GivenPair
from oahu.constraints.implied import ImpliedConstraints, PairBlock, Span, TripletBlock, check_fresh, check_number
from oahu.constraints.single import Pair, Triplet
from oahu.exceptions import InvalidInputError, InvalidTypeError
from oahu.randomness import RandomState, as_generator

__all__ = ["AddResult", "ConstraintGraph", "Policy"]

Policy = Literal["raise", "ignore", "newest"]

_POLICIES: Final = ("raise", "ignore", "newest")
_HALF: Final = 32  # bits: two items' numbers as one int
_ROOT: Final = -1  # the parent of a root in the forest of proofs
_NO_EDGES: Final[dict[int, int]] = {}


# -- what one constraint brings ------------------------------------------------------------------------------


class _Piece(NamedTuple):
    """Items that were in one component before and are in one now, and those to whom they newly are unlike."""

    span: Span
    was: int
    now: int
    fresh: list[_Piece]


#: The pieces of the components that have changed, by component.
_Changes = dict[int, list[_Piece]]


class AddResult:
    """What came of one constraint.

    Attributes
    ----------
    constraint : Pair or Triplet
    number : int
        Its place in the stream, counted from 0.
    accepted : bool
        Whether the graph holds it; if not, the graph is as it was.
    contradiction : Contradiction or None
    dropped : tuple of GivenPair
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
        self.dropped: tuple[GivenPair, ...] = ()
        self._graph, self._version = graph, graph._version
        self._changes: Callable[[], _Changes] = dict
        self._own: tuple[tuple[int, int], ...] = ()  # the pairs it says that were not known before
        self._triplet: tuple[int, int, int] | None = None  # itself, if it was not known before

    @property
    def new_pairs(self) -> ImpliedConstraints[Pair]:
        """The pairs that hold now and did not before, without what the constraint says itself."""
        own = {pair for first, second in self._own for pair in ((first, second), (second, first))}
        return ImpliedConstraints(
            self._graph._now, self._blocks_of_pairs(), self._graph._pair, lambda t: t[:2] in own, len(self._own)
        )

    @property
    def new_triplets(self) -> ImpliedConstraints[Triplet]:
        """The triplets that hold now and did not before, without the constraint itself."""
        own = self._triplet
        n_own = int(own is not None)
        return ImpliedConstraints(
            self._graph._now, self._blocks_of_triplets(), self._graph._triplet, lambda t: t == own, n_own
        )

    def _blocks_of_pairs(self) -> Iterator[PairBlock]:
        changes = self._ask()
        for pieces in changes.values():
            for one, two in combinations(pieces, 2):
                yield PairBlock(one.span, two.span, True)
        for piece in chain.from_iterable(changes.values()):
            for other in piece.fresh:
                if other.now not in changes or piece.now < other.now:  # once, not from both sides
                    yield PairBlock(piece.span, other.span, False)

    def _blocks_of_triplets(self) -> Iterator[TripletBlock]:
        changes = self._ask()
        for now, pieces in changes.items():
            # Those that were alike before are news with new negatives only; those that were not, with all.
            for anchors, positives in permutations(pieces, 2):
                for other in self._graph._neighbours(now, changes):
                    yield TripletBlock(anchors.span, positives.span, other.span)
            for piece in pieces:
                for other in piece.fresh:
                    yield TripletBlock(piece.span, piece.span, other.span)
                    if other.now not in changes:
                        yield TripletBlock(other.span, other.span, piece.span)

    def _ask(self) -> _Changes:
        check_fresh(self._version, self._graph._version)
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
    >>> graph.add(Triplet("tea", "green tea", "coffee")).new_pairs.sample(10)
    [Pair(first='green tea', second='coffee', same=False)]
    >>> list(graph.add(Pair("espresso", "coffee", same=True)).new_pairs)
    [Pair(first='espresso', second='tea', same=False), Pair(first='espresso', second='green tea', same=False)]
    >>> graph.proof("espresso", "green tea")  # doctest: +NORMALIZE_WHITESPACE
    (GivenPair(number=1, first='espresso', second='coffee', same=True),
     GivenPair(number=0, first='coffee', second='tea', same=False),
     GivenPair(number=0, first='tea', second='green tea', same=True))
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

    def add(self, constraint: Pair | Triplet) -> AddResult:
        """Take in a constraint, or none of it, and say what newly follows."""
        n_known = len(self._items)
        like, unlike = self._entered(constraint)
        contradiction = self._contradiction(constraint, like, unlike)
        if contradiction and (self.policy != "newest" or _impossible(like, unlike)):
            error = None if self.policy == "ignore" else contradiction.error()
            self._forget(n_known)
            if error:
                raise error
            self._version += 1
            return AddResult(self, constraint, contradiction, accepted=False)
        self._version += 1
        addition = AddResult(self, constraint, contradiction, accepted=True)
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
        self._hear(like, unlike, addition.number)
        if addition._own:
            addition._changes = self._apply(merges, parts)
        return addition

    def extend(self, constraints: Iterable[Pair | Triplet]) -> None:
        """Add constraints one by one, in half the time if nobody asks what newly follows.

        If one is an error, those before it have been added.
        """
        for constraint in constraints:
            n_known = len(self._items)
            like, unlike = self._entered(constraint)
            if self._contradiction(constraint, like, unlike):
                self._forget(n_known)
                self.add(constraint)
                continue
            if like and unlike and like[0] != like[1]:
                self._triplets_said.add(_join(_join(*like), unlike[1]))
            self._hear(like, unlike, self._version)
            self._version += 1
            if like and self._find(like[0]) != self._find(like[1]):
                self._merge(*like)
            if unlike:
                self._part(*unlike)

    def copy(self) -> ConstraintGraph:
        """A graph of its own that holds the same, in the same order; in a fraction of the time that adding took."""
        other = ConstraintGraph(self.policy)
        other._version, other._n_said = self._version, self._n_said
        other._numbers, other._items = self._numbers.copy(), self._items.copy()
        other._said = [said.copy() for said in self._said]
        other._parent, other._proof = self._parent.copy(), self._proof.copy()
        other._members = {root: items.copy() for root, items in self._members.items()}
        other._edges = {root: edges.copy() for root, edges in self._edges.items()}
        other._triplets_said = self._triplets_said.copy()
        return other

    def first_contradiction(self, constraints: Iterable[Pair | Triplet]) -> Contradiction | None:
        """Why one of several constraints cannot be true if those before it are; None if all go together.

        Nothing is added. The first of them would be number ``number``, the next one more. It takes time in
        proportion to the constraints, and to what is known between the components of their items.
        """
        given = list(constraints)
        items = dict.fromkeys(chain.from_iterable(pair for one in given for pair in _checked(one) if pair))
        known = ConstraintGraph("ignore")  # what is known of these items alone
        named: dict[int, Any] = {}  # the first of these items in each component
        for item in items:
            if (number := self._number(item)) is not None:
                first = named.setdefault(self._find(number), item)
                if first is not item:
                    known.add(Pair(first, item, True))
        for root, item in named.items():
            edges = self._edges.get(root, {})
            for other in edges if len(edges) < len(named) else named:
                if root < other and other in edges and other in named:
                    known.add(Pair(item, named[other], False))
        n_known, ahead = known._version, self._version - known._version
        for constraint in given:
            if found := known.add(constraint).contradiction:
                links: list[GivenPair] = []
                for link in found.chain:
                    own = link.number >= n_known
                    links += (link._replace(number=link.number + ahead),) if own else self.proof(*link[1:3]) or ()
                return Contradiction(constraint, found.number + ahead, found.pair, links.copy)
        return None

    def are_similar(self, a: Hashable, b: Hashable) -> bool:
        """Whether it follows that they are alike; an item always is like itself."""
        i, j = self._number(a), self._number(b)
        return a == b if i is None or j is None else self._find(i) == self._find(j)

    def are_dissimilar(self, a: Hashable, b: Hashable) -> bool:
        """Whether it follows that they are unlike."""
        i, j = self._number(a), self._number(b)
        return i is not None and j is not None and self._are_unlike(i, j)

    def implies(self, constraint: Pair | Triplet) -> bool:
        """Whether it follows what a constraint says: for a triplet, both its pairs."""
        like, unlike = _checked(constraint)
        return (like is None or self.are_similar(*like)) and (unlike is None or self.are_dissimilar(*unlike))

    def proof(self, a: Hashable, b: Hashable) -> tuple[GivenPair, ...] | None:
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

    def similar_to(self, item: Hashable) -> list[Any]:
        """The other items that are known to be like one."""
        return [self._items[other] for other in self._alike(item) if self._items[other] != item]

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
    def implied_pairs(self) -> ImpliedConstraints[Pair]:
        """All pairs that follow and were not given."""
        return ImpliedConstraints(
            self._now, self._blocks_of_pairs(), self._pair, lambda t: t[1] in self._said[t[0]], self._n_said
        )

    @property
    def implied_triplets(self) -> ImpliedConstraints[Triplet]:
        """All triplets that follow and were not given (as a triplet, both pairs of which are held)."""
        n_given = len(self._triplets_said)
        if self.policy == "newest":
            n_given = sum(self._holds(*_split(_split(code)[0]), _split(code)[1]) for code in self._triplets_said)
        return ImpliedConstraints(
            self._now, self._blocks_of_triplets(), self._triplet, lambda t: self._is_given_triplet(*t), n_given
        )

    @overload
    def sample_implied(
        self, limit: int, random_state: RandomState = None, *, kind: Literal["pairs"] = "pairs"
    ) -> list[Pair]: ...
    @overload
    def sample_implied(
        self, limit: int, random_state: RandomState = None, *, kind: Literal["triplets"]
    ) -> list[Triplet]: ...
    def sample_implied(
        self, limit: int, random_state: RandomState = None, *, kind: Literal["pairs", "triplets"] = "pairs"
    ) -> list[Pair] | list[Triplet]:
        """At most ``limit`` of all that follows and was not given, uniformly and without replacement.

        Time and memory grow with the graph and the limit, not with what follows. For all of it, one by one, iterate
        over `implied_pairs` or `implied_triplets`.

        Parameters
        ----------
        limit : int
        random_state : None, int, numpy Generator or RandomState
        kind : {"pairs", "triplets"}
        """
        if kind not in ("pairs", "triplets"):
            raise InvalidInputError(f"The 'kind' parameter must be 'pairs' or 'triplets'. Got {kind!r} instead.")
        if kind == "pairs":
            return self.implied_pairs.sample(limit, random_state)
        return self.implied_triplets.sample(limit, random_state)

    @overload
    def variants(self, constraint: Pair, limit: int, random_state: RandomState = None) -> list[Pair]: ...
    @overload
    def variants(self, constraint: Triplet, limit: int, random_state: RandomState = None) -> list[Triplet]: ...
    def variants(
        self, constraint: Pair | Triplet, limit: int, random_state: RandomState = None
    ) -> list[Pair] | list[Triplet]:
        """At most ``limit`` other constraints that say the same of items alike to its own, each once.

        Of what does not hold there are none. Each is drawn in constant time, however much follows; where little
        does, there may be fewer than there could be.
        """
        check_number("limit", limit)
        if not self.implies(constraint):
            return []
        if isinstance(constraint, Triplet):
            spans = [self._alike(item) for item in constraint]
            return [Triplet(*items) for items in self._drawn(spans, constraint, limit, random_state)]
        spans = [self._alike(item) for item in constraint[:2]]
        drawn = self._drawn(spans, constraint[:2], limit, random_state)
        return [Pair(first, second, constraint.same) for first, second in drawn]

    def completions(self, pair: Pair, limit: int, random_state: RandomState = None) -> list[Triplet]:
        """At most ``limit`` triplets that follow from a pair that holds and what else is known, each once.

        An alike pair is completed by an item unlike them, an unlike pair by an item alike to one of them.
        """
        check_number("limit", limit)
        if not self.implies(pair):
            return []
        rng = as_generator(random_state)
        one, two = self._alike(pair.first), self._alike(pair.second)
        if not pair.same:
            spans = [one, one, two] if len(one) > 1 else [two, two, one]
        else:
            edges = self._edges.get(self._find(one[0]), {}) if one else {}
            far = next(islice(edges, int(rng.integers(len(edges))), None)) if edges else None
            spans = [one, one, [] if far is None else self._members[far]]
        return [Triplet(*items) for items in self._drawn(spans, (), limit, rng)]

    def _alike(self, item: Hashable) -> list[int]:
        """The items of a component; none if nothing is known of it."""
        number = self._number(item)
        return [] if number is None else self._members[self._find(number)]

    def _drawn(
        self, spans: Sequence[list[int]], but: tuple[Any, ...], limit: int, random_state: RandomState
    ) -> Iterable[tuple[Any, ...]]:
        """Items of each span, the first two different, each choice once, and ``but`` one."""
        sizes = [len(span) for span in spans]
        twins = spans[0] is spans[1]  # then the second is drawn from the others
        sizes[1] -= twins
        if not limit or not all(sizes):
            return ()
        found: dict[Any, tuple[Any, ...]] = {}
        for row in (as_generator(random_state).random((2 * limit, len(spans))) * sizes).astype(np.intp).tolist():
            row[1] += twins and row[1] >= row[0]
            items = tuple(self._items[span[at]] for span, at in zip(spans, row, strict=True))
            if _said_by(items) != _said_by(but):
                found.setdefault(_said_by(items), items)
            if len(found) == limit:
                break
        return found.values()

    # Items, and what was said of them.

    def _now(self) -> int:
        return self._version

    def _number(self, item: Hashable) -> int | None:
        _check_hashable(item)
        return self._numbers.get(item)

    def _enter(self, item: Hashable) -> int:
        number = self._numbers.get(item)
        if number is None:
            number = self._numbers[item] = len(self._items)
            self._items.append(item)
            self._said.append({})
            self._parent.append(number)
            self._proof.append(_ROOT)
            self._members[number] = [number]
        return number

    def _entered(self, constraint: Pair | Triplet) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        """What a constraint says is alike, and what unlike, by number."""
        like, unlike = _checked(constraint)
        if like is None or unlike is None:
            first, second = map(self._enter, like or unlike or ())
            return ((first, second), None) if like else (None, (first, second))
        anchor, positive, negative = map(self._enter, (*like, unlike[1]))
        return (anchor, positive), (anchor, negative)

    def _forget(self, n_known: int) -> None:
        """Take back the items that entered with a constraint that is refused."""
        for number in range(n_known, len(self._items)):
            del self._numbers[self._items[number]], self._members[number]
        for by_item in (self._items, self._said, self._parent, self._proof):
            del by_item[n_known:]

    def _say(self, i: int, j: int, code: int) -> None:
        said = self._said[i]
        if i == j or (j in said and self.policy != "newest"):
            return  # proofs that are read later keep the numbers that they had
        self._n_said += j not in said
        said[j] = self._said[j][i] = code

    def _hear(self, like: tuple[int, int] | None, unlike: tuple[int, int] | None, number: int) -> None:
        if like:
            self._say(*like, 2 * number + 1)
        if unlike:
            self._say(*unlike, 2 * number)

    def _given(self, i: int, j: int) -> GivenPair:
        code = self._said[i][j]
        return GivenPair(code >> 1, self._items[i], self._items[j], bool(code & 1))

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

    def _merge(self, i: int, j: int) -> tuple[Span, Span, int, dict[int, int], list[int]]:
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
        spans = Span(items, 0, n), Span(items, n, len(items))
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
    ) -> tuple[tuple[GivenPair, ...], Callable[[], _Changes]]:
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
                pieces.setdefault(now, []).append(_Piece(Span(items, 0, len(items)), root, now, []))
            for now in pieces:
                near = list(self._neighbours(now, pieces))
                for piece in pieces[now]:
                    piece.fresh.extend(other for other in near if other.was not in old[piece.was])
            return pieces

        return tuple(sorted(dropped, key=lambda given: (given.number, not given.same))), changes

    def _whole(self, root: int) -> _Piece:
        items = self._members[root]
        return _Piece(Span(items, 0, len(items)), root, root, [])

    def _neighbours(self, root: int, changes: _Changes) -> Iterator[_Piece]:
        for other in self._edges.get(root, ()):
            yield from changes.get(other) or (self._whole(other),)

    def _blocks_of_pairs(self) -> Iterator[PairBlock]:
        spans = {root: Span(items, 0, len(items)) for root, items in self._members.items()}
        for root, span in spans.items():
            if span.stop > 1:
                yield PairBlock(span, span, True)
            for other in self._edges.get(root, ()):
                if root < other:
                    yield PairBlock(span, spans[other], False)

    def _blocks_of_triplets(self) -> Iterator[TripletBlock]:
        spans = {root: Span(items, 0, len(items)) for root, items in self._members.items()}
        for root, span in spans.items():
            if span.stop > 1:
                for other in self._edges.get(root, ()):
                    yield TripletBlock(span, span, spans[other])

    # Proofs.

    def _prove(self, i: int, j: int) -> None:
        """Hang i's tree of proofs under j, by the pair that says so: the links above i turn around."""
        proof = self._proof
        while i != _ROOT:
            proof[i], i, j = j, proof[i], i

    def _path(self, i: int, j: int, edge: int | None = None) -> list[GivenPair]:
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
        if like:
            edge = self._edges.get(self._find(like[0]), _NO_EDGES).get(self._find(like[1]))
            if edge is not None:
                return Contradiction(constraint, number, _pairs(constraint)[0], partial(self._path, *like, edge))
        if unlike:
            far = self._find(unlike[1])
            if self._find(unlike[0]) == far:
                return Contradiction(constraint, number, _pairs(constraint)[-1], partial(self._path, *unlike))
            if like and self._find(like[1]) == far:
                one, two = _pairs(constraint)
                own, rest = GivenPair(number, *one), partial(self._path, like[1], unlike[1])
                return Contradiction(constraint, number, two, lambda: [own, *rest()])
        return None


def _pairs(constraint: Pair | Triplet) -> tuple[Pair, ...]:
    return constraint.pairs if isinstance(constraint, Triplet) else (constraint,)


def _impossible(like: tuple[int, int] | None, unlike: tuple[int, int] | None) -> bool:
    """Whether no graph could hold it."""
    return unlike is not None and (unlike[0] == unlike[1] or (like is not None and like[1] == unlike[1]))


def _said_by(items: tuple[Any, ...]) -> Hashable:
    """What tells constraints apart: a pair says the same the other way round."""
    return frozenset(items) if len(items) == 2 else items


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
