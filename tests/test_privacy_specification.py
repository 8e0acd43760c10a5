"""docs/privacy-specification.md agrees with the code: questions, formulas, costs, figures."""

from __future__ import annotations

import itertools
import math
import re
from fractions import Fraction
from typing import get_args

import numpy as np
import pytest

from dp_core.bundle.statement.release_json import NOT_COVERED
from dp_core.bundle.statement.spent_budget import MECHANISMS, QUESTIONS
from dp_core.errors import BadInput
from dp_core.kernel.cost.currency import Currency, Kind
from dp_core.kernel.extensions import DRAWN_CELLS, DRAWN_RECORDS, SPARSE_TABLE
from dp_core.kernel.extensions.cell_draws import CellDraws
from dp_core.kernel.extensions.column_draws import differing_draws
from dp_core.kernel.extensions.cosine_tails import CosineTails
from dp_core.kernel.extensions.cuts import CutDeviations
from dp_core.kernel.extensions.indif import InDif
from dp_core.kernel.extensions.minimisers import ClassMinimiser
from dp_core.kernel.extensions.mutual_information import MutualInformation
from dp_core.kernel.mechanisms.event_reading import event_from_json
from dp_core.kernel.mechanisms.grant import TABLE
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.counting_queries import Cells, Parities
from dp_core.kernel.questions.limited_sums import LimitedSums
from dp_core.kernel.questions.linear_questions import (
    CellSums,
    CosineSums,
    Interaction,
    KernelCounts,
    MiddleProducts,
)
from dp_core.kernel.questions.products import Products
from dp_core.kernel.questions.query_scores import QueryCounts
from dp_core.kernel.questions.regressions.features import ONE, Features, Levels, Number
from dp_core.kernel.questions.regressions.gradients import (
    COEFFICIENT,
    PROBABILITY,
    ClassGradient,
    NumberGradient,
)
from dp_core.kernel.questions.regressions.shortened import LONGEST, Scores, SecondMoments
from dp_core.kernel.questions.table_distance import TableChecks
from dp_core.kernel.questions.vetted import VETTED
from tests.privacy_specification import (
    AGE,
    EXAMPLES,
    GROUP,
    PAGE,
    PARTS,
    RELATIONS,
    ROOT,
    Example,
    largest_changes,
    page,
    parts_of,
)

TEXT = PAGE.read_text(encoding="utf-8")

_WIDE = Features((Number.line(name="x", positions=9, centre=1, reach=5, missing=True), GROUP))
_PRESENT = Features(
    (Number.line(name="x", positions=9, centre=1, reach=5), Levels(name="h", size=3))
)


def larger(row, ask, **more):
    """Return a question that is not searched, so that its parameters need no words and no file."""
    return Example(row, "", {}, ask, **more)


LARGER = (
    larger("cell-sums", CellSums(column="x", positions=1)),
    larger("cell-sums", CellSums(column="x", positions=1000)),
    larger("products, about the middle", MiddleProducts(columns=("x", "y"), positions=(1, 7))),
    larger("products, about the middle", MiddleProducts(columns=("x", "y"), positions=(300, 7))),
    larger(
        "products, about the cells",
        Products(columns=("x", "y"), positions=(300, 70), about="cells"),
    ),
    larger("cosine-sums", CosineSums(column="x", size=9, edges=(0, 3, 9), kept=1)),
    larger("cosine-sums", CosineSums(column="x", size=9, edges=(0, 3, 8), kept=1)),
    larger("cosine-sums", CosineSums(column="x", size=9, edges=(0, 2, 4, 9), kept=3)),
    larger("cosine-tails", CosineTails(column="x", edges=(0, 3, 9, 20), prices=(7,) * 3)),
    larger(
        "cut-deviations", CutDeviations(column="x", edges=(*range(9), 50), low=2, high=8, left=3)
    ),
    larger("interaction", Interaction(("a",), (2,))),
    larger("interaction", Interaction(("a",), (17,))),
    larger("interaction", Interaction(("a", "b"), (5, 9))),
    larger("interaction", Interaction(("a", "b", "c"), (2, 3, 4))),
    larger(
        "query-counts",
        QueryCounts(
            Cells(
                (("a", "b"), ("b", "a"), ("a",), (), ("a",), ("a", "b")),
                ((0, 1), (1, 0), (1,), (), (0,), (1, 1)),
            )
        ),
    ),
    larger(
        "query-counts",
        QueryCounts(
            Parities(
                (
                    *(c for k in range(4) for c in itertools.combinations("abcde", k)),
                    ("f", "g"),
                    ("g",),
                )
            )
        ),
    ),
    larger("indif", InDif((("a", "b"), ("a", "c"), ("b", "c")))),
    larger(
        "mutual-information",
        MutualInformation((("a", ("b",)), ("a", ("c",))), 1000, 10**6),
        relations=("replace-one",),
    ),
    larger(
        "mutual-information",
        MutualInformation((("a", ("b",)),), 77, 12345, binary=True),
        relations=("replace-one",),
    ),
    larger(
        "class-gradient",
        ClassGradient(column="y", classes=5, features=_WIDE, at=(COEFFICIENT,) * 16),
    ),
    larger("class-gradient", ClassGradient(column="y", classes=7, features=_WIDE, at=(0,) * 24)),
    larger("number-gradient", NumberGradient(target=AGE, features=Features(), at=(0,))),
    larger(
        "class-minimiser",
        ClassMinimiser(
            column="y", classes=5, features=Features((Levels(name="g", size=6),)), ridge=1000
        ),
    ),
    larger(
        "second-moments",
        SecondMoments(features=_PRESENT, transform=(COEFFICIENT,) * 400, length_limit=LONGEST),
    ),
    larger(
        "scores",
        Scores(
            outcome=Levels(name="y", size=7),
            features=_PRESENT,
            transform=(1,) * 12,
            at=(0,) * 24,
            length_limit=12_345,
        ),
    ),
    larger("table-checks", TableChecks((("a",),) * 5, (np.array([1, 2], np.int64),) * 5)),
)
"""Parameters that are too large for a search."""


