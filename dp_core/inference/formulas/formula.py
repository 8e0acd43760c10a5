"""Reading of formulas: parsing, finding the columns, and an error message for every mistake."""

from __future__ import annotations

import ast
import keyword
import math
import re
import tokenize
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dp_core.errors import BadInput, nearest
from dp_core.inference.formulas.factors import Factor
from dp_core.inference.formulas.grammar import (
    LEARNING,
    MAX_DEPTH,
    MAX_LENGTH,
    function_of,
    parse,
    read_factor,
    text_of,
)
from dp_core.schema.definition import Schema

MAX_TERMS = 2_000
MAX_FACTORS = 8
"""Largest number of columns of one interaction, because patsy examines all its subsets."""

_HOW = "write it as in 'income ~ age + C(sex)', in quotes"


@dataclass(frozen=True, slots=True, eq=False)
class Formula:
    """A formula whose columns all exist.

    Attributes:
        text: The formula as it is fitted.
        outcome: Left side in patsy's spelling.
        outcome_columns: Columns of the left side.
        terms: Columns of each term of the right side; none for the intercept.
        by_level: Columns that are used directly; a categorical one has a coefficient per level.
        description: patsy's `ModelDesc`, with factors that are computed without `eval`.
        learns: Functions in the formula that estimate something from the rows, such as a mean.
    """

    text: str
    outcome: str
    outcome_columns: tuple[str, ...]
    terms: tuple[tuple[str, ...], ...]
    by_level: tuple[str, ...]
    description: Any
    learns: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, the outcome's first."""
        found = [*self.outcome_columns, *(name for term in self.terms for name in term)]
        return tuple(dict.fromkeys(found))


def read_formula(text: str, columns: Sequence[str]) -> Formula:
    """Return a formula, in the language of R and patsy.

    R's `factor(x)`, names in backticks and the dot for all other columns are understood.

    Args:
        text: The formula as typed.
        columns: Columns of the synthetic sets.

    Raises:
        BadInput: if it does not parse, uses anything that `grammar` does not list, or names an
            unknown column.
    """
    # privacy: a spec's formula meets the file, so it is read as a formula and never run as Python.
    _check_size(text)
    text = _in_patsys_words(text.strip(), columns)
    _check_sides(text)
    text = _without_dot(text, columns)
    described = _model_description(text)
    left = described.lhs_termlist
    if len(left) != 1 or len(left[0].factors) != 1:
        raise BadInput(
            f"The formula {text!r:.120} must have exactly one outcome on its left; sums of columns"
            " go into I(...), as in 'I(a + b) ~ c'."
        )
    outcome = left[0].factors[0].code
    terms, by_level = [], []
    for term in described.rhs_termlist:
        used: list[str] = []
        for factor in term.factors:
            _, found = read_factor(factor.code, columns, text)
            used += found
            if len(found) == 1 and is_column(factor.code, found[0]):
                by_level.append(found[0])
        terms.append(tuple(dict.fromkeys(used)))
    _, outcome_columns = read_factor(outcome, columns, text)
    if not outcome_columns:
        raise BadInput(f"The left side of {text!r:.120} names no column of the release.")
    if len(outcome_columns) == 1 and is_column(outcome, outcome_columns[0]):
        by_level.append(outcome_columns[0])
    both = [name for name in outcome_columns if any(name in term for term in terms)]
    if both:
        raise BadInput(f"Column {both[0]!r} stands on both sides of the formula {text!r:.120}.")
    if not terms:
        raise BadInput(f"The right side of {text!r:.120} is empty; the mean alone is '~ 1'.")
    return Formula(
        text=text,
        outcome=outcome,
        outcome_columns=outcome_columns,
        terms=tuple(terms),
        by_level=tuple(dict.fromkeys(by_level)),
        description=compared_with(described, {}),
        learns=_learning(described),
    )


def check_factors(formula: Formula, columns: Sequence[str]) -> None:
    """Check, before it is computed, that a formula uses only what `grammar` lists.

    Args:
        formula: Formula from any source.
        columns: Columns of the rows that it will be computed on.

    Raises:
        BadInput: for the first factor that uses anything else.
    """
    for factor in _factors(formula.description):
        if not isinstance(factor, Factor):
            raise BadInput(f"The formula {formula.text!r:.120} was not read as one.")
        read_factor(factor.code, columns, formula.text)


