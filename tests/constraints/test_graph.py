"""What follows from constraints is what the paper's four rules say, applied by brute force until nothing is new."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations, islice, permutations, product
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from oahu.constraints import AddResult, ConstraintGraph, GivenPair, ImpliedConstraints, Pair, Triplet, closure
from oahu.exceptions import ContradictionError, InvalidInputError, InvalidTypeError

N = 7
ITEMS = st.integers(0, N - 1)
PAIRS = st.builds(Pair, ITEMS, ITEMS, st.booleans())
TRIPLETS = st.builds(Triplet, ITEMS, ITEMS, ITEMS)
CONSTRAINTS = st.lists(st.one_of(PAIRS, TRIPLETS), min_size=1, max_size=14)
POLICIES = st.sampled_from(["raise", "ignore", "newest"])


# -- the oracle: all relations in two matrices, and a list of what is believed -------------------------------


class Closure(NamedTuple):
    alike: np.ndarray[Any, Any]
    unlike: np.ndarray[Any, Any]

    @property
    def consistent(self) -> bool:
        return not (self.alike & self.unlike).any()

    @property
    def pairs(self) -> set[tuple[frozenset[int], bool]]:
        return {
            (frozenset(pair), same)
            for pair in combinations(range(N), 2)
            for same, holds in ((True, self.alike), (False, self.unlike))
            if holds[pair]
        }

    @property
    def triplets(self) -> set[tuple[int, int, int]]:
        return {t for t in permutations(range(N), 3) if self.alike[t[0], t[1]] and self.unlike[t[0], t[2]]}


def close(said: list[GivenPair]) -> Closure:
    """The four rules, applied to every pair of pairs until nothing is new."""
    alike, unlike = np.eye(N, dtype=bool), np.zeros((N, N), dtype=bool)
    for _, i, j, same in said:
        relation = alike if same else unlike
        relation[i, j] = relation[j, i] = True
    while True:
        more = Closure(alike | alike @ alike, unlike | alike @ unlike | unlike @ alike)
        if (more.alike == alike).all() and (more.unlike == unlike).all():
            return more
        alike, unlike = more


def statements(number: int, constraint: Pair | Triplet) -> list[GivenPair]:
    pairs = constraint.pairs if isinstance(constraint, Triplet) else (constraint,)
    return [GivenPair(number, *pair) for pair in pairs]


def believe(policy: str, held: list[GivenPair], new: list[GivenPair]) -> list[GivenPair]:
    """What is held after ``new``; the whole of it believed anew, from the newest on."""
    if close(held + new).consistent:
        return held + new
    if policy != "newest" or not close(new).consistent:
        return held
    kept = list(new)
    for one in sorted(held, key=lambda said: (-said.number, not said.same)):
        if close([*kept, one]).consistent:
            kept.append(one)
    return sorted(kept, key=lambda said: said.number)


class Step(NamedTuple):
    graph: ConstraintGraph
    constraint: Pair | Triplet
    addition: AddResult | None  # None if there was an error
    error: ContradictionError | None
    before: list[GivenPair]
    after: list[GivenPair]
    new: list[GivenPair]


def play(constraints: list[Pair | Triplet], policy: Any) -> Iterator[Step]:
    """The graph and the oracle, constraint by constraint."""
    graph, held, number = ConstraintGraph(policy), [], 0
    for constraint in constraints:
        new = statements(number, constraint)
        before, held = held, believe(policy, held, new)
        try:
            addition, error = graph.add(constraint), None
        except ContradictionError as refused:
            addition, error = None, refused
        yield Step(graph, constraint, addition, error, before, held, new)
        number += error is None


def unordered(pair: Any) -> tuple[frozenset[int], bool]:
    return frozenset((pair.first, pair.second)), bool(pair.same)


def once(found: list[Any]) -> set[Any]:
    """As a set, and nothing was there twice."""
    assert len(set(found)) == len(found)
    return set(found)


def relations(graph: ConstraintGraph) -> Closure:
    alike = [[graph.are_similar(i, j) for j in range(N)] for i in range(N)]
    unlike = [[graph.are_dissimilar(i, j) for j in range(N)] for i in range(N)]
    return Closure(np.array(alike), np.array(unlike))


def state(graph: ConstraintGraph) -> Any:
    """All that can be seen of a graph."""
    why = [graph.proof(i, j) for i in range(N) for j in range(N)]
    return (
        list(graph.implied_pairs),
        list(graph.implied_triplets),
        graph.components(),
        len(graph),
        graph.n_items,
        why,
    )


# -- what holds ------------------------------------------------------------------------------------------------


@given(CONSTRAINTS, POLICIES)
@settings(max_examples=300, deadline=None)
def test_relations_are_those_of_the_four_rules(constraints: list[Any], policy: str) -> None:
    for step in play(constraints, policy):
        expected, found = close(step.after), relations(step.graph)
        np.testing.assert_array_equal(found.alike, expected.alike)
        np.testing.assert_array_equal(found.unlike, expected.unlike)


@given(CONSTRAINTS, POLICIES)
@settings(max_examples=200, deadline=None)
def test_components_are_the_groups_of_alike_items(constraints: list[Any], policy: str) -> None:
    for step in play(constraints, policy):
        named = [item for group in step.graph.components() for item in group]
        assert len(named) == len(set(named)) == step.graph.n_items
        assert all(item in step.graph for item in named)
        alike = close(step.after).alike
        for group in step.graph.components():
            assert set(group) == set(np.flatnonzero(alike[group[0]]).tolist())


@given(CONSTRAINTS, POLICIES)
@settings(max_examples=200, deadline=None)
def test_len_counts_the_distinct_pairs_that_are_held(constraints: list[Any], policy: str) -> None:
    for step in play(constraints, policy):
        held = {unordered(said) for said in step.after if said.first != said.second}
        assert len(step.graph) == len(held)


@given(CONSTRAINTS, POLICIES)
@settings(max_examples=300, deadline=None)
def test_what_follows_from_all_is_the_closure_without_what_was_given(constraints: list[Any], policy: str) -> None:
    triplets: set[Any] = set()
    for step in play(constraints, policy):
        if isinstance(step.constraint, Triplet) and step.addition and step.addition.accepted:
            triplets.add(step.constraint)
    held = {unordered(said) for said in step.after}
    expected = close(step.after)
    given = {t for t in triplets if {unordered(pair) for pair in t.pairs} <= held}
    assert once([unordered(pair) for pair in step.graph.implied_pairs]) == expected.pairs - held
    assert once(list(step.graph.implied_triplets)) == expected.triplets - given
    assert len(step.graph.implied_pairs) == len(expected.pairs - held)
    assert len(step.graph.implied_triplets) == len(expected.triplets - given)


# -- what newly follows ----------------------------------------------------------------------------------------


@given(CONSTRAINTS, POLICIES)
@settings(max_examples=400, deadline=None)
def test_new_pairs_are_those_that_hold_now_and_did_not_before(constraints: list[Any], policy: str) -> None:
    for step in play(constraints, policy):
        if step.addition is not None:
            own = {unordered(said) for said in step.new}
            expected = close(step.after).pairs - close(step.before).pairs - own
            assert once([unordered(pair) for pair in step.addition.new_pairs]) == expected
            assert len(step.addition.new_pairs) == len(expected)
            assert bool(step.addition.new_pairs) == bool(expected)


@given(CONSTRAINTS, POLICIES)
@settings(max_examples=400, deadline=None)
def test_new_triplets_are_those_that_hold_now_and_did_not_before(constraints: list[Any], policy: str) -> None:
    for step in play(constraints, policy):
        if step.addition is not None:
            own = {step.constraint} if isinstance(step.constraint, Triplet) else set()
            expected = close(step.after).triplets - close(step.before).triplets - own
            assert once(list(step.addition.new_triplets)) == expected
            assert len(step.addition.new_triplets) == len(expected)


@given(CONSTRAINTS, POLICIES, st.integers(0, 40), st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_a_sample_is_some_of_what_follows_in_its_order(
    constraints: list[Any], policy: str, limit: int, seed: int
) -> None:
    for step in play(constraints, policy):
        sources = [step.graph.implied_pairs, step.graph.implied_triplets]
        if step.addition:
            sources += [step.addition.new_pairs, step.addition.new_triplets]
        for implied in sources:
            everything = list(implied)
            drawn = implied.sample(limit, seed)
            places = [everything.index(one) for one in drawn]
            assert len(drawn) == min(limit, len(everything))
            assert places == sorted(set(places))


@pytest.mark.parametrize(
    "ask", [len, list, lambda implied: implied.sample(1, 0), lambda implied: implied.count, bool]
)
def test_what_newly_follows_must_be_asked_for_before_the_next(ask: Callable[[Any], Any]) -> None:
    graph = ConstraintGraph()
    pairs = graph.add(Triplet(0, 1, 2)).new_pairs
    graph.add(Pair(5, 6, True))
    with pytest.raises(InvalidInputError, match="before the next add"):
        ask(pairs)


@pytest.mark.parametrize("kind", ["pairs", "triplets"])
def test_an_addition_does_not_answer_after_the_next(kind: str) -> None:
    graph = ConstraintGraph()
    addition = graph.add(Triplet(0, 1, 2))
    graph.add(Pair(5, 6, True))
    with pytest.raises(InvalidInputError, match="before the next add"):
        getattr(addition, f"new_{kind}")


def test_iterating_stops_when_the_graph_changes() -> None:
    graph = ConstraintGraph()
    graph.add(Pair(0, 1, True))
    graph.add(Pair(2, 3, True))
    following = iter(graph.add(Pair(0, 2, True)).new_pairs)
    next(following)
    graph.add(Pair(0, 4, True))
    with pytest.raises(InvalidInputError, match="before the next add"):
        next(following)


# -- contradictions ----------------------------------------------------------------------------------------------


def proves(chain: tuple[GivenPair, ...], pair: Any, held: list[GivenPair]) -> bool:
    """Whether each link is held, they connect the two, and they say the opposite of the pair."""
    live = {(said.number, *unordered(said)) for said in held}
    ends = [pair.first, *(link.second for link in chain)]
    return (
        all((link.number, *unordered(link)) in live for link in chain)
        and [link.first for link in chain] == ends[:-1]
        and ends[-1] == pair.second
        and [link.same for link in chain].count(False) == int(pair.same)
    )


def numbered(held: list[GivenPair], policy: str) -> list[GivenPair]:
    """A pair that was said again goes by one of its numbers: the newest where that counts, else the first."""
    by_pair = {unordered(said): said for said in (held if policy == "newest" else reversed(held))}
    return list(by_pair.values())


@given(CONSTRAINTS, POLICIES)
@settings(max_examples=300, deadline=None)
def test_a_contradiction_is_found_when_it_arrives_and_never_else(constraints: list[Any], policy: str) -> None:
    for step in play(constraints, policy):
        contradicts = not close(step.before + step.new).consistent
        refused = contradicts and (policy != "newest" or not close(step.new).consistent)
        assert (step.error is not None) == (refused and policy != "ignore")
        if step.addition is not None:
            assert (step.addition.contradiction is not None) == contradicts
            assert step.addition.accepted == (not refused)


@given(CONSTRAINTS, POLICIES)
@settings(max_examples=300, deadline=None)
def test_the_chain_of_a_contradiction_is_a_proof(constraints: list[Any], policy: str) -> None:
    late: list[tuple[Any, Any, list[GivenPair]]] = []
    for step in play(constraints, policy):
        known = numbered(step.before, policy) + step.new
        if step.error is not None:
            assert any(proves(step.error.chain, said, known) for said in step.new)
            assert step.error.constraint is step.constraint
        elif step.addition is not None and step.addition.contradiction is not None:
            late.append((step.addition.contradiction, step.constraint, known))
    for contradiction, constraint, known in late:  # asked for when the graph has gone on
        assert contradiction.constraint is constraint
        assert contradiction.pair in [Pair(*said[1:]) for said in statements(0, constraint)]
        assert proves(contradiction.chain, contradiction.pair, known)


@given(CONSTRAINTS, POLICIES)
@settings(max_examples=300, deadline=None)
def test_why_is_a_proof(constraints: list[Any], policy: str) -> None:
    step = list(play(constraints, policy))[-1]
    holds, held = close(step.after), numbered(step.after, policy)
    for i in range(N):
        for j in range(N):
            chain = step.graph.proof(i, j)
            if holds.alike[i, j] or holds.unlike[i, j]:
                assert chain is not None
                assert proves(chain, Pair(i, j, not holds.alike[i, j]), held)
            else:
                assert chain is None


@given(CONSTRAINTS)
@settings(max_examples=300, deadline=None)
def test_the_newest_are_believed_and_what_is_dropped_is_said(constraints: list[Any]) -> None:
    for step in play(constraints, "newest"):
        if step.addition is not None:
            kept = {unordered(said) for said in step.after}
            gone = [said for said in numbered(step.before, "newest") if unordered(said) not in kept]
            gone.sort(key=lambda said: (said.number, not said.same))
            dropped = step.addition.dropped
            assert [(d.number, *unordered(d)) for d in dropped] == [(g.number, *unordered(g)) for g in gone]


@given(CONSTRAINTS, st.sampled_from(["raise", "ignore"]))
@settings(max_examples=200, deadline=None)
def test_what_is_refused_changes_nothing(constraints: list[Any], policy: Any) -> None:
    graph, accepted = ConstraintGraph(policy), ConstraintGraph(policy)
    for constraint in constraints:
        before = state(graph)
        try:
            held = graph.add(constraint).accepted
        except ContradictionError:
            held = False
        if not held:
            assert state(graph) == before
        elif policy == "raise":  # numbers count what arrived, so only here they are the same
            accepted.add(constraint)
            assert state(graph) == state(accepted)


@given(CONSTRAINTS)
@settings(max_examples=100, deadline=None)
def test_ignoring_and_raising_hold_the_same(constraints: list[Any]) -> None:
    graphs = [[step.graph for step in play(constraints, policy)] for policy in ("raise", "ignore")]
    raising, ignoring = (found[-1] for found in graphs)
    assert list(raising.implied_pairs) == list(ignoring.implied_pairs)
    assert list(raising.implied_triplets) == list(ignoring.implied_triplets)


def test_numbers_count_what_arrived_but_not_errors() -> None:
    clash = [Pair(0, 1, True), Pair(0, 1, False), Pair(1, 2, True)]
    ignoring, raising = ConstraintGraph("ignore"), ConstraintGraph()
    assert [ignoring.add(constraint).number for constraint in clash] == [0, 1, 2]
    raising.add(clash[0])
    with pytest.raises(ContradictionError):
        raising.add(clash[1])
    assert raising.add(clash[2]).number == 1


@pytest.mark.parametrize("impossible", [Pair(0, 0, False), Triplet(0, 1, 1), Triplet(0, 1, 0), Triplet(0, 0, 0)])
@pytest.mark.parametrize("policy", ["raise", "newest"])
def test_what_no_graph_could_hold_is_an_error(impossible: Any, policy: Any) -> None:
    graph = ConstraintGraph(policy)
    with pytest.raises(ContradictionError):
        graph.add(impossible)
    assert graph.n_items == 0


def chain_of(n: int) -> ConstraintGraph:
    graph = ConstraintGraph()
    for i in range(n):
        graph.add(Pair(f"i{i}", f"i{i + 1}", True))
    return graph


def test_the_message_is_the_proof() -> None:
    with pytest.raises(ContradictionError) as caught:
        chain_of(2).add(Pair("i0", "i2", False))
    assert str(caught.value).startswith(
        "Constraint #2 states that 'i0' and 'i2' are dissimilar, but they are similar: "
        "#0 states that 'i0' and 'i1' are similar; #1 states that 'i1' and 'i2' are similar."
    )


def test_a_long_proof_is_cut_in_the_middle_of_the_message_only() -> None:
    with pytest.raises(ContradictionError) as caught:
        chain_of(1000).add(Pair("i0", "i1000", False))
    assert "; ... 990 more ...; " in str(caught.value)
    assert len(caught.value.chain) == 1000


def test_a_contradiction_survives_pickling() -> None:
    with pytest.raises(ContradictionError) as caught:
        chain_of(3).add(Triplet("i0", "new", "i3"))
    twin = pickle.loads(pickle.dumps(caught.value))
    assert (str(twin), twin.constraint, twin.chain) == (
        str(caught.value),
        caught.value.constraint,
        caught.value.chain,
    )


# -- asking before adding ------------------------------------------------------------------------------------


def first_clash(held: list[GivenPair], batch: list[Any], begin: int) -> int | None:
    """By brute force: the first of a batch that does not go with what is held and those before it."""
    said = list(held)
    for at, constraint in enumerate(batch):
        said += statements(begin + at, constraint)
        if not close(said).consistent:
            return at
    return None


@given(CONSTRAINTS, CONSTRAINTS, POLICIES)
@settings(max_examples=200, deadline=None)
def test_the_first_contradiction_is_the_first_that_does_not_go_with_those_before(
    constraints: list[Any], batch: list[Any], policy: str
) -> None:
    *_, step = play(constraints, policy)
    begin = step.graph._state.version
    found = step.graph.first_contradiction(batch)
    at = first_clash(step.after, batch, begin)
    assert (None if found is None else found.number) == (None if at is None else begin + at)
    assert found is None or found.constraint is batch[found.number - begin]


def refused(graph: ConstraintGraph, batch: list[Any]) -> ContradictionError | None:
    """What adding one by one runs into."""
    try:
        for constraint in batch:
            graph.add(constraint)
    except ContradictionError as error:
        return error
    return None


@given(CONSTRAINTS, CONSTRAINTS)
@settings(max_examples=200, deadline=None)
def test_the_first_contradiction_is_what_adding_one_by_one_says(constraints: list[Any], batch: list[Any]) -> None:
    *_, step = play(constraints, "raise")
    found = step.graph.first_contradiction(iter(batch))
    error = refused(step.graph, batch)
    assert (found is None) == (error is None)
    if found is not None and error is not None:
        assert found.constraint is error.constraint
        assert found.number == step.graph._state.version


@given(CONSTRAINTS, CONSTRAINTS, POLICIES)
@settings(max_examples=200, deadline=None)
def test_the_first_contradiction_has_a_proof(constraints: list[Any], batch: list[Any], policy: str) -> None:
    *_, step = play(constraints, policy)
    begin = step.graph._state.version
    found = step.graph.first_contradiction(batch)
    if found is not None:
        before = [said for at, one in enumerate(batch) for said in statements(begin + at, one)]
        known = numbered(step.after, policy) + [said for said in before if said.number <= found.number]
        assert found.pair in [Pair(*said[1:]) for said in statements(0, found.constraint)]
        assert proves(found.chain, found.pair, known)


@given(CONSTRAINTS, CONSTRAINTS, POLICIES)
@settings(max_examples=100, deadline=None)
def test_asking_for_a_contradiction_adds_nothing(constraints: list[Any], batch: list[Any], policy: str) -> None:
    *_, step = play(constraints, policy)
    before, number = state(step.graph), step.graph._state.version
    step.graph.first_contradiction(batch)
    assert (state(step.graph), step.graph._state.version) == (before, number)


def test_a_proof_stays_when_the_graph_goes_on() -> None:
    graph = chain_of(2)
    found = graph.first_contradiction([Pair("i0", "i2", False)])
    graph.add(Pair("i0", "other", False))
    assert found is not None
    assert found.chain == (GivenPair(0, "i0", "i1", True), GivenPair(1, "i1", "i2", True))


def test_asking_about_a_hub_never_walks_its_neighbours() -> None:
    graph = ConstraintGraph()
    for i in range(1000):
        graph.add(Pair("hub", i, False))
    hub = graph._state.components.find(graph._state.numbers["hub"])
    graph._state.components.edges[hub] = CountingDict(graph._state.components.edges[hub])
    CountingDict.walks = 0
    found = graph.first_contradiction([Pair("hub", "new", True), Pair("new", 7, True)])
    assert CountingDict.walks == 0
    assert found is not None
    assert found.number == 1001


def test_only_records_can_be_asked_about() -> None:
    with pytest.raises(InvalidTypeError, match="must be a Pair or a Triplet"):
        ConstraintGraph().first_contradiction([Pair(0, 1, True), (0, 1, True)])  # type: ignore[list-item]


@given(CONSTRAINTS, POLICIES)
@settings(max_examples=200, deadline=None)
def test_what_is_alike_to_an_item_is_all_that_follows(constraints: list[Any], policy: str) -> None:
    for step in play(constraints, policy):
        holds = close(step.after)
        for item in range(N):
            alike = set(np.flatnonzero(holds.alike[item]).tolist()) - {item}
            assert once(step.graph.similar_to(item)) == alike


# -- more of the same ------------------------------------------------------------------------------------------


def all_variants(holds: Closure, constraint: Any) -> set[Any]:
    """By brute force: what says the same of items alike to a constraint's own."""
    like = [np.flatnonzero(holds.alike[item]).tolist() for item in constraint[:3] if type(item) is int]
    if isinstance(constraint, Triplet):
        return {t for t in product(*like) if t[0] != t[1]} - {tuple(constraint)}
    return {frozenset(pair) for pair in product(*like) if pair[0] != pair[1]} - {frozenset(constraint[:2])}


