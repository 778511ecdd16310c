"""The constraint graph against the four rules of the paper, applied by brute force."""

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

from oahu.constraints import (
    AddResult,
    Click,
    ConstraintGraph,
    GivenPair,
    ImpliedConstraints,
    Pair,
    Triplet,
    closure,
)
from oahu.exceptions import ContradictionError, InvalidInputError, InvalidTypeError

N = 7
ITEMS = st.integers(0, N - 1)
PAIRS = st.builds(Pair, ITEMS, ITEMS, st.booleans())
TRIPLETS = st.builds(Triplet, ITEMS, ITEMS, ITEMS)
CONSTRAINTS = st.lists(st.one_of(PAIRS, TRIPLETS), min_size=1, max_size=14)
POLICIES = st.sampled_from(["raise", "ignore", "newest"])


# -- the oracle: all relations in two matrices, and a list of given pairs --------------------------------


class Closure(NamedTuple):
    similar: np.ndarray[Any, Any]
    dissimilar: np.ndarray[Any, Any]

    @property
    def consistent(self) -> bool:
        return not (self.similar & self.dissimilar).any()

    @property
    def pairs(self) -> set[tuple[frozenset[int], bool]]:
        return {
            (frozenset(pair), same)
            for pair in combinations(range(N), 2)
            for same, holds in ((True, self.similar), (False, self.dissimilar))
            if holds[pair]
        }

    @property
    def triplets(self) -> set[tuple[int, int, int]]:
        return {t for t in permutations(range(N), 3) if self.similar[t[0], t[1]] and self.dissimilar[t[0], t[2]]}


def close(pairs: list[GivenPair]) -> Closure:
    """Apply the four rules until nothing changes."""
    similar, dissimilar = np.eye(N, dtype=bool), np.zeros((N, N), dtype=bool)
    for _, i, j, same in pairs:
        relation = similar if same else dissimilar
        relation[i, j] = relation[j, i] = True
    while True:
        more = Closure(similar | similar @ similar, dissimilar | similar @ dissimilar | dissimilar @ similar)
        if (more.similar == similar).all() and (more.dissimilar == dissimilar).all():
            return more
        similar, dissimilar = more


def statements(number: int, constraint: Pair | Triplet) -> list[GivenPair]:
    pairs = constraint.pairs if isinstance(constraint, Triplet) else (constraint,)
    return [GivenPair(number, *pair) for pair in pairs]


def apply_policy(policy: str, given_pairs: list[GivenPair], new: list[GivenPair]) -> list[GivenPair]:
    """Return the given pairs after ``new``, recomputed from the newest to the oldest."""
    if close(given_pairs + new).consistent:
        return given_pairs + new
    if policy != "newest" or not close(new).consistent:
        return given_pairs
    kept = list(new)
    for one in sorted(given_pairs, key=lambda pair: (-pair.number, not pair.same)):
        if close([*kept, one]).consistent:
            kept.append(one)
    return sorted(kept, key=lambda pair: pair.number)


class Step(NamedTuple):
    graph: ConstraintGraph
    constraint: Pair | Triplet
    addition: AddResult | None  # None if there was an error
    error: ContradictionError | None
    before: list[GivenPair]
    after: list[GivenPair]
    new: list[GivenPair]


def replay(constraints: list[Pair | Triplet], policy: Any) -> Iterator[Step]:
    """Add constraints to the graph and to the oracle, one by one."""
    graph, given_pairs, number = ConstraintGraph(policy), [], 0
    for constraint in constraints:
        new = statements(number, constraint)
        before, given_pairs = given_pairs, apply_policy(policy, given_pairs, new)
        try:
            addition, error = graph.add(constraint), None
        except ContradictionError as add_until_error:
            addition, error = None, add_until_error
        yield Step(graph, constraint, addition, error, before, given_pairs, new)
        number += error is None


def unordered(pair: Any) -> tuple[frozenset[int], bool]:
    return frozenset((pair.first, pair.second)), bool(pair.same)


def as_set_without_duplicates(found: list[Any]) -> set[Any]:
    """Return a set; fail if there are duplicates."""
    assert len(set(found)) == len(found)
    return set(found)


def relations(graph: ConstraintGraph) -> Closure:
    similar = [[graph.are_similar(i, j) for j in range(N)] for i in range(N)]
    dissimilar = [[graph.are_dissimilar(i, j) for j in range(N)] for i in range(N)]
    return Closure(np.array(similar), np.array(dissimilar))


def state(graph: ConstraintGraph) -> Any:
    """Return the observable state of a graph."""
    why = [graph.proof(i, j) for i in range(N) for j in range(N)]
    return (
        list(graph.implied_pairs),
        list(graph.implied_triplets),
        graph.components(),
        len(graph),
        graph.n_items,
        why,
    )


# -- relations -------------------------------------------------------------------------------------------


