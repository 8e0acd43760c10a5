"""The grammar of formulas: a closed list of expressions, so that no formula can run code.

A formula comes from a release's spec or a command line, and is computed on the confidential side
too. Anything that is not listed here is refused before anything is computed, and `factors` can
compute listed operations only.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from dp_core.errors import BadInput, nearest

MAX_LENGTH = 2_000
"""Characters of a formula, as typed."""
MAX_DEPTH = 60
"""Largest depth of nested brackets or operations."""
MAX_NUMBER = 1e15
MAX_EXPONENT = 100
MAX_SPLINE = 100
"""Largest number of degrees of freedom, or of knots, of a spline."""
MAX_LEVELS = 1_000
"""Largest number of levels listed in one call; the longest formula has fewer."""

ELEMENTWISE: dict[str, tuple[int, int]] = {
    **{
        name: (1, 1)
        for name in (
            *("log", "log2", "log10", "log1p", "exp", "expm1", "sqrt", "square", "abs", "absolute"),
            *("floor", "ceil", "sign", "sin", "cos", "tan", "tanh", "arctan", "arcsinh"),
        )
    },
    **{name: (2, 2) for name in ("power", "minimum", "maximum", "fmin", "fmax")},
    "where": (3, 3),
    "clip": (3, 3),
    "round": (1, 2),
}
"""NumPy functions that compute each row's value from that row alone, with the smallest and largest
number of arguments; one more would be NumPy's output array. The `np.` of `BARE` may be omitted."""
BARE = frozenset(
    {
        *("log", "log2", "log10", "log1p", "exp", "expm1", "sqrt", "abs", "floor", "ceil", "round"),
        *("where", "minimum", "maximum"),
    }
)
MONOTONE = frozenset(
    {
        *("I", "log", "log2", "log10", "log1p", "exp", "expm1", "sqrt"),
        *("floor", "ceil", "sign", "tanh", "arctan", "arcsinh"),
    }
)
"""Functions of one argument that never fall."""
LEARNING = frozenset({"center", "standardize", "scale", "bs", "cr", "cc"})
"""patsy's transforms that estimate a mean, a deviation or knots from the rows."""
CONTRASTS: dict[str, str] = {
    "Treatment": "reference",
    "Sum": "omit",
    "Poly": "scores",
    "Helmert": "",
    "Diff": "",
}
"""Codings of a category, and the one argument that each takes."""

_NO_PARTS = "nothing has parts here; a column with a point in its name is written Q('its name')"
_COUNTED = {"df": MAX_SPLINE, "degree": 10, "ddof": 10}
_OPTIONS: dict[str, tuple[str, ...]] = {
    "center": (),
    "standardize": ("center", "rescale", "ddof"),
    "scale": ("center", "rescale", "ddof"),
    "bs": ("df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound"),
    "cr": ("df", "knots", "lower_bound", "upper_bound", "constraints"),
    "cc": ("df", "knots", "lower_bound", "upper_bound", "constraints"),
}
"""Arguments of the transforms after the first, in patsy's order."""

Operation = Callable[..., Any]
ARITHMETIC: dict[type[ast.operator], Operation] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
BITWISE: dict[type[ast.operator], Operation] = {
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}
COMPARISONS: dict[type[ast.cmpop], Operation] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
UNARY: dict[type[ast.unaryop], Operation] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
"""All operations of a formula, with the functions that compute them."""


def read_factor(code: str, columns: Sequence[str], text: str) -> tuple[ast.expr, tuple[str, ...]]:
    """Return what a factor of a formula computes, and the columns it uses.

    Args:
        code: Text of the factor.
        columns: Existing columns.
        text: The whole formula, for the message.

    Raises:
        BadInput: if it uses anything that is not on the lists above, or an unknown column.
    """
    tree = parse(code, text)
    reader = _Reader(code, columns)
    reader.value(tree, 0)
    return tree, tuple(dict.fromkeys(reader.found))


