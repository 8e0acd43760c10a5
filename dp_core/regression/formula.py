"""A formula as it was typed: parsed, its columns found, every mistake one sentence."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dp_core.errors import BadInput, nearest

FUNCTIONS: dict[str, Any] = {
    "np": np,
    **{
        name: getattr(np, name)
        for name in ("log", "log2", "log10", "log1p", "exp", "sqrt", "where", "minimum", "maximum")
    },
    "abs": abs,
}
"""What a formula may use besides the columns and patsy's own C, Q, I, bs, center and so on."""

_HOW = "write it as in 'income ~ age + C(sex)', in quotes"


@dataclass(frozen=True, slots=True, eq=False)
class Formula:
    """A formula that names columns there are.

    Attributes:
        text: As it is fitted.
        outcome: Left side, as patsy spells it.
        outcome_columns: Columns in it.
        terms: Columns of each term of the right side; none for the intercept.
        by_level: Columns that stand by themselves: if categories, with something for each level.
        description: patsy's `ModelDesc`.
    """

    text: str
    outcome: str
    outcome_columns: tuple[str, ...]
    terms: tuple[tuple[str, ...], ...]
    by_level: tuple[str, ...]
    description: Any

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, the outcome's first."""
        found = [*self.outcome_columns, *(name for term in self.terms for name in term)]
        return tuple(dict.fromkeys(found))


def read_formula(text: str, columns: Sequence[str]) -> Formula:
    """Return a formula, in the language of R and patsy.

    R's `factor(x)`, names in backticks and the dot for all other columns are understood.

    Args:
        text: As typed.
        columns: Those of the synthetic sets.

    Raises:
        BadInput: if it does not parse, or names what is not there.
    """
    from patsy import ModelDesc, PatsyError

    text = _in_patsys_words(text.strip(), columns)
    _check_sides(text)
    text = _without_dot(text, columns)
    try:
        described = ModelDesc.from_formula(text)
    except (PatsyError, SyntaxError, ValueError, TypeError, tokenize.TokenError) as error:
        reason = str(error).splitlines()[0][:120] if str(error) else "it is no formula"
        raise BadInput(f"The formula {text!r:.120} does not parse ({reason}); {_HOW}.") from None
    left = described.lhs_termlist
    if len(left) != 1 or len(left[0].factors) != 1:
        raise BadInput(
            f"The formula {text!r:.120} has not one outcome on its left; sums of columns go into"
            " I(...), as in 'I(a + b) ~ c'."
        )
    outcome = left[0].factors[0].code
    terms, by_level = [], []
    for term in described.rhs_termlist:
        used: list[str] = []
        for factor in term.factors:
            found = _columns_of(factor.code, columns, text)
            used += found
            if len(found) == 1 and _by_itself(factor.code, found[0]):
                by_level.append(found[0])
        terms.append(tuple(dict.fromkeys(used)))
    outcome_columns = _columns_of(outcome, columns, text)
    if not outcome_columns:
        raise BadInput(f"The left side of {text!r:.120} names no column of the release.")
    if len(outcome_columns) == 1 and _by_itself(outcome, outcome_columns[0]):
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
        description=described,
    )


def check_levels(formula: Formula, levels: Mapping[str, Sequence[str]]) -> None:
    """Refuse comparisons of a category with what is no level of it: they hold in no row.

    Args:
        formula: As read.
        levels: Of each category.

    Raises:
        BadInput: naming the nearest level.
    """
    factors = [term.factors for term in formula.description.rhs_termlist]
    factors.append(formula.description.lhs_termlist[0].factors)
    for code in {factor.code for group in factors for factor in group}:
        for node in ast.walk(ast.parse(code, mode="eval")):
            if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Eq | ast.NotEq):
                continue
            for column, value in (
                (node.left, node.comparators[0]),
                (node.comparators[0], node.left),
            ):
                name = _name_of(column)
                if name not in levels or not isinstance(value, ast.Constant):
                    continue
                if value.value not in levels[name]:
                    near = nearest(str(value.value), levels[name])
                    quotes = "" if isinstance(value.value, str) else "; levels are texts, in quotes"
                    raise BadInput(f"{name} has no level {value.value!r}{quotes}.{near}")


def _name_of(node: ast.expr) -> str:
    """Return the column that an expression is, nothing if it is none."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Q":
        return next(_texts(node), "")
    return ""


def _in_patsys_words(text: str, columns: Sequence[str]) -> str:
    for quote in ("'", '"'):  # quotes that the shell left
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
    written = " + ".join(name if name.isidentifier() else f"Q({name!r})" for name in outside)
    return f"{left.strip()} ~ {re.sub(dot, lambda _: f'({written})', right).strip()}"


def _by_itself(code: str, column: str) -> bool:
    """Whether a factor is the column as it is, or C(column) with its levels as they are."""
    plain = code.replace(" ", "").replace('"', "'")
    own = {column, f"Q('{column}')"}
    return plain in own or any(
        plain.startswith((f"C({name})", f"C({name},")) and "levels=" not in plain for name in own
    )


def _columns_of(code: str, columns: Sequence[str], text: str) -> tuple[str, ...]:
    """Return the columns that a factor's code uses.

    Raises:
        BadInput: if it names anything that is neither a column nor a function of formulas.
    """
    from patsy import builtins

    try:
        tree = ast.parse(code, mode="eval")
    except (SyntaxError, ValueError, RecursionError):
        raise BadInput(
            f"{code!r:.80} in the formula {text!r:.120} is no expression; a column with signs in"
            f" its name is written Q('its name')."
        ) from None
    allowed = {*FUNCTIONS, *builtins.__all__, "Treatment", "Sum", "Helmert", "Diff", "Poly"}
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor):
            raise BadInput(
                f"{code!r:.80} in the formula: a power is written ** and inside I(...), as in"
                " I(age**2)."
            )
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id == "np":
                continue
            raise BadInput(
                f"{code!r:.80} in the formula: nothing has parts here; a column with a point in its"
                " name is written Q('its name')."
            )
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Q":
            found += [_column(name, columns) for name in _texts(node)]
        elif isinstance(node, ast.Name) and node.id not in columns and node.id not in allowed:
            if id(node) in called:
                known = ", ".join(("C", "I", "Q", "log", "sqrt", "bs", "center"))
                raise BadInput(
                    f"There is no function {node.id!r} in formulas; there are {known} and np's."
                )
            found.append(_column(node.id, columns))
        elif isinstance(node, ast.Name) and node.id in columns and id(node) not in called:
            found.append(node.id)
    return tuple(dict.fromkeys(found))


def _texts(call: ast.Call) -> Iterator[str]:
    for argument in call.args:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            yield argument.value


def _column(name: str, columns: Sequence[str]) -> str:
    if name in columns:
        return name
    near = nearest(name, columns)
    odd = [one for one in columns if not one.isidentifier() and re.split(r"\W", one)[0] == name]
    if odd:
        near = f" Did you mean Q({odd[0]!r})?"
    raise BadInput(f"The release has no column {name!r}.{near}")