@given(CONSTRAINTS, POLICIES)
@settings(max_examples=50)
def test_relations_are_those_of_the_four_rules(constraints: list[Any], policy: str) -> None:
    for step in replay(constraints, policy):
        expected, found = close(step.after), relations(step.graph)
        np.testing.assert_array_equal(found.similar, expected.similar)
        np.testing.assert_array_equal(found.dissimilar, expected.dissimilar)


@given(CONSTRAINTS, POLICIES)
@settings(max_examples=50)
def test_components_are_the_groups_of_similar_items(constraints: list[Any], policy: str) -> None:
    for step in replay(constraints, policy):
        named = [item for group in step.graph.components() for item in group]
        assert len(named) == len(set(named)) == step.graph.n_items
        assert all(item in step.graph for item in named)
        similar = close(step.after).similar
        for group in step.graph.components():
            assert set(group) == set(np.flatnonzero(similar[group[0]]).tolist())


@given(CONSTRAINTS, POLICIES)
@settings(max_examples=50)
def test_len_is_the_number_of_distinct_given_pairs(constraints: list[Any], policy: str) -> None:
    for step in replay(constraints, policy):
        given_pairs = {unordered(pair) for pair in step.after if pair.first != pair.second}
        assert len(step.graph) == len(given_pairs)


@given(CONSTRAINTS, POLICIES)
@settings(max_examples=50)
def test_implied_constraints_are_the_closure_without_the_given_ones(constraints: list[Any], policy: str) -> None:
    triplets: set[Any] = set()
    for step in replay(constraints, policy):
        if isinstance(step.constraint, Triplet) and step.addition and step.addition.accepted:
            triplets.add(step.constraint)
    given_pairs = {unordered(pair) for pair in step.after}
    expected = close(step.after)
    given = {t for t in triplets if {unordered(pair) for pair in t.pairs} <= given_pairs}
    assert (
        as_set_without_duplicates([unordered(pair) for pair in step.graph.implied_pairs])
        == expected.pairs - given_pairs
    )
    assert as_set_without_duplicates(list(step.graph.implied_triplets)) == expected.triplets - given
    assert len(step.graph.implied_pairs) == len(expected.pairs - given_pairs)
    assert len(step.graph.implied_triplets) == len(expected.triplets - given)


# -- new constraints -------------------------------------------------------------------------------------


@given(CONSTRAINTS, POLICIES)
@settings(max_examples=50)
def test_new_pairs_are_those_that_hold_now_and_did_not_before(constraints: list[Any], policy: str) -> None:
    for step in replay(constraints, policy):
        if step.addition is not None:
            own = {unordered(pair) for pair in step.new}
            expected = close(step.after).pairs - close(step.before).pairs - own
            assert as_set_without_duplicates([unordered(pair) for pair in step.addition.new_pairs]) == expected
            assert len(step.addition.new_pairs) == len(expected)
            assert bool(step.addition.new_pairs) == bool(expected)


@given(CONSTRAINTS, POLICIES)
@settings(max_examples=50)
def test_new_triplets_are_those_that_hold_now_and_did_not_before(constraints: list[Any], policy: str) -> None:
    for step in replay(constraints, policy):
        if step.addition is not None:
            own = {step.constraint} if isinstance(step.constraint, Triplet) else set()
            expected = close(step.after).triplets - close(step.before).triplets - own
            assert as_set_without_duplicates(list(step.addition.new_triplets)) == expected
            assert len(step.addition.new_triplets) == len(expected)


@given(CONSTRAINTS, POLICIES, st.integers(0, 40), st.integers(0, 2**32))
@settings(max_examples=50)
def test_a_sample_is_a_subset_in_the_order_of_iteration(
    constraints: list[Any], policy: str, limit: int, seed: int
) -> None:
    for step in replay(constraints, policy):
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
def test_a_view_of_new_pairs_is_stale_after_the_next_add(ask: Callable[[Any], Any]) -> None:
    graph = ConstraintGraph()
    pairs = graph.add(Triplet(0, 1, 2)).new_pairs
    graph.add(Pair(5, 6, True))
    with pytest.raises(InvalidInputError, match="before the next add"):
        ask(pairs)


@pytest.mark.parametrize("kind", ["pairs", "triplets"])
def test_a_result_is_stale_after_the_next_add(kind: str) -> None:
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


# -- contradictions --------------------------------------------------------------------------------------


def proves(chain: tuple[GivenPair, ...], pair: Any, given_pairs: list[GivenPair]) -> bool:
    """Return whether the links are given, connect the two items, and imply the opposite of the pair."""
    available = {(given.number, *unordered(given)) for given in given_pairs}
    ends = [pair.first, *(link.second for link in chain)]
    return (
        all((link.number, *unordered(link)) in available for link in chain)
        and [link.first for link in chain] == ends[:-1]
        and ends[-1] == pair.second
        and [link.same for link in chain].count(False) == int(pair.same)
    )


def numbered(given_pairs: list[GivenPair], policy: str) -> list[GivenPair]:
    """Return each pair with one number: the newest with policy "newest", else the oldest."""
    by_pair = {unordered(pair): pair for pair in (given_pairs if policy == "newest" else reversed(given_pairs))}
    return list(by_pair.values())


