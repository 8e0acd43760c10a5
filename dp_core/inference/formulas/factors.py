"""A formula's factors, computed without Python's `eval`.

patsy computes a factor by `eval`, in a frame where every builtin, and by `Q` every global, is
within reach. The factors here evaluate the syntax tree instead, with the operations of `grammar`
only. So an operation that is not on these lists cannot be computed, even if a check misses it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import numpy as np

from dp_core.errors import BadInput
from dp_core.inference.formulas.grammar import (
    ARITHMETIC,
    BITWISE,
    COMPARISONS,
    CONTRASTS,
    ELEMENTWISE,
    LEARNING,
    MAX_SPLINE,
    UNARY,
    function_of,
    parse,
    text_of,
)


class Factor:
    """A factor of a formula that implements patsy's factor protocol without `eval`.

    Attributes:
        code: Text of the factor in patsy's spelling.
        origin: Position in the formula, for patsy's messages.
        columns: Names in the factor, including those of functions.
        is_category: Whether the factor makes a column categorical.
        is_by_level: Whether it may have a coefficient for each level of its columns.
        splines: Largest number of design columns of a spline in the factor; 1 without a spline.
    """

    def __init__(
        self, code: str, origin: Any = None, references: Mapping[str, str] | None = None
    ) -> None:
        self.code = code
        self.origin = origin
        self._references = references or {}
        self._tree = parse(code, code)
        nodes = list(ast.walk(self._tree))
        self.columns = {one.id for one in nodes if isinstance(one, ast.Name)}
        calls = [one for one in nodes if isinstance(one, ast.Call)]
        self.columns |= {text_of(one) or "" for one in calls if function_of(one) == "Q"}
        called = {function_of(one) for one in calls}
        whole = self._tree
        while isinstance(whole, ast.Call) and function_of(whole) == "I" and whole.args:
            whole = whole.args[0]
        alone = isinstance(whole, ast.Name) or (
            isinstance(whole, ast.Call) and function_of(whole) == "Q"
        )
        self.is_category = "C" in called
        self.is_by_level = alone or bool(called & {"C", "where"})
        self.splines = max(map(_width, calls), default=1)

    def name(self) -> str:
        """Return the name of the factor's coefficients."""
        return self.code

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Factor) and self.code == other.code

    def __hash__(self) -> int:
        return hash((Factor, self.code))

    def memorize_passes_needed(self, state: dict[str, Any], _eval_env: object) -> int:
        """Return the number of passes over the rows; nested transforms need earlier passes."""
        import patsy

        passes: list[list[ast.Call]] = []
        made: dict[ast.AST, Any] = {}

        def visit(node: ast.AST) -> int:
            inside = max((visit(child) for child in ast.iter_child_nodes(node)), default=0)
            name = function_of(node) if isinstance(node, ast.Call) else ""
            if name not in LEARNING or not isinstance(node, ast.Call):
                return inside
            made[node] = getattr(patsy, name).__patsy_stateful_transform__()
            if len(passes) == inside:
                passes.append([])
            passes[inside].append(node)
            return inside + 1

        visit(self._tree)
        state.update(passes=passes, transforms=made)
        return len(passes)

    def memorize_chunk(self, state: dict[str, Any], which_pass: int, data: Any) -> None:
        """Update the transforms of a pass with some rows."""
        for call in state["passes"][which_pass]:
            given, named = _Computation(state["transforms"], data).arguments(call)
            state["transforms"][call].memorize_chunk(*given, **named)

    def memorize_finish(self, state: dict[str, Any], which_pass: int) -> None:
        """Finish the transforms of a pass."""
        for call in state["passes"][which_pass]:
            state["transforms"][call].memorize_finish()

    def eval(self, state: dict[str, Any], data: Any) -> Any:
        """Return the factor's values for some rows; those of a category with its reference."""
        values = _Computation(state["transforms"], data).value(self._tree)
        known = [self._references[name] for name in self.columns if name in self._references]
        return _compared(values, known[0]) if len(known) == 1 else values