def check_levels(formula: Formula, levels: Mapping[str, Sequence[str]]) -> None:
    """Check that categories are compared with existing levels only; others occur in no row.

    These are the levels of comparisons, and the reference levels of `Treatment`.

    Args:
        formula: A formula from `read_formula`.
        levels: Levels of each categorical column.

    Raises:
        BadInput: for an unknown level; the message names the most similar one.
    """
    for code in {factor.code for factor in _factors(formula.description)}:
        for node in ast.walk(parse(code, formula.text)):
            for column, value in _compared(node):
                name = _name_of(column)
                if name not in levels or not isinstance(value, ast.Constant):
                    continue
                if value.value not in levels[name]:
                    near = nearest(str(value.value), levels[name])
                    quotes = "" if isinstance(value.value, str) else "; levels are texts, in quotes"
                    raise BadInput(f"{name} has no level {value.value!r}{quotes}.{near}")


def _compared(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """Return what a comparison compares, both ways, or a category and its stated reference."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
        return [(node.left, node.comparators[0]), (node.comparators[0], node.left)]
    if not isinstance(node, ast.Call) or function_of(node) != "C":
        return []
    codings = [*node.args[1:], *(each.value for each in node.keywords)]
    stated = [each for each in codings if isinstance(each, ast.Call)]
    levels = [
        level
        for each in stated
        if function_of(each) == "Treatment"
        for level in (*each.args, *(one.value for one in each.keywords))
    ]
    return [(node.args[0], level) for level in levels]


def _name_of(node: ast.expr) -> str:
    """Return the name of the column if an expression is one, otherwise an empty text."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call) and function_of(node) == "Q":
        return text_of(node) or ""
    return ""


def _factors(description: Any) -> list[Any]:
    terms = [*description.lhs_termlist, *description.rhs_termlist]
    return [factor for term in terms for factor in term.factors]


def _learning(description: Any) -> tuple[str, ...]:
    found = {
        function_of(node)
        for factor in _factors(description)
        for node in ast.walk(parse(factor.code, factor.code))
        if isinstance(node, ast.Call)
    }
    return tuple(sorted(found & LEARNING))


def compared_with(description: Any, references: Mapping[str, str]) -> Any:
    """Return patsy's description with `Factor` objects in place of factors that it would `eval`.

    Args:
        description: patsy's `ModelDesc`.
        references: Level with which those of a column are compared if the formula names no other.
    """
    from patsy import ModelDesc, Term

    def ours(terms: Sequence[Any]) -> list[Any]:
        return [
            Term([Factor(one.code, one.origin, references) for one in term.factors])
            for term in terms
        ]

    return ModelDesc(ours(description.lhs_termlist), ours(description.rhs_termlist))


def _check_size(text: str) -> None:
    """Raise BadInput for a text that is too long or too deeply nested to parse."""
    if len(text) > MAX_LENGTH:
        raise BadInput(
            f"The formula has {len(text):,} characters; {MAX_LENGTH:,} are the most. '.' stands for"
            " all other columns."
        )
    depth = deepest = 0
    for sign in text:
        depth += (sign in "([{") - (sign in ")]}")
        deepest = max(deepest, depth)
    if deepest > MAX_DEPTH:
        raise BadInput(
            f"The formula {text!r:.80} has {deepest} brackets inside one another; {MAX_DEPTH} are"
            " the most."
        )
    if not text.isprintable() and not text.replace("\n", " ").replace("\t", " ").isprintable():
        raise BadInput(f"The formula {text!r:.120} has signs that cannot be printed; {_HOW}.")


def _model_description(text: str) -> Any:
    """Return patsy's `ModelDesc` of a formula whose terms can be counted.

    Raises:
        BadInput: if there are no terms, or too many.
    """
    from patsy import ModelDesc, PatsyError
    from patsy.parse_formula import parse_formula

    try:
        tree = parse_formula(text)
        _check_powers(tree, text)
        terms, factors = _size(tree)
        if terms <= MAX_TERMS and factors <= MAX_FACTORS:
            return ModelDesc.from_formula(text)
    except (RecursionError, MemoryError):
        reason = "it is too deep"
    except (
        *(PatsyError, SyntaxError, ValueError, TypeError, tokenize.TokenError),
        *(AssertionError, LookupError, ArithmeticError),
    ) as error:
        reason = str(error).splitlines()[0][:120] if str(error) else "it is no formula"
    else:
        raise BadInput(
            f"The formula {text!r:.120} has more than {MAX_TERMS:,} terms, or more than"
            f" {MAX_FACTORS} columns in one interaction; write out those that matter."
        )
    if (last := text.rstrip()[-1:]) in ("~", "+", "-", "*", ":", "/"):
        raise BadInput(f"In the formula {text!r:.120} a column is missing after the last {last}.")
    raise BadInput(f"The formula {text!r:.120} does not parse ({reason}); {_HOW}.")


def _check_powers(tree: Any, text: str) -> None:
    """Raise BadInput for a power of one column, which formulas read as the column itself."""
    if tree.type == "**" and not tree.args[0].args:
        name, power = (each.token.extra for each in tree.args)
        raise BadInput(
            f"In the formula {text!r:.120}, {name}**{power} would be {name} itself; the power is"
            f" written I({name}**{power})."
        )
    for each in tree.args:
        _check_powers(each, text)


def _size(tree: Any) -> tuple[int, int]:
    """Return bounds on the number of terms that patsy makes of a tree, and of their factors.

    >>> from patsy.parse_formula import parse_formula
    >>> _size(parse_formula("y ~ (a + b + c)**2"))
    (7, 2)
    """
    if not tree.args:
        return 1, 1
    if tree.type == "**":
        count, factors = _size(tree.args[0])
        number = tree.args[1].token.extra if not tree.args[1].args else None
        power = min(int(number), count) if number and number.isdigit() else 1
        # Sums of binomial coefficients, because repeated terms are merged.
        terms = 0
        for size in range(1, power + 1):
            terms += math.comb(count, size)
            if terms > MAX_TERMS:
                break
        return terms, min(factors * power, MAX_FACTORS + 1)
    sizes = [_size(one) for one in tree.args]
    if len(sizes) == 1:
        return sizes[0]
    (left, inner), (right, outer) = sizes
    largest = max(inner, outer)
    if tree.type == ":":
        return left * right, inner + outer
    if tree.type == "*":
        return left + right + left * right, inner + outer
    if tree.type == "/":
        return left + right, left * inner + outer
    return left + right, largest


def _in_patsys_words(text: str, columns: Sequence[str]) -> str:
    for quote in ("'", '"'):  # quotes that the shell did not remove
        if len(text) > 1 and text[0] == text[-1] == quote and text.count(quote) == 2:
            text = text[1:-1].strip()
    text = re.sub(r"`([^`]+)`", lambda found: f"Q({found.group(1)!r})", text)
    if "factor" not in columns:
        text = re.sub(r"\b(?:as\.)?factor\(", "C(", text)
    return text


def _check_sides(text: str) -> None:
    if not text:
        raise BadInput(f"The formula is empty; {_HOW}.")
    if text.count("~") == 1 and not text.startswith("~"):
        return
    if text.startswith("~"):
        raise BadInput(f"The formula {text!r:.120} has no outcome on its left; {_HOW}.")
    if "~" in text:
        raise BadInput(f"The formula {text!r:.120} has more than one '~'; {_HOW}.")
    if re.search(r"(?<![=!<>])=(?!=)", text):
        raise BadInput(f"The formula {text!r:.120} has '=' where '~' belongs; {_HOW}.")
    raise BadInput(f"The formula {text!r:.120} has no '~'; {_HOW}.")


def _without_dot(text: str, columns: Sequence[str]) -> str:
    """Return a formula with R's dot written out: all columns that are not in the outcome."""
    left, right = text.split("~")
    dot = r"(?<![\w.)\]])\.(?![\w.])"
    if not re.search(dot, right):
        return text
    outside = [name for name in columns if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", left)]
    written = " + ".join(map(written_name, outside))
    return f"{left.strip()} ~ {re.sub(dot, lambda _: f'({written})', right).strip()}"


def written_name(name: str) -> str:
    """Return a column as it is written in a formula.

    >>> written_name("age"), written_name("hours a week")
    ('age', "Q('hours a week')")
    """
    plain = name.isidentifier() and not keyword.iskeyword(name)
    return name if plain else f"Q({name!r})"


def is_column(code: str, column: str) -> bool:
    """Return whether a factor is the column as it is, or C(column) with its levels as they are."""
    node = parse(code, code)
    if isinstance(node, ast.Call) and function_of(node) == "C":
        named = {each.arg for each in node.keywords}
        if len(node.args) > 2 or not named <= {"contrast"}:
            return False
        node = node.args[0]
    return _name_of(node) == column


def check_formula(formula: str, schema: Schema) -> None:
    """Check that a formula can be compared between a file and its synthetic sets.

    Raises:
        BadInput: if it is not a formula, names an unknown column or one whose levels are chosen
            privately (the file has other levels), or uses a function that learns from the rows (a
            coefficient would have another meaning in the file).
    """
    read = read_formula(formula, schema.names)
    for column in schema.private:
        if column.levels and column.name in read.columns:
            raise BadInput(
                f"The formula {formula!r:.120} uses {column.name!r}, whose levels are chosen"
                " privately and differ between file and sets; remove it, or state its levels in the"
                " schema."
            )
    if read.learns:
        raise BadInput(
            f"The formula {formula!r:.120} uses {read.learns[0]}, which learns from the rows, so"
            " that file and sets would have other coefficients; write the numbers, as in"
            " I((age - 40) / 10)."
        )


def named_columns(schema: Schema, formulas: Sequence[str]) -> list[str]:
    """Return the columns that formulas name, in the schema's order."""
    columns = schema.names
    named = {name for formula in formulas for name in read_formula(formula, columns).columns}
    return [name for name in columns if name in named]