@given(CONSTRAINTS, POLICIES)
@settings(max_examples=50)
def test_a_contradiction_is_found_if_and_only_if_the_constraints_are_inconsistent(
    constraints: list[Any], policy: str
) -> None:
    for step in replay(constraints, policy):
        contradicts = not close(step.before + step.new).consistent
        add_until_error = contradicts and (policy != "newest" or not close(step.new).consistent)
        assert (step.error is not None) == (add_until_error and policy != "ignore")
        if step.addition is not None:
            assert (step.addition.contradiction is not None) == contradicts
            assert step.addition.accepted == (not add_until_error)


@given(CONSTRAINTS, POLICIES)
@settings(max_examples=50)
def test_the_chain_of_a_contradiction_is_a_proof(constraints: list[Any], policy: str) -> None:
    contradictions: list[tuple[Any, Any, list[GivenPair]]] = []
    for step in replay(constraints, policy):
        known = numbered(step.before, policy) + step.new
        if step.error is not None:
            assert any(proves(step.error.chain, pair, known) for pair in step.new)
            assert step.error.constraint is step.constraint
        elif step.addition is not None and step.addition.contradiction is not None:
            contradictions.append((step.addition.contradiction, step.constraint, known))
    for contradiction, constraint, known in contradictions:  # read after more constraints were added
        assert contradiction.constraint is constraint
        assert contradiction.pair in [Pair(*pair[1:]) for pair in statements(0, constraint)]
        assert proves(contradiction.chain, contradiction.pair, known)


@given(CONSTRAINTS, POLICIES)
@settings(max_examples=50)
def test_proof_returns_a_proof(constraints: list[Any], policy: str) -> None:
    step = list(replay(constraints, policy))[-1]
    holds, given_pairs = close(step.after), numbered(step.after, policy)
    for i in range(N):
        for j in range(N):
            chain = step.graph.proof(i, j)
            if holds.similar[i, j] or holds.dissimilar[i, j]:
                assert chain is not None
                assert proves(chain, Pair(i, j, not holds.similar[i, j]), given_pairs)
            else:
                assert chain is None


@given(CONSTRAINTS)
@settings(max_examples=50)
def test_policy_newest_reports_the_dropped_pairs(constraints: list[Any]) -> None:
    for step in replay(constraints, "newest"):
        if step.addition is not None:
            kept = {unordered(pair) for pair in step.after}
            gone = [pair for pair in numbered(step.before, "newest") if unordered(pair) not in kept]
            gone.sort(key=lambda pair: (pair.number, not pair.same))
            dropped = step.addition.dropped
            assert [(d.number, *unordered(d)) for d in dropped] == [(g.number, *unordered(g)) for g in gone]


@given(CONSTRAINTS, st.sampled_from(["raise", "ignore"]))
@settings(max_examples=50)
def test_a_rejected_constraint_changes_nothing(constraints: list[Any], policy: Any) -> None:
    graph, accepted = ConstraintGraph(policy), ConstraintGraph(policy)
    for constraint in constraints:
        before = state(graph)
        try:
            given_pairs = graph.add(constraint).accepted
        except ContradictionError:
            given_pairs = False
        if not given_pairs:
            assert state(graph) == before
        elif policy == "raise":  # with "ignore", ignored constraints are numbered too
            accepted.add(constraint)
            assert state(graph) == state(accepted)


@given(CONSTRAINTS)
@settings(max_examples=50)
def test_policies_ignore_and_raise_give_the_same_graph(constraints: list[Any]) -> None:
    graphs = [[step.graph for step in replay(constraints, policy)] for policy in ("raise", "ignore")]
    raising, ignoring = (found[-1] for found in graphs)
    assert list(raising.implied_pairs) == list(ignoring.implied_pairs)
    assert list(raising.implied_triplets) == list(ignoring.implied_triplets)


def test_constraints_that_raise_get_no_number() -> None:
    clash = [Pair(0, 1, True), Pair(0, 1, False), Pair(1, 2, True)]
    ignoring, raising = ConstraintGraph("ignore"), ConstraintGraph()
    assert [ignoring.add(constraint).number for constraint in clash] == [0, 1, 2]
    raising.add(clash[0])
    with pytest.raises(ContradictionError):
        raising.add(clash[1])
    assert raising.add(clash[2]).number == 1


@pytest.mark.parametrize("impossible", [Pair(0, 0, False), Triplet(0, 1, 1), Triplet(0, 1, 0), Triplet(0, 0, 0)])
@pytest.mark.parametrize("policy", ["raise", "newest"])
def test_a_constraint_that_contradicts_itself_is_an_error(impossible: Any, policy: Any) -> None:
    graph = ConstraintGraph(policy)
    with pytest.raises(ContradictionError):
        graph.add(impossible)
    assert graph.n_items == 0


def chain_of(n: int) -> ConstraintGraph:
    graph = ConstraintGraph()
    for i in range(n):
        graph.add(Pair(f"i{i}", f"i{i + 1}", True))
    return graph