# -- reading the page


def tables(text):
    """Yield the tables of a page as lists of rows, each a list of cells."""
    rows = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            yield [rows[0], *rows[2:]]
            rows = []


def table(first):
    """Return the rows of the table whose heading begins with some cells, by each name in a row."""
    (found,) = [rows for rows in tables(TEXT) if rows[0][: len(first)] == first]
    cells = [(name, row[1:]) for row in found[1:] for name in row[0].split("`, `")]
    named = {name.replace("`", ""): row for name, row in cells}
    assert len(named) == len(cells), "two rows have the same name"
    return named


SENSITIVITIES = table(["question", "entry, added or removed"])
DRAWS = table(["question", "what one record changes, added or removed"])
EVENTS = table(["mechanism"])


def evaluated(formula, symbols):
    """Return the value of a formula: a space multiplies, ^ raises to a power."""
    text = formula.replace("^", "**")
    text = re.sub(r"(?<=[\w)]) +(?=[\w(])", " * ", text)
    return eval(text, {"__builtins__": {}}, symbols)


def test_formulas_are_read_as_they_are_meant():
    symbols = {"g": 3, "w": 2, "m": 5, "max": max}
    assert evaluated("4 (g w)^2 m", symbols) == 4 * 36 * 5
    assert evaluated("max(1, 2 g - w) + 1", symbols) == 5


# -- what the symbols of the page are, without the code that the bounds are of