def parse(code: str, text: str) -> ast.expr:
    """Return a factor's syntax tree, unchecked.

    Raises:
        BadInput: if it does not parse.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about invalid escapes in a text
            return ast.parse(code, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadInput(
            f"{code!r:.80} in the formula {text!r:.120} is no expression; a column with signs in"
            " its name is written Q('its name')."
        ) from None


def function_of(call: ast.Call) -> str:
    """Return the name of the called function without `np.`; empty if it is on no list."""
    called = call.func
    if isinstance(called, ast.Name):
        known = BARE | LEARNING | CONTRASTS.keys() | {"C", "I", "Q"}
        return called.id if called.id in known else ""
    if (
        isinstance(called, ast.Attribute)
        and isinstance(called.value, ast.Name)
        and called.value.id == "np"
        and called.attr in ELEMENTWISE
    ):
        return called.attr
    return ""


def is_monotone(node: ast.expr) -> bool:
    """Return whether an expression is one column, or never falls or never rises with it.

    >>> [is_monotone(parse(code, code)) for code in ("-np.log(a) / 2", "a ** 2", "a + b")]
    [True, False, False]
    """
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.UAdd | ast.USub) and is_monotone(node.operand)
    if isinstance(node, ast.Call) and len(node.args) == 1 and function_of(node) in MONOTONE:
        return is_monotone(node.args[0])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
        if number_of(node.right) is not None:
            return is_monotone(node.left)
        known = number_of(node.left) is not None and not isinstance(node.op, ast.Div)
        return known and is_monotone(node.right)
    return isinstance(node, ast.Name) or (isinstance(node, ast.Call) and function_of(node) == "Q")


def text_of(call: ast.Call) -> str | None:
    """Return the name in `Q('name')`, or None if the argument is not a single text."""
    if len(call.args) == 1 and not call.keywords and isinstance(call.args[0], ast.Constant):
        value = call.args[0].value
        return value if isinstance(value, str) else None
    return None


def number_of(node: ast.expr) -> float | None:
    """Return a literal number with its sign, or None for any other expression."""
    sign = 1.0
    if isinstance(node, ast.UnaryOp) and type(node.op) in UNARY:
        sign, node = (-1.0 if isinstance(node.op, ast.USub) else 1.0), node.operand
    if not isinstance(node, ast.Constant):
        return None
    number = node.value
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return sign * float(number) if abs(number) <= MAX_NUMBER else math.inf


def column_named(name: str, columns: Sequence[str]) -> str:
    """Return `name` if it is a column.

    Raises:
        BadInput: if there is no column of that name.
    """
    if name in columns:
        return name
    near = nearest(name, columns)
    for one in columns:
        if not one.isidentifier():
            near = near.replace(f"mean {one!r}?", f"mean Q({one!r})?")
    odd = [one for one in columns if not one.isidentifier() and re.split(r"\W", one)[0] == name]
    if odd:
        near = f" Did you mean Q({odd[0]!r})?"
    raise BadInput(f"The release has no column {name!r:.80}.{near}")


class _Reader:
    """Checks the syntax tree of one factor; `found` collects its columns."""

    def __init__(self, code: str, columns: Sequence[str]) -> None:
        self.code = code
        self.columns = columns
        self.found: list[str] = []

    def refuse(self, reason: str) -> BadInput:
        return BadInput(f"{self.code!r:.80} in the formula: {reason}.")

    def value(self, node: ast.expr, depth: int, *, word: bool = False) -> None:
        """Check an expression.

        Args:
            node: The expression.
            depth: Number of operations around it.
            word: Whether it may be a text, as one side of a comparison or a choice of `where`.
        """
        # privacy: every kind of expression that is not listed here is refused.
        if depth > MAX_DEPTH:
            raise self.refuse(f"more than {MAX_DEPTH} operations stand inside one another")
        match node:
            case ast.Constant():
                self._constant(node, word=word)
            case ast.Name():
                self.found.append(column_named(node.id, self.columns))
            case ast.UnaryOp():
                self._unary(node, depth + 1)
            case ast.BinOp():
                self._binary(node, depth + 1)
            case ast.Compare():
                self._compare(node, depth + 1)
            case ast.Call():
                self._call(node, depth + 1)
            case ast.Attribute():
                raise self.refuse(_NO_PARTS)
            case ast.BoolOp():
                raise self.refuse("conditions are joined by & and |, each in brackets of its own")
            case _:
                raise self.refuse(
                    "a formula has columns, numbers, arithmetic, comparisons and known functions"
                    " only"
                )

    def _constant(self, node: ast.Constant, *, word: bool) -> None:
        number = number_of(node)
        if number is not None:
            if math.isinf(number):
                raise self.refuse(f"numbers go to {MAX_NUMBER:g}; use another unit")
        elif not (word and type(node.value) in (str, bool)):
            raise self.refuse(
                "a text stands in a comparison, as in I(sex == 'male'), or in Q('its name')"
            )

    def _unary(self, node: ast.UnaryOp, depth: int) -> None:
        if type(node.op) not in UNARY:
            raise self.refuse("the contrary of a condition is written I((age > 3) == False)")
        self.value(node.operand, depth)

    def _binary(self, node: ast.BinOp, depth: int) -> None:
        if isinstance(node.op, ast.BitXor):
            raise self.refuse("a power is written ** and inside I(...), as in I(age**2)")
        if type(node.op) not in ARITHMETIC | BITWISE:
            raise self.refuse("of operations there are + - * / // % ** and, of conditions, & and |")
        before = len(self.found)
        self.value(node.left, depth)
        base_is_fixed = len(self.found) == before
        between = len(self.found)
        self.value(node.right, depth)
        if isinstance(node.op, ast.Pow) and len(self.found) == between:
            self._power(node, base_is_fixed=base_is_fixed)

    def _power(self, node: ast.BinOp, *, base_is_fixed: bool) -> None:
        exponent = number_of(node.right)
        if exponent is None or abs(exponent) > MAX_EXPONENT:
            raise self.refuse(f"an exponent is a column, or a number of at most {MAX_EXPONENT}")
        if base_is_fixed and number_of(node.left) is None:
            raise self.refuse("a power of numbers alone is written out")

    def _compare(self, node: ast.Compare, depth: int) -> None:
        if len(node.ops) > 1 or type(node.ops[0]) not in COMPARISONS:
            raise self.refuse(
                "a comparison is one of == != < <= > >= between two values, as in"
                " I((10 < age) & (age < 20))"
            )
        self.value(node.left, depth, word=True)
        self.value(node.comparators[0], depth, word=True)

    def _call(self, node: ast.Call, depth: int) -> None:
        # privacy: a called name must be on a list, whatever the names of columns are.
        name = function_of(node)
        if not name:
            self._no_function(node.func)
        if any(isinstance(one, ast.Starred) for one in node.args) or any(
            one.arg is None for one in node.keywords
        ):
            raise self.refuse("arguments are written one by one, without *")
        if name == "Q":
            quoted = text_of(node)
            if quoted is None:
                raise self.refuse("Q takes the name of one column, in quotes")
            self.found.append(column_named(quoted, self.columns))
        elif name == "C":
            self._category(node, depth)
        elif name in CONTRASTS:
            raise self.refuse(f"{name} stands in C, as in C(sex, {name})")
        elif name in LEARNING:
            self._transform(name, node, depth)
        else:
            self._elementwise(name, node, depth)

    def _no_function(self, called: ast.expr) -> None:
        name = called.id if isinstance(called, ast.Name) else ""
        if isinstance(called, ast.Attribute):
            if not isinstance(called.value, ast.Name) or called.value.id != "np":
                raise self.refuse(_NO_PARTS)
            name = f"np.{called.attr}"
        if not name:
            raise self.refuse("only a function's name can be called")
        known = "C, I, Q, center, standardize, bs, cr, log, sqrt, where"
        raise BadInput(
            f"There is no function {name!r:.80} in formulas; there are {known}, and those of np"
            " that take each row by itself, such as np.log1p."
        )

    def _elementwise(self, name: str, node: ast.Call, depth: int) -> None:
        least, most = (1, 1) if name == "I" else ELEMENTWISE[name]
        if node.keywords or not least <= len(node.args) <= most:
            count = f"{least}" if least == most else f"{least} or {most}"
            raise self.refuse(f"{name} takes {count} arguments, without names")
        for place, one in enumerate(node.args):
            if name == "round" and place:
                self._count(one, 15, "round")
            else:
                self.value(one, depth, word=name == "where" and place > 0)

    def _transform(self, name: str, node: ast.Call, depth: int) -> None:
        options = _OPTIONS[name]
        if not node.args or len(node.args) > 1 + len(options):
            raise self.refuse(f"{name} takes a column first, and at most {len(options)} options")
        self.value(node.args[0], depth)
        given = list(zip(options, node.args[1:], strict=False))
        given += [(str(one.arg), one.value) for one in node.keywords]
        names = [option for option, _ in given]
        if len(set(names)) < len(names) or not set(names) <= set(options):
            known = ", ".join(options) or "none"
            raise self.refuse(f"the options of {name} are {known}, each once")
        for option, one in given:
            if option in _COUNTED:
                self._count(one, _COUNTED[option], option)
            elif option == "constraints":
                if not isinstance(one, ast.Constant) or one.value not in ("center", None):
                    raise self.refuse("of constraints there is 'center'")
            elif not (isinstance(one, ast.Constant) and type(one.value) in (bool, type(None))):
                self._numbers(one, option)

    def _category(self, node: ast.Call, depth: int) -> None:
        given = dict(zip(("contrast", "levels"), node.args[1:], strict=False))
        named = {str(one.arg): one.value for one in node.keywords}
        if (
            not 1 <= len(node.args) <= 3
            or given.keys() & named.keys()
            or not named.keys() <= {"contrast", "levels"}
        ):
            raise self.refuse("C takes a column, and then a contrast and levels=[...], each once")
        self.value(node.args[0], depth)
        given |= named
        if "contrast" in given:
            self._contrast(given["contrast"])
        if "levels" in given:
            self._constants(given["levels"], "levels")

    def _contrast(self, node: ast.expr) -> None:
        called = node.func if isinstance(node, ast.Call) else node
        if not isinstance(called, ast.Name) or called.id not in CONTRASTS:
            raise self.refuse(f"the contrasts of C are {', '.join(CONTRASTS)}")
        if not isinstance(node, ast.Call):
            return
        option = CONTRASTS[called.id]
        given = [*node.args, *(one.value for one in node.keywords)]
        if len(given) > bool(option) or any(one.arg != option for one in node.keywords):
            raise self.refuse(f"{called.id} takes {option or 'nothing'} only")
        for one in given:
            if option == "scores":
                self._numbers(one, option)
            else:
                self._plain(one, option)

    def _count(self, node: ast.expr, most: int, option: str) -> None:
        if isinstance(node, ast.Constant) and node.value is None:
            return
        value = number_of(node)
        if value is None or value != int(min(value, most + 1)) or not 0 <= value <= most:
            raise self.refuse(f"{option} is a whole number from 0 to {most}")

    def _numbers(self, node: ast.expr, option: str) -> None:
        items = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
        values = [number_of(one) for one in items]
        if len(values) > MAX_SPLINE or any(one is None or math.isinf(one) for one in values):
            raise self.refuse(f"{option} is a number, or a list of at most {MAX_SPLINE} numbers")

    def _constants(self, node: ast.expr, option: str) -> None:
        if not isinstance(node, ast.List | ast.Tuple) or len(node.elts) > MAX_LEVELS:
            raise self.refuse(f"{option} is a list of texts or numbers, as in ['a', 'b']")
        for one in node.elts:
            self._plain(one, option)

    def _plain(self, node: ast.expr, option: str) -> None:
        if isinstance(node, ast.Constant) and type(node.value) in (str, bool):
            return
        value = number_of(node)
        if value is None or math.isinf(value):
            raise self.refuse(f"{option} has texts and numbers only")