def test_the_message_shows_the_proof() -> None:
    with pytest.raises(ContradictionError) as caught:
        chain_of(2).add(Pair("i0", "i2", False))
    assert str(caught.value).startswith(
        "Constraint #2 states that 'i0' and 'i2' are dissimilar, but they are similar: "
        "#0 states that 'i0' and 'i1' are similar; #1 states that 'i1' and 'i2' are similar."
    )


def test_a_long_proof_is_shortened_in_the_message_only() -> None:
    with pytest.raises(ContradictionError) as caught:
        chain_of(1000).add(Pair("i0", "i1000", False))
    assert "; ... 990 more ...; " in str(caught.value)
    assert len(caught.value.chain) == 1000


def test_a_contradiction_can_be_pickled() -> None:
    with pytest.raises(ContradictionError) as caught:
        chain_of(3).add(Triplet("i0", "new", "i3"))
    twin = pickle.loads(pickle.dumps(caught.value))
    assert (str(twin), twin.constraint, twin.chain) == (
        str(caught.value),
        caught.value.constraint,
        caught.value.chain,
    )


# -- first_contradiction ---------------------------------------------------------------------------------


def first_inconsistent(given_pairs: list[GivenPair], batch: list[Any], begin: int) -> int | None:
    """Return by brute force the first constraint of a batch that contradicts the ones before it."""
    pairs = list(given_pairs)
    for at, constraint in enumerate(batch):
        pairs += statements(begin + at, constraint)
        if not close(pairs).consistent:
            return at
    return None


@given(CONSTRAINTS, CONSTRAINTS, POLICIES)
@settings(max_examples=50)
def test_first_contradiction_finds_the_first_inconsistent_constraint(
    constraints: list[Any], batch: list[Any], policy: str
) -> None:
    *_, step = replay(constraints, policy)
    begin = step.graph._state.version
    found = step.graph.first_contradiction(batch)
    at = first_inconsistent(step.after, batch, begin)
    assert (None if found is None else found.number) == (None if at is None else begin + at)
    assert found is None or found.constraint is batch[found.number - begin]


def add_until_error(graph: ConstraintGraph, batch: list[Any]) -> ContradictionError | None:
    """Add one by one; return the error, if any."""
    try:
        for constraint in batch:
            graph.add(constraint)
    except ContradictionError as error:
        return error
    return None


@given(CONSTRAINTS, CONSTRAINTS)
@settings(max_examples=50)
def test_first_contradiction_agrees_with_adding_one_by_one(constraints: list[Any], batch: list[Any]) -> None:
    *_, step = replay(constraints, "raise")
    found = step.graph.first_contradiction(iter(batch))
    error = add_until_error(step.graph, batch)
    assert (found is None) == (error is None)
    if found is not None and error is not None:
        assert found.constraint is error.constraint
        assert found.number == step.graph._state.version


@given(CONSTRAINTS, CONSTRAINTS, POLICIES)
@settings(max_examples=50)
def test_first_contradiction_has_a_proof(constraints: list[Any], batch: list[Any], policy: str) -> None:
    *_, step = replay(constraints, policy)
    begin = step.graph._state.version
    found = step.graph.first_contradiction(batch)
    if found is not None:
        before = [pair for at, one in enumerate(batch) for pair in statements(begin + at, one)]
        known = numbered(step.after, policy) + [pair for pair in before if pair.number <= found.number]
        assert found.pair in [Pair(*pair[1:]) for pair in statements(0, found.constraint)]
        assert proves(found.chain, found.pair, known)


@given(CONSTRAINTS, CONSTRAINTS, POLICIES)
@settings(max_examples=50)
def test_first_contradiction_adds_nothing(constraints: list[Any], batch: list[Any], policy: str) -> None:
    *_, step = replay(constraints, policy)
    before, number = state(step.graph), step.graph._state.version
    step.graph.first_contradiction(batch)
    assert (state(step.graph), step.graph._state.version) == (before, number)


def test_a_proof_does_not_change_when_the_graph_grows() -> None:
    graph = chain_of(2)
    found = graph.first_contradiction([Pair("i0", "i2", False)])
    graph.add(Pair("i0", "other", False))
    assert found is not None
    assert found.chain == (GivenPair(0, "i0", "i1", True), GivenPair(1, "i1", "i2", True))


def test_first_contradiction_does_not_iterate_over_the_edges_of_a_hub() -> None:
    graph = ConstraintGraph()
    for i in range(1000):
        graph.add(Pair("hub", i, False))
    hub = graph._state.components.find(graph._state.numbers["hub"])
    graph._state.components.edges[hub] = CountingDict(graph._state.components.edges[hub])
    CountingDict.iterations = 0
    found = graph.first_contradiction([Pair("hub", "new", True), Pair("new", 7, True)])
    assert CountingDict.iterations == 0
    assert found is not None
    assert found.number == 1001


def test_first_contradiction_rejects_other_types() -> None:
    with pytest.raises(InvalidTypeError, match="must be a Pair, a Triplet or a Click"):
        ConstraintGraph().first_contradiction([Pair(0, 1, True), (0, 1, True)])  # type: ignore[list-item]