def symbols_of(ask):
    """Return the symbols of a row, from the definitions on the page."""
    found = {"m": 0 if ask is None else ask.length, "max": max, "ceil": math.ceil}
    found["root"] = math.isqrt
    match ask:
        case QueryCounts(queries=queries):
            found |= {"a": most_counted(queries, 1), "b": most_counted(queries, 2)}
        case MutualInformation(rows=n, grid=grid, binary=binary):
            less = (n - 1) * math.log2(n - 1)
            wide = (n + 1) * math.log2(n + 1) - less - 2
            found |= {"g": grid, "B": (n * math.log2(n) - less if binary else wide) / n}
        case CellSums(positions=positions):
            found |= {"r": positions - 1}
        case LimitedSums(lows=lows, highs=highs, centres=centres, factors=factors):
            cells = [*zip(lows, highs, centres, factors, strict=True)]
            most = max(f * max(abs(x - c) for x in (low, high)) for low, high, c, f in cells)
            span = max(f * (high - low) for low, high, _, f in cells)
            found |= {"u": max(1, most), "d": max(1, most, span), "q": min(2, len(cells))}
        case MiddleProducts(positions=(one, other)):
            found |= {"r": one - 1, "s": other - 1}
        case Products(columns=columns, positions=(one, other), sizes=sizes):
            several = columns[0] != columns[1] and math.prod(sizes) > 1
            found |= {"r": one - 1, "s": other - 1, "h": 2 if several else 1}
        case KernelCounts(weights=weights, bins=bins):
            places = range(bins)
            vectors = [
                [*(dict(enumerate(weights)).get(abs(g - b), 0) for g in places), 0] for b in places
            ]
            found |= of_vectors([*vectors, [0] * bins + [weights[0]]])
        case CosineSums(kept=kept, bins=n, missing=missing):
            vectors = [
                [
                    *(
                        round(2**20 * math.cos(math.pi * j * (2 * b + 1) / (2 * n)))
                        for j in range(kept)
                    ),
                    *[0] * missing,
                ]
                for b in range(n)
            ]
            found |= of_vectors([*vectors, *[[0] * kept + [2**20]] * missing])
        case CosineTails():
            found |= {"D": 2**20}
        case Interaction(sizes=sizes):
            found |= of_vectors(contrasts(sizes))
        case ClassGradient(classes=classes, features=features, at=at):
            q = PROBABILITY
            norms = (q, q**2) if classes == 2 else (2 * q, 2 * q**2)
            if not any(at):
                # Every class in turn is that of the record; the first has no residual.
                even = q // classes
                own = [[q * (y == c) - even for c in range(1, classes)] for y in range(classes)]
                norms = (
                    max(sum(map(abs, each)) for each in own),
                    max(sum(e * e for e in each) for each in own),
                )
            found |= {"R": norms[0], "S": norms[1], "F": 1 + len(features.all), "G": ONE}
        case NumberGradient(features=features):
            found |= {"F": 1 + len(features.all), "G": ONE}
        case ClassMinimiser(classes=classes, features=features, ridge=ridge):
            steepest = (1 if classes == 2 else 2) * (1 + len(features.all))
            steps = 2 ** (12 + len(f"{ridge:b}"))
            found["M"] = lambda s: (
                math.isqrt(math.ceil(Fraction(s * s * steepest * steps**2, ridge**2))) + 2
            )
        case SecondMoments(length_limit=limit):
            least = 2 * limit**2 + 8 * limit * math.ceil(math.sqrt(ask.length))
            found |= {"C": limit, "E": min(4 * limit**2, least)}
        case Scores(length_limit=limit):
            found |= {"C": limit}
        case None:
            pass
        case _:
            document = ask.to_json()
            names = {"grid": "g", "factor": "f", "weight": "w", "part": "j", "of": "o"}
            found |= {short: document[name] for name, short in names.items() if name in document}
    return found


def most_counted(queries, records):
    """Return `a` (for 1) or `b` (for 2) of a list of counting queries."""
    if isinstance(queries, Parities):
        columns = sorted({column for clique in queries.cliques for column in clique})
        if records == 1:
            return len(queries.cliques)
        return max(
            sum(len(set(clique) & set(t)) % 2 for clique in queries.cliques)
            for size in range(len(columns) + 1)
            for t in itertools.combinations(columns, size)
        )
    columns = sorted({column for clique in queries.of for column in clique})
    most = max(code for cell in queries.codes for code in cell)
    rows = itertools.product(range(most + 2), repeat=len(columns))
    counted = [
        [
            all(row[columns.index(name)] == code for name, code in zip(clique, cell, strict=True))
            for clique, cell in zip(queries.of, queries.codes, strict=True)
        ]
        for row in rows
    ]
    found = of_vectors(np.array(counted, dtype=int))
    return found["U" if records == 1 else "X"]