@given(CONSTRAINTS, POLICIES, st.integers(0, 6), st.integers(0, 99))
@settings(max_examples=150, deadline=None)
def test_variants_say_the_same_of_items_that_are_alike(
    constraints: list[Any], policy: str, limit: int, seed: int
) -> None:
    *_, step = play(constraints, policy)
    for constraint in constraints:
        drawn = step.graph.variants(constraint, limit, seed)
        held = step.graph.implies(constraint)
        expected = all_variants(close(step.after), constraint) if held else set()
        pairs = isinstance(constraint, Pair)
        assert once([frozenset(one[:2]) if pairs else tuple(one) for one in drawn]) <= expected
        assert len(drawn) <= limit
        assert {type(one) for one in drawn} <= {type(constraint)}
        assert all(step.graph.implies(one) for one in drawn)


@given(CONSTRAINTS, POLICIES, st.integers(1, 6), st.integers(0, 99))
@settings(max_examples=150, deadline=None)
def test_completions_follow_and_there_are_some_if_anything_does(
    constraints: list[Any], policy: str, limit: int, seed: int
) -> None:
    *_, step = play(constraints, policy)
    holds = close(step.after)
    for pair in (one for one in constraints if isinstance(one, Pair)):
        drawn = step.graph.completions(pair, limit, seed)
        first, second = (set(np.flatnonzero(holds.alike[item]).tolist()) for item in pair[:2])
        near = first if pair.same else first | second
        expected = {
            t
            for t in holds.triplets
            if step.graph.implies(pair) and {t[0], t[1]} <= near and (pair.same or {*t} <= first | second)
        }
        assert once([tuple(one) for one in drawn]) <= expected
        assert len(drawn) <= limit
        assert bool(drawn) == bool(expected)