@given(CONSTRAINTS, POLICIES)
@settings(max_examples=50)
def test_similar_to_returns_the_component(constraints: list[Any], policy: str) -> None:
    for step in replay(constraints, policy):
        holds = close(step.after)
        for item in range(N):
            similar = set(np.flatnonzero(holds.similar[item]).tolist()) - {item}
            assert as_set_without_duplicates(step.graph.similar_to(item)) == similar


# -- variants and completions ----------------------------------------------------------------------------


def all_variants(holds: Closure, constraint: Any) -> set[Any]:
    """Return all variants by brute force."""
    like = [np.flatnonzero(holds.similar[item]).tolist() for item in constraint[:3] if type(item) is int]
    if isinstance(constraint, Triplet):
        return {t for t in product(*like) if t[0] != t[1]} - {tuple(constraint)}
    return {frozenset(pair) for pair in product(*like) if pair[0] != pair[1]} - {frozenset(constraint[:2])}


@given(CONSTRAINTS, POLICIES, st.integers(0, 6), st.integers(0, 99))
@settings(max_examples=50)
def test_variants_replace_items_by_similar_ones(constraints: list[Any], policy: str, limit: int, seed: int) -> None:
    *_, step = replay(constraints, policy)
    for constraint in constraints:
        drawn = step.graph.variants(constraint, limit, seed)
        given_pairs = step.graph.implies(constraint)
        expected = all_variants(close(step.after), constraint) if given_pairs else set()
        pairs = isinstance(constraint, Pair)
        assert as_set_without_duplicates([frozenset(one[:2]) if pairs else tuple(one) for one in drawn]) <= expected
        assert len(drawn) <= limit
        assert {type(one) for one in drawn} <= {type(constraint)}
        assert all(step.graph.implies(one) for one in drawn)


@given(CONSTRAINTS, POLICIES, st.integers(1, 6), st.integers(0, 99))
@settings(max_examples=50)
def test_completions_are_implied_triplets_and_exist_if_any_do(
    constraints: list[Any], policy: str, limit: int, seed: int
) -> None:
    *_, step = replay(constraints, policy)
    holds = close(step.after)
    for pair in (one for one in constraints if isinstance(one, Pair)):
        drawn = step.graph.completions(pair, limit, seed)
        first, second = (set(np.flatnonzero(holds.similar[item]).tolist()) for item in pair[:2])
        near = first if pair.same else first | second
        expected = {
            t
            for t in holds.triplets
            if step.graph.implies(pair) and {t[0], t[1]} <= near and (pair.same or {*t} <= first | second)
        }
        assert as_set_without_duplicates([tuple(one) for one in drawn]) <= expected
        assert len(drawn) <= limit
        assert bool(drawn) == bool(expected)


def group_of(n: int) -> ConstraintGraph:
    """Return a graph of n similar items and one that is dissimilar to them."""
    graph = ConstraintGraph()
    for i in range(1, n):
        graph.add(Pair(i - 1, i, True))
    graph.add(Pair(0, "other", False))
    return graph


@pytest.mark.parametrize("ask", ["variants", "completions"])
def test_variants_and_completions_depend_only_on_the_seed(ask: str) -> None:
    pair = Pair(2, 3, True)
    draws = [getattr(group_of(9), ask)(pair, 3, seed) for seed in (0, 0, 1, 2, 3)]
    assert draws[0] == draws[1]
    assert any(draw != draws[0] for draw in draws[2:])


def test_variants_are_uniform() -> None:
    graph, rng = group_of(6), np.random.default_rng(0)
    drawn = Counter(one for _ in range(3000) for one in graph.variants(Triplet(0, 1, "other"), 1, rng))
    assert len(drawn) == 6 * 5 - 1
    assert chisquare(list(drawn.values())).pvalue > 1e-3


@pytest.mark.parametrize("ask", ["variants", "completions"])
def test_an_invalid_limit_is_rejected(ask: str) -> None:
    with pytest.raises(InvalidInputError, match="'limit' parameter"):
        getattr(ConstraintGraph(), ask)(Pair(0, 1, True), -1)


# -- copies ----------------------------------------------------------------------------------------------


@given(CONSTRAINTS, CONSTRAINTS, POLICIES, st.integers(0, 99))
@settings(max_examples=50)
def test_a_copy_is_equal_and_independent(constraints: list[Any], more: list[Any], policy: Any, seed: int) -> None:
    *_, step = replay(constraints, policy)
    graph, copy = step.graph, step.graph.copy()
    before = state(graph), graph._state.version
    assert (state(copy), copy._state.version) == before
    add_until_error(copy, more)
    assert (state(graph), graph._state.version) == before
    add_until_error(graph, more)
    assert (state(graph), graph._state.version) == (state(copy), copy._state.version)
    for constraint in constraints:
        assert graph.variants(constraint, 3, seed) == copy.variants(constraint, 3, seed)