def contrasts(sizes):
    """Return the vector of every cell from the contrasts as the page defines them."""
    vectors = [[1]]
    for p in sizes:
        squared = 32 if p == 2 else max(32 * p, 2 ** min(12, 32 // len(sizes))) ** 2
        weights = [round(math.sqrt(squared / (j * (j + 1)))) for j in range(1, p)]
        rows = [
            [w * (1 if x < j else -j if x == j else 0) for j, w in enumerate(weights, start=1)]
            for x in range(p)
        ]
        vectors = [[a * b for a in u for b in row] for u in vectors for row in rows]
    return vectors


def of_vectors(vectors):
    """Return U, V, X and Y of a question with few vectors: their largest norms and distances."""
    each = np.array(vectors, dtype=object)
    apart = (each[:, None] - each).reshape(-1, each.shape[1])
    return {
        "U": np.abs(each).sum(axis=1).max(),
        "V": (each**2).sum(axis=1).max(),
        "X": max(1, np.abs(apart).sum(axis=1).max()),
        "Y": max(1, (apart**2).sum(axis=1).max()),
    }


# -- questions


def test_the_questions_of_the_page_are_those_of_the_code():
    named = {name.partition(",")[0] for name in SENSITIVITIES} | set(DRAWS)
    beyond = {str(TABLE["name"]), SPARSE_TABLE, DRAWN_RECORDS, DRAWN_CELLS}
    assert named == set(QUESTIONS)
    assert named == set(VETTED) | beyond
    assert set(DRAWS) == beyond - {"table"}
    assert {example.row for example in EXAMPLES} == set(SENSITIVITIES)


def test_every_question_is_described_with_a_proof():
    chapter = TEXT.partition("\n## Questions and")[2].partition("\n## How costs add up")[0]
    proofs = chapter.partition("\n### Tables of counts")[2]
    for name in QUESTIONS:
        # What is asked begins with the question's name; its proof follows in the same section.
        found = [part for part in proofs.split("\n### ") if re.search(rf"`{name}`:\s", part)]
        assert len(found) == 1, name
        assert "*Proof" in found[0].partition(f"`{name}`:")[2], name


@pytest.mark.parametrize("example", [*EXAMPLES, *LARGER], ids=lambda each: each.row)
def test_the_formulas_give_the_bounds_of_the_code(example):
    cells, symbols = SENSITIVITIES[example.row], symbols_of(example.ask)
    for relation, formulas in zip(RELATIONS, (cells[:3], cells[3:]), strict=True):
        if relation in example.relations:
            stated = tuple(evaluated(formula.strip("`"), symbols) for formula in formulas)
            assert stated == example.bounds(Relation(relation))
        else:
            assert formulas == ["refused"] * 3
            with pytest.raises(BadInput):
                example.bounds(Relation(relation))


@pytest.mark.parametrize("example", [*EXAMPLES, *LARGER], ids=lambda each: each.row)
def test_a_unit_of_several_rows_moves_an_answer_as_far_as_the_page_says(example):
    for relation, k in itertools.product(RELATIONS, (2, 5)):
        if example.relations != RELATIONS:
            with pytest.raises(BadInput):
                example.bounds(Relation(relation, k))
            continue
        steps = ["add-remove"] if relation == "add-remove" else RELATIONS
        ones = [example.bounds(Relation(step)) for step in steps]
        change, l1, l2_squared = (max(each) for each in zip(*ones, strict=True))
        expected = k * change, k * l1, k**2 * l2_squared
        assert example.bounds(Relation(relation, k)) == expected


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.row)
def test_no_small_file_has_a_neighbour_beyond_the_bounds(example):
    for relation in example.relations:
        found = largest_changes(example, relation)
        bounds = example.bounds(Relation(relation))
        assert all(one <= other for one, other in zip(found, bounds, strict=True))
        assert found[0] > 0, "the search compares files that give the same answer"


def test_the_search_finds_a_bound_that_is_too_small():
    """Half of most bounds is exceeded by a file of few records: the search can fail."""
    beyond = [
        example.row
        for example in EXAMPLES
        for relation in example.relations
        if 2 * largest_changes(example, relation)[1] > example.bounds(Relation(relation))[1]
    ]
    assert {"table", "cell-sums", "f-score", "interaction"} <= set(beyond)
    assert len(beyond) > len(EXAMPLES)


@pytest.mark.parametrize("relation", [Relation("add-remove"), Relation("replace-one")])
@pytest.mark.parametrize("sweeps", [1, 3])
def test_the_draws_that_can_differ_are_those_of_the_code(relation, sweeps):
    cell = 0 if relation.neighbours == "add-remove" else 1
    symbols = {"records": 7, "columns": 3, "sweeps": sweeps, "min": min}

    def stated(name):
        formula = re.findall("`([^`]*)` draws", DRAWS[name][cell] or "")
        if not formula:
            assert DRAWS[name][cell] == "the same"
            formula = re.findall("`([^`]*)` draws", DRAWS[name][0])
        return evaluated(formula[0], symbols)

    assert stated("drawn-records") == differing_draws(3, 7, sweeps, relation)
    drawn = CellDraws(("a",), 7, "independent", (None,), Fraction(1))
    assert stated("drawn-cells") == drawn.event(relation).draws


# -- events


EVENT_EXAMPLES = [
    {"mechanism": "discrete-laplace", "scale": "7/3", "l1_sensitivity": 2},
    {"mechanism": "discrete-gaussian", "scale": "19/2", "l2_sensitivity_squared": 32},
    {"mechanism": "noisy-max", "scale": "5", "sensitivity": 3, "noise": "gumbel"},
    {"mechanism": "noisy-max", "scale": "5", "sensitivity": 3, "noise": "exponential"},
    {
        "mechanism": "stability-histogram",
        "scale": "2",
        "l1_sensitivity": 4,
        "threshold": 50,
        "rows": 4,
    },
    {
        "mechanism": "stability-histogram",
        "scale": "9",
        "l1_sensitivity": 3,
        "threshold": 5,
        "rows": 3,
    },
    {"mechanism": "perturbed-draws", "scale": "31/2", "draws": 12, "rows": 3},
    {"mechanism": "polya-urn", "scale": "200", "records": 12, "rows": 3},
]


def cost_of(formula, values):
    """Return the cost that a formula of the page gives, None if it does not apply to the event."""
    formula = formula.partition(";")[0]
    choices, *definitions = formula.split(", e = ")
    symbols = {**values, "ln": math.log}
    if definitions:
        defined, _, condition = definitions[0].partition(", ")
        symbols["e"] = evaluated(defined, symbols)
        if condition and values["noise"] not in condition:
            return None
    if " where noise is " in choices:
        first, _, rest = choices.partition(" where noise is ")
        word, _, other = rest.partition(", ")
        choices = first if values["noise"] == word else other.removesuffix(" otherwise")
    return evaluated(choices, symbols)


@pytest.mark.parametrize("values", EVENT_EXAMPLES, ids=lambda values: values["mechanism"])
@pytest.mark.parametrize("kind", get_args(Kind))
def test_the_cost_of_an_event_is_that_of_the_code(values, kind):
    event = event_from_json(values)
    currency = Currency(kind, Fraction(1), Fraction(1, 2))
    cell = EVENTS[values["mechanism"]][get_args(Kind).index(kind)]
    numbers = {"rows": 1, **values, "scale": Fraction(values["scale"])}
    stated = None if cell == "refused" else cost_of(cell.strip("`"), numbers)
    if stated is None:
        with pytest.raises(ValueError, match=r"no cost|not purely"):
            currency.cost(event)
    else:
        assert float(currency.cost(event)) == pytest.approx(float(stated), rel=1e-12)


@pytest.mark.parametrize("values", EVENT_EXAMPLES, ids=lambda values: values["mechanism"])
def test_an_own_delta_is_the_probability_that_the_page_states(values):
    own = event_from_json(values).own_delta()
    stated = EVENTS[values["mechanism"]][len(get_args(Kind))]
    if values["mechanism"] != "stability-histogram":
        assert (own, stated) == (0, "0")
        return
    assert stated.startswith("the larger of s(rows) and rows s(1), ")
    assert "s(c) = a^(threshold - c) / (1 + a), a = exp(-1 / scale)" in stated
    a = math.exp(-1 / float(Fraction(values["scale"])))
    k, t = values["rows"], values["threshold"]
    kept = {c: a ** (t - c) / (1 + a) for c in (1, k)}
    assert float(own) == pytest.approx(max(kept[k], k * kept[1]), rel=1e-12)


def test_the_mechanisms_of_the_page_are_those_of_the_code():
    assert set(EVENTS) == set(MECHANISMS) == {values["mechanism"] for values in EVENT_EXAMPLES}


# -- the page


def test_the_computed_parts_are_what_the_code_gives():
    assert parts_of(TEXT) == list(PARTS)
    assert page() == TEXT, "Run: make trusted-page"


def test_every_test_that_the_page_names_is_there():
    named = re.findall(r"tests/[\w/]+(?:\.py)?", TEXT)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_what_a_statement_does_not_cover_is_on_the_page():
    """Each sentence of a statement's `not_covered` begins with the subject of an item."""
    chapter = TEXT.partition("\n## Outside epsilon\n")[2].partition("\n## ")[0]
    items = re.findall(r"^- \*\*(.+?)\*\*", chapter, re.M)
    subjects = {
        "That this release exists": "Existence.",
        "Refused attempts": "Refusals and attempts.",
        "Guessed files": "Guessed files.",
        "The choice among draws": "Choice among draws.",
        "An internal look": "Choices of people.",
        "Other releases": "Other releases.",
        "What the schema says": "The schema and the spec.",
        "How the file was written": "Programs before the release.",
        "What the population has in common": "The population.",
    }
    assert {text.partition(".")[0] for text in NOT_COVERED} == set(subjects)
    assert set(subjects.values()) <= set(items)


@pytest.mark.parametrize(
    "situation",
    [
        "a release that was refused",
        "a home that was copied",
        "a ledger that was restored",
        "a ledger that was deleted",
    ],
)
def test_the_page_says_what_an_attacker_learns_from(situation):
    chapter = TEXT.partition(f"\n### From {situation}\n")[2].partition("\n### ")[0]
    assert re.search(r"\*Learned[^*]*:\*", chapter)
    assert "*Noticed:*" in chapter


def test_every_other_situation_has_an_answer():
    assert all(all(cells) for cells in table(["situation"]).values())