def group_of(n: int) -> ConstraintGraph:
    """n alike items, and one that is unlike them."""
    graph = ConstraintGraph()
    for i in range(1, n):
        graph.add(Pair(i - 1, i, True))
    graph.add(Pair(0, "other", False))
    return graph


@pytest.mark.parametrize("ask", ["variants", "completions"])
def test_a_seed_always_draws_the_same_again(ask: str) -> None:
    pair = Pair(2, 3, True)
    draws = [getattr(group_of(9), ask)(pair, 3, seed) for seed in (0, 0, 1, 2, 3)]
    assert draws[0] == draws[1]
    assert any(draw != draws[0] for draw in draws[2:])


def test_every_variant_is_as_likely_as_any_other() -> None:
    graph, rng = group_of(6), np.random.default_rng(0)
    drawn = Counter(one for _ in range(3000) for one in graph.variants(Triplet(0, 1, "other"), 1, rng))
    assert len(drawn) == 6 * 5 - 1
    assert chisquare(list(drawn.values())).pvalue > 1e-3


@pytest.mark.parametrize("ask", ["variants", "completions"])
def test_how_many_is_a_number(ask: str) -> None:
    with pytest.raises(InvalidInputError, match="'limit' parameter"):
        getattr(ConstraintGraph(), ask)(Pair(0, 1, True), -1)