@given(CONSTRAINTS, POLICIES)
def test_extend_equals_adding_one_by_one(constraints: list[Any], policy: Any) -> None:
    one_by_one, extended = ConstraintGraph(policy), ConstraintGraph(policy)
    error = None
    try:
        extended.extend(iter(constraints))
    except ContradictionError as found:
        error = found
    assert repr(add_until_error(one_by_one, constraints)) == repr(error)
    assert (state(extended), extended._state.version) == (state(one_by_one), one_by_one._state.version)


# -- sampling --------------------------------------------------------------------------------------------


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
def test_samples_are_uniform_over_subsets(source: Callable[[], ImpliedConstraints[Any]], limit: int) -> None:
    implied = source()
    subsets = list(combinations(list(implied), limit))
    rng = np.random.default_rng(0)
    drawn = Counter(tuple(implied.sample(limit, rng)) for _ in range(20 * len(subsets) + 2000))
    assert len(subsets) > 3
    assert set(drawn) <= set(subsets)
    assert chisquare([drawn[subset] for subset in subsets]).pvalue > 1e-3


@pytest.mark.parametrize("kind", ["pairs", "triplets"])
def test_samples_depend_only_on_the_seed(kind: Any) -> None:
    draws = [example().sample_implied(2, seed, kind=kind) for seed in (0, 0, 1, 2, 3)]
    assert draws[0] == draws[1]
    assert any(draw != draws[0] for draw in draws[2:])


def test_sample_implied_draws_from_all_implied_constraints() -> None:
    graph = example()
    assert graph.sample_implied(5, 7) == graph.implied_pairs.sample(5, 7)
    assert graph.sample_implied(5, 7, kind="triplets") == graph.implied_triplets.sample(5, 7)


# -- large numbers ---------------------------------------------------------------------------------------


def group(graph: ConstraintGraph, name: str, n: int) -> None:
    for i in range(1, n):
        graph.add(Pair((name, 0), (name, i), True))


@pytest.mark.slow
def test_ten_billion_pairs_are_counted_and_sampled_without_listing() -> None:
    graph = ConstraintGraph()
    group(graph, "a", 100_000)
    group(graph, "b", 100_000)
    addition = graph.add(Pair(("a", 5), ("b", 7), False))
    assert len(addition.new_pairs) == 10**10 - 1
    assert addition.new_triplets.count == 2 * 10**10 * (10**5 - 1)
    drawn = addition.new_pairs.sample(5, 0)
    assert len(set(drawn)) == 5
    assert all(pair.first[0] == "a" and pair.second[0] == "b" and not pair.same for pair in drawn)


def test_more_than_two_to_the_64_triplets_are_sampled_uniformly() -> None:
    graph = ConstraintGraph()
    graph.add(Pair(0, 1, False))
    # Make the components large by extending their lists directly.
    n = 3_000_000
    for root, start in ((0, 2), (1, 2 + n)):
        graph._state.components.members[root].extend(range(start, start + n))
    graph._state.items.extend(range(2, 2 + 2 * n))
    graph._state.proofs.given.extend([{}] * (2 * n))
    assert graph.implied_triplets.count == 2 * (n + 1) * n * (n + 1) > 2**64
    anchors = np.array([t.anchor for t in graph.implied_triplets.sample(2000, 0)])
    assert chisquare(np.histogram(anchors, bins=10, range=(0, 2 * n + 2))[0]).pvalue > 1e-3


class CountingDict(dict[int, int]):
    """Edges of a component that count how often they are iterated over."""

    iterations = 0

    def __iter__(self) -> Iterator[int]:
        type(self).iterations += 1
        return super().__iter__()

    def items(self) -> Any:
        type(self).iterations += 1
        return super().items()

    def keys(self) -> Any:
        type(self).iterations += 1
        return super().keys()


def test_add_does_not_iterate_over_the_edges_of_a_hub() -> None:
    graph = ConstraintGraph()
    for i in range(100_000):
        graph.add(Pair("hub", i, False))
    hub = graph._state.components.find(graph._state.numbers["hub"])
    graph._state.components.edges[hub] = CountingDict(graph._state.components.edges[hub])
    CountingDict.iterations = 0
    for i in range(1000):
        graph.add(Pair("hub", f"like {i}", True))
        graph.add(Pair(f"like {i}", f"other {i}", False))
        graph.add(Triplet(f"like {i}", f"more {i}", i))
        graph.add(Pair(i, i + 1, True))
    assert CountingDict.iterations == 0
    assert isinstance(
        graph._state.components.edges[graph._state.components.find(graph._state.numbers["hub"])], CountingDict
    )
    assert len(graph.add(Pair("hub", "last", True)).new_pairs) == 2000 + 100_000 + 1000


# -- closure ---------------------------------------------------------------------------------------------


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


def implied_after_each_seed(seeds: list[Any]) -> list[Any]:
    """Return by brute force each seed, followed by the constraints that it newly implies."""
    stream, pairs = [], []
    known: set[Any] = {key(seed) for seed in seeds}
    for seed in seeds:
        stream.append([key(seed)])
        pairs += statements(0, seed)
        now = close(pairs).triplets if isinstance(seed, Triplet) else close(pairs).pairs
        stream.append(now - known)
        known |= now
    return stream