class _Computation:
    """An evaluation of a syntax tree for given rows.

    Raises:
        BadInput: for an operation that is on no list of `grammar`.
    """

    def __init__(self, transforms: Mapping[ast.AST, Any], data: Any) -> None:
        self.transforms = transforms
        self.data = data

    def value(self, node: ast.expr) -> Any:
        # privacy: the only things that are ever computed; there is no namespace to look names up.
        if isinstance(node, ast.Constant) and type(node.value) in (int, float, str, bool):
            return node.value
        if isinstance(node, ast.Name):
            return self._column(node.id)
        if isinstance(node, ast.UnaryOp) and type(node.op) in UNARY:
            return UNARY[type(node.op)](_bounded_number(self.value(node.operand)))
        if isinstance(node, ast.BinOp) and type(node.op) in BITWISE:
            return BITWISE[type(node.op)](self.value(node.left), self.value(node.right))
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            both = (_bounded_number(self.value(side)) for side in (node.left, node.right))
            return ARITHMETIC[type(node.op)](*both)
        if (
            isinstance(node, ast.Compare)
            and len(node.ops) == 1
            and type(node.ops[0]) in COMPARISONS
        ):
            left, right = self.value(node.left), self.value(node.comparators[0])
            return COMPARISONS[type(node.ops[0])](left, right)
        if isinstance(node, ast.Call):
            return self._call(node)
        raise _no_part()

    def _column(self, name: object) -> Any:
        if not isinstance(name, str) or name not in self.data:
            raise _no_part()
        return self.data[name]

    def _call(self, node: ast.Call) -> Any:
        name = function_of(node)
        if name == "Q":
            return self._column(text_of(node))
        if name == "C":
            return self._category(node)
        if name in LEARNING:
            given, named = self.arguments(node)
            return self.transforms[node].transform(*given, **named)
        if node.keywords:
            raise _no_part()
        if name == "I":
            (only,) = node.args
            return self.value(only)
        if name not in ELEMENTWISE or not 1 <= len(node.args) <= ELEMENTWISE[name][1]:
            raise _no_part()
        if name == "round":
            return np.round(self.value(node.args[0]), *map(_setting, node.args[1:]))
        given = [self.value(one) for one in node.args]
        return getattr(np, name)(*(given if name == "where" else map(_bounded_number, given)))

    def _category(self, call: ast.Call) -> Any:
        from patsy.categorical import C

        named = dict(zip(("contrast", "levels"), call.args[1:], strict=False))
        named |= {str(one.arg): one.value for one in call.keywords}
        contrast = _contrast(named["contrast"]) if "contrast" in named else None
        levels = _setting(named["levels"]) if "levels" in named else None
        return C(self.value(call.args[0]), contrast, levels)

    def arguments(self, call: ast.Call) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of a transform: values of the rows first, then settings."""
        given = [self.value(call.args[0]), *map(_setting, call.args[1:])]
        named: dict[str, Any] = {}
        for one in call.keywords:
            if one.arg is None:
                raise _no_part()
            named[one.arg] = _setting(one.value)
        return given, named


def _compared(values: Any, reference: str) -> Any:
    """Return a category's values, compared with a level unless they have a coding or own levels."""
    from pandas import CategoricalDtype
    from patsy import Treatment
    from patsy.categorical import C

    boxed = hasattr(values, "contrast")
    data = values.data if boxed else values
    if not isinstance(getattr(data, "dtype", None), CategoricalDtype):
        return values
    if boxed and (values.contrast is not None or values.levels is not None):
        return values
    return C(data, Treatment(reference))


def _bounded_number(value: Any) -> Any:
    """Return an integer as a float, whose size is bounded; refuse a text, which could grow.

    >>> _bounded_number(9)
    9.0
    """
    if isinstance(value, str):
        raise TypeError("a text is no number")
    if type(value) in (int, bool):
        return float(value)
    return value


def _width(call: ast.Call) -> int:
    if function_of(call) not in {"bs", "cr", "cc"}:
        return 1
    numbers = [
        int(node.value)
        for option in [*call.args[1:], *(one.value for one in call.keywords)]
        for node in ast.walk(option)
        if isinstance(node, ast.Constant) and type(node.value) is int
    ]
    # The width follows from df, or from the knots with degree and bounds.
    return max(*[number for number in numbers if number <= MAX_SPLINE], len(numbers) + 12, 12)


def _setting(node: ast.expr) -> Any:
    """Return a constant, or a list of them."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise _no_part() from None


def _contrast(node: ast.expr) -> Any:
    """Return one of patsy's codings."""
    import patsy

    called = node.func if isinstance(node, ast.Call) else node
    if not isinstance(called, ast.Name) or called.id not in CONTRASTS:
        raise _no_part()
    if not isinstance(node, ast.Call):
        return getattr(patsy, called.id)
    given = [*node.args, *(one.value for one in node.keywords)]
    return getattr(patsy, called.id)(*map(_setting, given))


def _no_part() -> BadInput:
    return BadInput("A part of the formula is on no list of what formulas can compute.")