# -- copies ----------------------------------------------------------------------------------------------------


@given(CONSTRAINTS, CONSTRAINTS, POLICIES, st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_a_copy_goes_on_as_the_graph_would_and_leaves_it_alone(
    constraints: list[Any], more: list[Any], policy: Any, seed: int
) -> None:
    *_, step = play(constraints, policy)
    graph, copy = step.graph, step.graph.copy()
    before = state(graph), graph._state.version
    assert (state(copy), copy._state.version) == before
    refused(copy, more)
    assert (state(graph), graph._state.version) == before
    refused(graph, more)
    assert (state(graph), graph._state.version) == (state(copy), copy._state.version)
    for constraint in constraints:
        assert graph.variants(constraint, 3, seed) == copy.variants(constraint, 3, seed)


@given(CONSTRAINTS, POLICIES)
def test_extending_is_adding_one_by_one(constraints: list[Any], policy: Any) -> None:
    one_by_one, extended = ConstraintGraph(policy), ConstraintGraph(policy)
    error = None
    try:
        extended.extend(iter(constraints))
    except ContradictionError as found:
        error = found
    assert repr(refused(one_by_one, constraints)) == repr(error)
    assert (state(extended), extended._state.version) == (state(one_by_one), one_by_one._state.version)


# -- each is as likely as any other --------------------------------------------------------------------------


def example() -> ConstraintGraph:
    graph = ConstraintGraph()
    for constraint in [Triplet(0, 1, 4), Pair(2, 3, True), Triplet(4, 5, 0), Pair(6, 2, False)]:
        graph.add(constraint)
    return graph


SOURCES: list[Callable[[], ImpliedConstraints[Any]]] = [
    lambda: example().implied_pairs,
    lambda: example().implied_triplets,
    lambda: example().add(Pair(1, 3, True)).new_pairs,
    lambda: example().add(Triplet(1, 3, 6)).new_triplets,
]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("limit", [1, 2])
def test_every_subset_is_as_likely_as_any_other(source: Callable[[], ImpliedConstraints[Any]], limit: int) -> None:
    implied = source()
    subsets = list(combinations(list(implied), limit))
    rng = np.random.default_rng(0)
    drawn = Counter(tuple(implied.sample(limit, rng)) for _ in range(20 * len(subsets) + 2000))
    assert len(subsets) > 3
    assert set(drawn) <= set(subsets)
    assert chisquare([drawn[subset] for subset in subsets]).pvalue > 1e-3


@pytest.mark.parametrize("kind", ["pairs", "triplets"])
def test_a_seed_always_draws_the_same(kind: Any) -> None:
    draws = [example().sample_implied(2, seed, kind=kind) for seed in (0, 0, 1, 2, 3)]
    assert draws[0] == draws[1]
    assert any(draw != draws[0] for draw in draws[2:])


def test_implied_draws_from_all_that_follows() -> None:
    graph = example()
    assert graph.sample_implied(5, 7) == graph.implied_pairs.sample(5, 7)
    assert graph.sample_implied(5, 7, kind="triplets") == graph.implied_triplets.sample(5, 7)


# -- much follows from little --------------------------------------------------------------------------------


def group(graph: ConstraintGraph, name: str, n: int) -> None:
    for i in range(1, n):
        graph.add(Pair((name, 0), (name, i), True))


def test_ten_billion_pairs_are_counted_and_drawn_without_listing() -> None:
    graph = ConstraintGraph()
    group(graph, "a", 100_000)
    group(graph, "b", 100_000)
    addition = graph.add(Pair(("a", 5), ("b", 7), False))
    assert len(addition.new_pairs) == 10**10 - 1
    assert addition.new_triplets.count == 2 * 10**10 * (10**5 - 1)
    drawn = addition.new_pairs.sample(5, 0)
    assert len(set(drawn)) == 5
    assert all(pair.first[0] == "a" and pair.second[0] == "b" and not pair.same for pair in drawn)


def test_more_triplets_than_64_bits_count_are_drawn_uniformly() -> None:
    graph = ConstraintGraph()
    graph.add(Pair(0, 1, False))
    # Components of sizes that nobody could list, by lengthening the lists themselves.
    n = 3_000_000
    for root, start in ((0, 2), (1, 2 + n)):
        graph._state.components.members[root].extend(range(start, start + n))
    graph._state.items.extend(range(2, 2 + 2 * n))
    graph._state.proofs.given.extend([{}] * (2 * n))
    assert graph.implied_triplets.count == 2 * (n + 1) * n * (n + 1) > 2**64
    anchors = np.array([t.anchor for t in graph.implied_triplets.sample(2000, 0)])
    assert chisquare(np.histogram(anchors, bins=10, range=(0, 2 * n + 2))[0]).pvalue > 1e-3


class CountingDict(dict[int, int]):
    """A component's edges that count how often they are walked."""

    walks = 0

    def __iter__(self) -> Iterator[int]:
        type(self).walks += 1
        return super().__iter__()

    def items(self) -> Any:
        type(self).walks += 1
        return super().items()

    def keys(self) -> Any:
        type(self).walks += 1
        return super().keys()


def test_adding_to_a_hub_never_walks_its_neighbours() -> None:
    graph = ConstraintGraph()
    for i in range(100_000):
        graph.add(Pair("hub", i, False))
    hub = graph._state.components.find(graph._state.numbers["hub"])
    graph._state.components.edges[hub] = CountingDict(graph._state.components.edges[hub])
    CountingDict.walks = 0
    for i in range(1000):
        graph.add(Pair("hub", f"like {i}", True))
        graph.add(Pair(f"like {i}", f"other {i}", False))
        graph.add(Triplet(f"like {i}", f"more {i}", i))
        graph.add(Pair(i, i + 1, True))
    assert CountingDict.walks == 0
    assert isinstance(
        graph._state.components.edges[graph._state.components.find(graph._state.numbers["hub"])], CountingDict
    )
    assert len(graph.add(Pair("hub", "last", True)).new_pairs) == 2000 + 100_000 + 1000


# -- closure -------------------------------------------------------------------------------------------------


def seeds_of(labels: list[int], kind: str, n: int, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    found: list[Any] = []
    while len(found) < n:
        a, p, q = rng.integers(len(labels), size=3).tolist()
        if kind == "pairs":
            found.append(Pair(a, p, labels[a] == labels[p]))
        elif labels[a] == labels[p] != labels[q] and a != p:
            found.append(Triplet(a, p, q))
    return found


LABELS = [0, 1, 0, 1, 2, 2, 0]


def key(constraint: Any) -> Any:
    return unordered(constraint) if isinstance(constraint, Pair) else constraint


def created(seeds: list[Any]) -> list[Any]:
    """By brute force: seeds, and right behind each all that it newly makes true and is no seed."""
    stream, said = [], []
    known: set[Any] = {key(seed) for seed in seeds}
    for seed in seeds:
        stream.append([key(seed)])
        said += statements(0, seed)
        now = close(said).triplets if isinstance(seed, Triplet) else close(said).pairs
        stream.append(now - known)
        known |= now
    return stream


@pytest.mark.parametrize("kind", ["pairs", "triplets"])
@given(n=st.integers(1, 12), draw=st.integers(0, 2**32), share=st.floats(0, 1))
@settings(max_examples=100, deadline=None)
def test_what_follows_stands_right_behind_the_seed_it_first_followed_from(
    kind: str, n: int, draw: int, share: float
) -> None:
    seeds = seeds_of(LABELS, kind, n, draw)
    expected = created(seeds)
    n_more = int(share * sum(map(len, expected[1::2])))
    stream = iter(closure(seeds, n_more, draw))
    more = 0
    now = next(stream)
    for seed, following in zip(seeds, expected[1::2], strict=True):
        assert now is seed
        behind = []
        for now in stream:
            if any(now is other for other in seeds):
                break
            behind.append(key(now))
        assert once(behind) <= following
        more += len(behind)
    assert more == n_more


@pytest.mark.parametrize("kind", ["pairs", "triplets"])
def test_each_that_follows_from_seeds_is_as_likely_as_any_other(kind: str) -> None:
    seeds = seeds_of(LABELS, kind, 8, 1)
    population = sorted(set().union(*created(seeds)[1::2]), key=str)
    rng = np.random.default_rng(0)
    drawn = Counter(key(c) for _ in range(100 * len(population)) for c in closure(seeds, 1, rng))
    assert len(population) > 3
    assert chisquare([drawn[one] for one in population]).pvalue > 1e-3


def test_a_seed_of_randomness_always_gives_the_same_stream() -> None:
    seeds = np.array([[0, 1, 2], [2, 3, 0], [4, 5, 1]])
    streams = [closure(seeds, 5, seed) for seed in (0, 0, 1, 2, 3)]
    np.testing.assert_array_equal(streams[0], streams[1])
    assert any((stream != streams[0]).any() for stream in streams[2:])


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, "U3"])
def test_an_array_of_triplets_gives_one(dtype: Any) -> None:
    seeds = np.array([[0, 1, 2], [2, 3, 0]]).astype(dtype)
    stream = closure(seeds, 3, 0)
    assert stream.dtype == seeds.dtype
    records = closure([Triplet(*row) for row in seeds.tolist()], 3, 0)
    assert [Triplet(*row) for row in stream.tolist()] == records