@pytest.mark.parametrize("kind", ["pairs", "triplets"])
@given(n=st.integers(1, 12), draw=st.integers(0, 2**32), share=st.floats(0, 1))
@settings(max_examples=50)
def test_an_implied_constraint_follows_the_seed_that_first_implies_it(
    kind: str, n: int, draw: int, share: float
) -> None:
    seeds = seeds_of(LABELS, kind, n, draw)
    expected = implied_after_each_seed(seeds)
    n_implied = int(share * sum(map(len, expected[1::2])))
    stream = iter(closure(seeds, n_implied, draw))
    more = 0
    now = next(stream)
    for seed, following in zip(seeds, expected[1::2], strict=True):
        assert now is seed
        behind = []
        for now in stream:
            if any(now is other for other in seeds):
                break
            behind.append(key(now))
        assert as_set_without_duplicates(behind) <= following
        more += len(behind)
    assert more == n_implied


@pytest.mark.parametrize("kind", ["pairs", "triplets"])
def test_closure_is_uniform_over_implied_constraints(kind: str) -> None:
    seeds = seeds_of(LABELS, kind, 8, 1)
    population = sorted(set().union(*implied_after_each_seed(seeds)[1::2]), key=str)
    rng = np.random.default_rng(0)
    drawn = Counter(key(c) for _ in range(100 * len(population)) for c in closure(seeds, 1, rng))
    assert len(population) > 3
    assert chisquare([drawn[one] for one in population]).pvalue > 1e-3


def test_closure_depends_only_on_the_seed() -> None:
    seeds = np.array([[0, 1, 2], [2, 3, 0], [4, 5, 1]])
    streams = [closure(seeds, 5, seed) for seed in (0, 0, 1, 2, 3)]
    np.testing.assert_array_equal(streams[0], streams[1])
    assert any((stream != streams[0]).any() for stream in streams[2:])


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, "U3"])
def test_closure_of_an_array_is_an_array(dtype: Any) -> None:
    seeds = np.array([[0, 1, 2], [2, 3, 0]]).astype(dtype)
    stream = closure(seeds, 3, 0)
    assert stream.dtype == seeds.dtype
    records = closure([Triplet(*row) for row in seeds.tolist()], 3, 0)
    assert [Triplet(*row) for row in stream.tolist()] == records


@pytest.mark.parametrize("y", [np.array([1, 1, -1]), np.array([1.0, 1.0, -1.0]), np.array([True, True, False])])
def test_closure_of_pairs_and_labels_is_pairs_and_labels(y: Any) -> None:
    pairs = np.array([[0, 1], [1, 2], [2, 3]])
    more, labels = closure((pairs, y), 3, 0)
    assert (more.dtype, labels.dtype) == (pairs.dtype, y.dtype)
    records = closure([Pair(i, j, bool(v > 0)) for (i, j), v in zip(pairs.tolist(), y, strict=True)], 3, 0)
    assert [Pair(i, j, bool(v > 0)) for (i, j), v in zip(more.tolist(), labels, strict=True)] == records


def test_closure_with_nothing_to_add_returns_the_seeds() -> None:
    seeds = np.array([[0, 1, 2], [2, 3, 0]])
    np.testing.assert_array_equal(closure(seeds, 0), seeds)
    assert closure(np.empty((0, 3), dtype=int), 0).shape == (0, 3)


def test_too_few_implied_constraints_are_an_error_with_both_numbers() -> None:
    with pytest.raises(
        InvalidInputError, match=r"'n_implied' parameter is 5, but 1 seeds imply only 1 triplets.*exact=False"
    ):
        closure(np.array([[0, 1, 2]]), 5)


def test_exact_false_returns_fewer() -> None:
    assert closure(np.array([[0, 1, 2]]), 5, exact=False).tolist() == [[0, 1, 2], [1, 0, 2]]


def test_seeds_that_contradict_are_an_error_with_the_proof() -> None:
    with pytest.raises(ContradictionError) as caught:
        closure(np.array([[0, 1, 2], [2, 1, 5]]), 5)
    assert caught.value.chain == (GivenPair(0, 2, 0, False), GivenPair(0, 0, 1, True))


# -- errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", [(0, 1, True), [0, 1, 2], "ab", None, np.array([0, 1, 2])], ids=repr)
def test_other_types_are_rejected(what: Any) -> None:
    with pytest.raises(InvalidTypeError, match="must be a Pair, a Triplet or a Click"):
        ConstraintGraph().add(what)


@pytest.mark.parametrize("constraint", [Pair(0, [1, 2], True), Pair({}, 0, False), Triplet(0, 1, np.zeros(2))])
def test_an_unhashable_item_is_named_and_nothing_is_added(constraint: Any) -> None:
    graph = ConstraintGraph()
    with pytest.raises(InvalidTypeError, match="must be hashable") as caught:
        graph.add(constraint)
    assert any(repr(item) in str(caught.value) for item in constraint)
    assert graph.n_items == 0


