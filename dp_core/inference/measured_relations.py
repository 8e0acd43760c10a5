"""Relations of an analysis that no measured table covers, so that the sets do not have them.

A model of tables learns the relation between columns from a table with all of them. Otherwise it
assumes a relation (mostly conditional independence), and no combining rule corrects that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from dp_core.kernel.counting.domain import Clique
from dp_core.tables.cliques import with_larger
from dp_core.tables.nested_columns import NestedColumns

_MOST_LISTED = 6
"""Most groups that a sentence names."""


def needed_groups(
    outcome: Sequence[str], terms: Sequence[Sequence[str]]
) -> tuple[tuple[str, ...], ...]:
    """Return the groups of columns whose joint distribution an analysis needs.

    These are all pairs of outcome and predictors and, for an interaction, all its columns with the
    outcome.

    Args:
        outcome: Columns of the outcome.
        terms: Columns of each term; a term without columns (the intercept) is ignored.

    >>> needed_groups(["y"], [["a"], ["b"], ["a", "b"]])
    (('y', 'a'), ('y', 'b'), ('a', 'b'), ('y', 'a', 'b'))
    """
    predictors = list(dict.fromkeys(name for term in terms for name in term))
    columns = list(dict.fromkeys([*outcome, *predictors]))
    if len(columns) == 1:
        return ((columns[0],),)
    groups = [tuple(pair) for pair in combinations(columns, 2)]
    for term in terms:
        whole = tuple(dict.fromkeys([*outcome, *term]))
        if len(whole) > 2 and len(set(term)) > 1:
            groups.append(whole)
    return tuple(dict.fromkeys(groups))


def unmeasured_groups(
    groups: Sequence[tuple[str, ...]],
    cliques: Mapping[int, Sequence[Clique]],
    nested: NestedColumns | None = None,
) -> tuple[tuple[str, ...], ...]:
    """Return the groups that no measured table covers, in their order.

    Args:
        groups: Groups of columns.
        cliques: Columns of every measured table, by the number of its set; 0 for all sets. If sets
            have tables of their own, a group must be covered for each set.
        nested: Columns that lie within one another: a table of smaller areas also covers the larger
            ones. None by default.

    >>> unmeasured_groups([("y", "a"), ("y", "b")], {0: [("a", "y", "c")]})
    (('y', 'b'),)
    """
    held = {
        number: [frozenset(each if nested is None else with_larger(nested, each)) for each in found]
        for number, found in cliques.items()
    }
    # With hundreds of columns there are tens of thousands of pairs, so those are looked up.
    pairs = {
        number: {frozenset(pair) for clique in found for pair in combinations(clique, 2)}
        for number, found in held.items()
    }

    def has(number: int, group: frozenset[str]) -> bool:
        if len(group) == 2:
            return group in pairs[number]
        return any(group <= clique for clique in held[number])

    def covered(group: frozenset[str]) -> bool:
        own = [number for number in held if number]
        shared = 0 in held and has(0, group)
        return shared or (bool(own) and all(has(number, group) for number in own))

    return tuple(group for group in groups if not covered(frozenset(group)))


def unmeasured_sentence(missing: Sequence[tuple[str, ...]]) -> str:
    """Return a sentence about the groups that no measured table covers; empty without any.

    >>> unmeasured_sentence([("income", "age"), ("income", "sex", "age")])[:64]
    'No measured table holds income with age, or income, sex and age '
    """
    if not missing:
        return ""
    return (
        f"No measured table holds {list_groups(missing)}: there the sets follow the model's"
        " assumption, not the file, and no interval covers that error."
    )


def list_groups(groups: Sequence[tuple[str, ...]]) -> str:
    """Return groups of columns in words, at most six of them.

    >>> list_groups([("income", "age"), ("income", "sex", "age")])
    'income with age, or income, sex and age together'
    """
    named = [_group(group) for group in groups[:_MOST_LISTED]]
    if len(groups) > _MOST_LISTED:
        named.append(f"{len(groups) - _MOST_LISTED} more")
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])}, or {named[-1]}"


def _group(group: Sequence[str]) -> str:
    if len(group) == 1:
        return group[0]
    if len(group) == 2:
        return f"{group[0]} with {group[1]}"
    return f"{', '.join(group[:-1])} and {group[-1]} together"