@pytest.mark.parametrize("y", [np.array([1, 1, -1]), np.array([1.0, 1.0, -1.0]), np.array([True, True, False])])
def test_pairs_and_labels_give_pairs_and_labels(y: Any) -> None:
    pairs = np.array([[0, 1], [1, 2], [2, 3]])
    more, labels = closure((pairs, y), 3, 0)
    assert (more.dtype, labels.dtype) == (pairs.dtype, y.dtype)
    records = closure([Pair(i, j, bool(v > 0)) for (i, j), v in zip(pairs.tolist(), y, strict=True)], 3, 0)
    assert [Pair(i, j, bool(v > 0)) for (i, j), v in zip(more.tolist(), labels, strict=True)] == records


def test_no_more_than_asked_for_are_the_seeds() -> None:
    seeds = np.array([[0, 1, 2], [2, 3, 0]])
    np.testing.assert_array_equal(closure(seeds, 0), seeds)
    assert closure(np.empty((0, 3), dtype=int), 0).shape == (0, 3)


def test_fewer_than_asked_for_is_an_error_that_counts() -> None:
    with pytest.raises(
        InvalidInputError, match=r"'n_more' parameter is 5, but 1 seeds imply only 1 triplets.*exact=False"
    ):
        closure(np.array([[0, 1, 2]]), 5)