@pytest.mark.parametrize("same", [1, -1, 0, None, "yes"])
def test_a_label_that_is_not_boolean_is_rejected(same: Any) -> None:
    with pytest.raises(InvalidTypeError, match="True or False"):
        ConstraintGraph().add(Pair(0, 1, same))


def test_numpy_booleans_are_accepted() -> None:
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
        (lambda: closure(np.array([[0, 1, 2]]), -1), "'n_implied' parameter"),
        (lambda: closure(np.zeros((2, 3, 4)), 1), r"\(n, 3\).*\(2, 3, 4\)"),
        (lambda: closure([[0, 1, 2], [0, 1]], 1), "rows of 3 items"),
        (lambda: closure((np.zeros((2, 3)), [1, 1]), 1), r"\(n, 2\).*\(2, 3\)"),
        (lambda: closure((np.zeros((2, 2)), [1, 1, 1]), 1), "labels of 2 pairs must have shape \\(2,\\)"),
        (lambda: closure((np.zeros((2, 2)), [1, 0]), 1), r"\+1 for similar and -1 for dissimilar"),
        (lambda: closure([Pair(0, 1, True), Triplet(0, 1, 2)], 1), "all Pair or all Triplet"),
    ],
)
def test_errors_state_what_was_expected(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_unknown_items_are_similar_only_to_themselves() -> None:
    graph = ConstraintGraph()
    assert graph.are_similar("x", "x")
    assert graph.proof("x", "x") == ()
    assert not graph.are_similar("x", "y")
    assert not graph.are_dissimilar("x", "y")
    assert graph.proof("x", "y") is None
    assert "x" not in graph


def test_a_graph_can_be_pickled_and_continued() -> None:
    graph = example()
    twin = pickle.loads(pickle.dumps(graph))
    one, two = (list(islice(g.add(Pair(1, 3, True)).new_pairs, 100)) for g in (graph, twin))
    assert one == two
    assert state(graph) == state(twin)


# -- clicks ----------------------------------------------------------------------------------------------


def state_of(graph: ConstraintGraph) -> Any:
    return graph.components(), sorted(map(repr, graph.implied_pairs)), len(graph), graph.n_items


@st.composite
def streams_with_clicks(draw: st.DrawFn) -> list[Any]:
    stream: list[Any] = []
    for _ in range(draw(st.integers(1, 6))):
        items = draw(st.permutations(range(7)))
        n_positives, n_negatives = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        click = Click(items[0], items[1 : 1 + n_positives], items[3 : 3 + n_negatives], items[5:])
        stream.append(click if n_positives + n_negatives else Triplet(*items[:3]))
    return stream


@given(stream=streams_with_clicks(), policy=st.sampled_from(["ignore", "newest"]))
def test_a_click_is_added_as_its_pairs(stream: list[Any], policy: Any) -> None:
    by_pairs, by_clicks, extended = (ConstraintGraph(policy) for _ in range(3))
    for constraint in stream:
        parts = constraint.pairs if isinstance(constraint, Click) else (constraint,)
        expected = [by_pairs.add(part) for part in parts]
        result: Any = by_clicks.add(constraint)
        results = result if isinstance(constraint, Click) else (result,)
        assert [(r.constraint, r.number, r.accepted, r.dropped) for r in results] == [
            (r.constraint, r.number, r.accepted, r.dropped) for r in expected
        ]
    extended.extend(stream)
    assert state_of(by_pairs) == state_of(by_clicks) == state_of(extended)


@given(stream=streams_with_clicks(), extend=st.booleans())
def test_a_contradicting_click_raises_and_changes_nothing(stream: list[Any], extend: bool) -> None:
    graph = ConstraintGraph()
    for constraint in stream:
        before, found = state_of(graph), graph.first_contradiction([constraint])
        add: Any = graph.extend if extend else graph.add
        argument = [constraint] if extend else constraint
        if found is None:
            add(argument)
            assert graph.implies(constraint)
            continue
        with pytest.raises(ContradictionError) as caught:
            add(argument)
        assert (str(caught.value), state_of(graph)) == (str(found), before)


@pytest.mark.parametrize(
    ("click", "message"),
    [
        (Click("q"), "The click must have at least one positive or one negative"),
        (Click("q", ["a"], ["a"]), "the item 'a' occurs twice"),
        (Click("q", ["a"], weight=2), "'weight' must be a number"),
        (Click([0.5], ["a"]), "must be hashable"),
        (Click("q", ["a", ["b"]]), "must be hashable"),
    ],
)
def test_an_invalid_click_changes_nothing(click: Click, message: str) -> None:
    graph = ConstraintGraph()
    for call in (graph.add, graph.implies, lambda c: graph.extend([c]), lambda c: graph.first_contradiction([c])):
        with pytest.raises(InvalidInputError, match=message):
            call(click)  # type: ignore[operator]
    assert (graph.n_items, len(graph)) == (0, 0)