def test_fewer_than_asked_for_can_be_had() -> None:
    assert closure(np.array([[0, 1, 2]]), 5, exact=False).tolist() == [[0, 1, 2], [1, 0, 2]]


def test_seeds_that_contradict_are_an_error_with_the_proof() -> None:
    with pytest.raises(ContradictionError) as caught:
        closure(np.array([[0, 1, 2], [2, 1, 5]]), 5)
    assert caught.value.chain == (GivenPair(0, 2, 0, False), GivenPair(0, 0, 1, True))


# -- errors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", [(0, 1, True), [0, 1, 2], "ab", None, np.array([0, 1, 2])], ids=repr)
def test_only_records_are_constraints(what: Any) -> None:
    with pytest.raises(InvalidTypeError, match="must be a Pair or a Triplet"):
        ConstraintGraph().add(what)


@pytest.mark.parametrize("constraint", [Pair(0, [1, 2], True), Pair({}, 0, False), Triplet(0, 1, np.zeros(2))])
def test_an_item_that_cannot_be_hashed_is_named_and_nothing_is_entered(constraint: Any) -> None:
    graph = ConstraintGraph()
    with pytest.raises(InvalidTypeError, match="must be hashable") as caught:
        graph.add(constraint)
    assert any(repr(item) in str(caught.value) for item in constraint)
    assert graph.n_items == 0


@pytest.mark.parametrize("same", [1, -1, 0, None, "yes"])
def test_a_pair_that_says_neither_true_nor_false_is_an_error(same: Any) -> None:
    with pytest.raises(InvalidTypeError, match="True or False"):
        ConstraintGraph().add(Pair(0, 1, same))


def test_numpys_truth_values_are_truth_values() -> None:
    graph = ConstraintGraph()
    graph.add(Pair(0, 1, np.True_))
    graph.add(Pair(0, 2, np.False_))
    assert list(graph.implied_pairs) == [Pair(1, 2, False)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ConstraintGraph("oldest"), "'policy' parameter of ConstraintGraph"),  # type: ignore[arg-type]
        (lambda: ConstraintGraph().sample_implied(-1), "'limit' parameter"),
        (lambda: ConstraintGraph().sample_implied(1.5), "'limit' parameter"),  # type: ignore[call-overload]
        (lambda: ConstraintGraph().sample_implied(1, kind="both"), "'kind' parameter"),  # type: ignore[call-overload]
        (lambda: ConstraintGraph().sample_implied(1, -1), "'random_state' parameter"),
        (lambda: closure(np.array([[0, 1, 2]]), -1), "'n_more' parameter"),
        (lambda: closure(np.zeros((2, 3, 4)), 1), r"\(n, 3\).*\(2, 3, 4\)"),
        (lambda: closure([[0, 1, 2], [0, 1]], 1), "rows of 3 items"),
        (lambda: closure((np.zeros((2, 3)), [1, 1]), 1), r"\(n, 2\).*\(2, 3\)"),
        (lambda: closure((np.zeros((2, 2)), [1, 1, 1]), 1), "labels of 2 pairs must have shape \\(2,\\)"),
        (lambda: closure((np.zeros((2, 2)), [1, 0]), 1), r"\+1 for similar and -1 for dissimilar"),
        (lambda: closure([Pair(0, 1, True), Triplet(0, 1, 2)], 1), "all Pair or all Triplet"),
    ],
)
def test_errors_say_what_was_expected(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_items_never_seen_are_known_to_be_like_themselves_only() -> None:
    graph = ConstraintGraph()
    assert graph.are_similar("x", "x")
    assert graph.proof("x", "x") == ()
    assert not graph.are_similar("x", "y")
    assert not graph.are_dissimilar("x", "y")
    assert graph.proof("x", "y") is None
    assert "x" not in graph


def test_a_graph_survives_pickling_and_goes_on() -> None:
    graph = example()
    twin = pickle.loads(pickle.dumps(graph))
    one, two = (list(islice(g.add(Pair(1, 3, True)).new_pairs, 100)) for g in (graph, twin))
    assert one == two
    assert state(graph) == state(twin)
