"""Reads a question such as `share of sex = 2 by region where age >= 30`.

    question    = measure { "by" columns | "where" conditions }
    measure     = "count" ["of" conditions] | "share" ["of" (conditions | column)]
                | ("mean" | "total" | "median" | "quantile" number) ["of"] column
                | "ratio of" conditions "to" conditions
                | ("standard deviation" | "gini") ["of"] column | "top" part "share of" column
                | "difference in" measure "between" conditions "and" conditions
    conditions  = condition { "and" condition }
    condition   = column ("=" | "!=" | "<" | "<=" | ">" | ">=") value | column "in" "(" values ")"
                | column "between" value "and" value | column "is" ["not"] ("missing" | value)
                | level                              (of one column only, as in `share of female`)

Names and levels need no quotes: the longest text that is a name or level is taken, so they may
contain spaces, commas or `and`. Capitals do not matter. There are synonyms for most words
(`average`, `percent`, `for`, `among`, `per`; `90th percentile` and `upper quartile` are quantiles;
the part of a top share is `10 %` or `decile`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from dp_core.errors import BadInput, nearest, similar
from dp_core.inference.questions.question import (
    MIRRORED,
    Condition,
    Conditions,
    Question,
    SpreadWord,
    codes_by_text,
    equal_to,
    fold_text,
    missing,
    threshold_condition,
)
from dp_core.inference.questions.question_tokens import BY, WHERE, TokenReader
from dp_core.inference.spread_measures import SPREAD_MEASURES
from dp_core.schema.bin_values import legal_range
from dp_core.schema.definition import Column, Schema
from dp_core.text.documents.typed_text import parse_fraction

EXAMPLES = (
    "count by sex",
    "share by sex, region",
    "share of sex = female by region",
    "mean of income by region where age >= 30",
    "median of income by sex",
    "gini coefficient of income by region",
    "difference in mean of income between sex = male and sex = female",
)
_MEASURES: Mapping[str, str] = {
    **dict.fromkeys(("count", "counts", "number", "n", "records"), "count"),
    **dict.fromkeys(
        ("share", "shares", "percent", "percentage", "proportion", "fraction", "%"), "share"
    ),
    **dict.fromkeys(("mean", "means", "average", "avg"), "mean"),
    **dict.fromkeys(("total", "sum"), "total"),
    "ratio": "ratio",
    **dict.fromkeys(("difference", "diff"), "difference"),
}
_PARTS = {"quantile": 1, "percentile": 100, "quartile": 4, "quintile": 5, "decile": 10}
"""Kinds of quantiles: how many parts they divide the records into."""
_ORDINALS = {
    **dict.fromkeys(("lower", "first"), "1"),
    "second": "2",
    **dict.fromkeys(("upper", "third"), "3"),
}
_MEDIANS = ("median", "medians")
_SPREADS = ("standard deviation", "gini")
_TOPS = {"percentile": "1", "decile": "10", "quintile": "20", "quartile": "25"}
"""Parts of the records in percent, as in `top decile share`."""
MOST_CHARACTERS = 10_000


def read_question(
    text: str, schema: Schema, *, also: Mapping[str, Column] | None = None
) -> Question:
    """Return the question that a text asks.

    Args:
        text: The question.
        schema: The published schema; its released columns may be asked about.
        also: Further names of columns, with the column of each; none by default.

    Raises:
        BadInput: if the text is not a question; the message says what to type instead.
    """
    if len(text) > MOST_CHARACTERS:
        raise BadInput(f"The question is longer than {MOST_CHARACTERS:,} characters.")
    for name in schema.linked.others if schema.linked else ():
        if fold_text(name) in fold_text(text):
            raise BadInput(
                f"{name!r} is a column of another member, and questions about two members are not"
                " supported; read the noisy tables of such columns in `marginals.parquet`."
            )
    return _Reader(text, schema, also or {}).question()


class _Reader(TokenReader):
    """Reads one question from left to right."""

    def __init__(self, text: str, schema: Schema, also: Mapping[str, Column]) -> None:
        super().__init__(text)
        others = () if schema.linked is None else schema.linked.others
        released = (each.of_member for each in schema.released if each.name not in others)
        self.columns = {**{each.name: each for each in released}, **also}
        self.panel = schema.panel
        self.names: dict[str, list[str]] = {}
        for name in self.columns:
            self.names.setdefault(fold_text(name), []).append(name)

    def question(self) -> Question:
        if not self.tokens:
            raise BadInput(f"The question is empty. Examples: {_examples()}.")
        found = self._measure()
        by: list[str] = []
        where: list[Condition] = []
        while self.place < len(self.tokens):
            if self.word(*BY):
                by += self._columns()
            elif self.word(*WHERE):
                where += self._conditions()
            else:
                raise self.unexpected("`by COLUMN` or `where CONDITION`")
        if len({*by}) < len(by):
            raise BadInput("A column occurs twice after `by`; name it once.")
        if found.levels_of in by:
            raise BadInput(
                f"`share of {found.levels_of} by {found.levels_of}` is 100 % in every group: leave"
                " one of the two out."
            )
        return replace(found, by=tuple(by), where=tuple(where))

    # -- measures

    def _measure(self, *, within: bool = False) -> Question:
        token = self.next_token()
        if not within and token is not None and self.is_word(token, *BY, *WHERE):
            return Question(measure="count")
        if self.word("what"):  # `what is the median of income?`
            self.word("is", "are", "was")
        self.word("the")
        if self.word("how"):
            if not self.word("many"):
                raise self.unexpected("`how many`")
            self.word("records", "rows", "people", "persons")
            return self._count(of=not self.at_end())
        quantile = self._quantile()
        if quantile is not None:
            if within:
                raise BadInput(
                    "The difference of medians or quantiles is not available: ask for"
                    " `median of COLUMN by GROUP`, and compare the intervals."
                )
            return Question(measure="quantile", number=self._number("quantile"), quantile=quantile)
        if (spread := self._spread()) is not None:
            if within:
                raise BadInput(
                    f"The difference of a {spread.measure} is not available: ask for"
                    f" `{spread.in_words} by GROUP`, and compare the intervals."
                )
            return spread
        token = self.next_token()
        word = _MEASURES.get(token.text.casefold(), "") if token and token.kind == "word" else ""
        if not word or token is None or (within and word in ("difference", "ratio")):
            raise self._no_measure(within=within)
        self.place += 1
        match word:
            case "count":
                return self._count()
            case "share":
                return self._share()
            case "difference":
                return self._difference()
            case "ratio":
                self.word("of")
                first = self._counted()
                if not self.word("to"):
                    raise self.unexpected("`to` and the condition of the denominator")
                return Question(measure="ratio", of=first, to=self._counted())
        return Question(measure="mean" if word == "mean" else "total", number=self._number(word))

    def _number(self, measure: str) -> str:
        """Return the column whose mean, total, quantile or spread is asked.

        Raises:
            BadInput: if it has none.
        """
        self.word("of", "in")
        self.word("the")
        name = self._column(f"the column whose {measure} is asked")
        column = self.columns[name]
        if column.levels and measure != "quantile":
            median = f", or `median of {name}`" if column.type.ordered else ""
            raise BadInput(
                f"{name!r} has levels, not numbers, and so no {measure}: ask for"
                f" `share of {name}`{median or f' or `count by {name}`'}."
            )
        if not column.type.ordered:
            raise BadInput(
                f"The levels of {name!r} have no order, and so no median or quantile: ask for"
                f" `share of {name}` or `count by {name}`."
            )
        spread = SPREAD_MEASURES.get(measure)
        of_amounts = measure == "total" or (spread is not None and spread.needs_zero)
        if of_amounts and not column.type.sums and not column.levels:
            raise BadInput(
                f"{name!r} has {column.scale.values}, which have no {measure}: ask for"
                f" `mean of {name}`."
            )
        return name

    def _spread(self) -> Question | None:
        """Pass a measure of spread with its number, and return it; None if none comes next.

        Raises:
            BadInput: if the number has no such measure.
        """
        start = self.place
        if self.word("standard"):
            if self.word("deviation", "deviations"):
                return self._spread_of_number("standard deviation")
        elif self.word("sd", "std", "stdev"):
            self.word("dev")
            return self._spread_of_number("standard deviation")
        elif self.word("gini"):
            self.word("coefficient", "coefficients", "index")
            return self._spread_of_number("gini coefficient")
        elif self.word("top"):
            named = next((part for word, part in _TOPS.items() if self.word(word)), None)
            stated = self._part() if named is None else (named, True)
            if stated is not None:
                text, percent = stated
                if not (percent or self.word("percent", "pct")):
                    raise BadInput(
                        f"The part {text} has no unit: ask for `top {text} % share of COLUMN`."
                    )
                part = parse_fraction(text) / 100
                if not 0 < part < 1:
                    raise BadInput(
                        f"{text} % is not between 0 and 100 %: ask for `top 10 % share of COLUMN`."
                    )
                self.word("share", "shares")
                return replace(self._spread_of_number("top share"), quantile=part)
        self.place = start
        return None

    def _spread_of_number(self, measure: SpreadWord) -> Question:
        """Return a measure of spread of the number that comes next.

        Raises:
            BadInput: if the number has none.
        """
        name = self._number(measure)
        if SPREAD_MEASURES[measure].needs_zero and legal_range(self.columns[name])[0] < 0:
            raise BadInput(
                f"{name!r} may be negative, so its {measure} is not defined: ask for `standard"
                f" deviation of {name}`."
            )
        return Question(measure=measure, number=name)

    def _quantile(self) -> Fraction | None:
        """Pass a quantile such as `median`, `90th percentile` or `quantile 0.9`, and return it.

        Returns:
            The quantile, above 0 and below 1. None if no quantile comes next.

        Raises:
            BadInput: if it is not stated which one, or if it is not between 0 and 1.
        """
        if self.word(*_MEDIANS):
            return Fraction(1, 2)
        start = self.place
        token = self.next_token()
        short = re.fullmatch(r"p(\d{1,2})", token.text.casefold()) if token else None
        if short and int(short[1]) > 0:
            self.place += 1
            if self.word("of"):
                return Fraction(int(short[1]), 100)
            self.place = start
        before = self._part()
        token = self.next_token()
        kind = token.text.casefold().removesuffix("s") if token and token.kind == "word" else ""
        if kind not in _PARTS:
            self.place = start
            return None
        self.place += 1
        stated = before or self._part()
        if stated is None:
            token = self.next_token()
            if token is not None and re.match(r"[\d.]", token.text):
                raise BadInput(
                    "The number is longer than 12 digits before or after the point: shorten it."
                    if re.fullmatch(r"[\d./]+%?", token.text)
                    else f"{token.text} is no number."
                )
            raise BadInput(
                f"It is not stated which {kind}: ask for `quantile 0.9 of COLUMN`,"
                " `90th percentile of COLUMN` or `median of COLUMN`."
            )
        text, percent = stated
        if re.fullmatch(r"\d+/0+", text):
            raise BadInput(f"{text} divides by 0; write a number between 0 and 1, such as 0.9.")
        found = parse_fraction(text) / (100 if percent else _PARTS[kind])
        if not 0 < found < 1:
            raise BadInput(
                f"{text} is no {kind}, which is above 0 and below"
                f" {100 if percent else _PARTS[kind]}: ask for `quantile 0.9 of COLUMN`, or for"
                " `90th percentile of COLUMN`."
            )
        return found

    def _part(self) -> tuple[str, bool] | None:
        """Pass a number such as `0.9`, `90th` or `90 %`, and return it, and if it is in percent."""
        token = self.next_token()
        if token is None or token.kind != "word":
            return None
        text = _ORDINALS.get(token.text.casefold(), token.text)
        match = re.fullmatch(
            r"(\d{1,12}/\d{1,12}|\d{0,12}(?:\.\d{1,12})?)(%?)(?:st|nd|rd|th)?", text
        )
        if match is None or not match[1]:
            return None
        self.place += 1
        number = f"0{match[1]}" if match[1][0] == "." else match[1]
        return number, bool(match[2]) or self.word("%")

    def _count(self, *, of: bool = False) -> Question:
        if self.word("of") or of:
            if self.word("records", "rows"):
                return Question(measure="count")
            return Question(measure="count", of=self._conditions())
        return Question(measure="count")

    def _counted(self) -> Conditions:
        """Return the conditions of a count in a ratio; `count of` before them is optional."""
        if self.word("count", "counts"):
            self.word("of", "where")
        return self._conditions()

    def _share(self) -> Question:
        if not self.word("of") and self.at_end():
            return Question(measure="share")
        self.word("the")
        self.word("records", "rows")
        start = self.place
        name = self.longest(self.names)
        if name is not None and self.at_end():
            return Question(measure="share", levels_of=self._one_name(name))
        self.place = start
        return Question(measure="share", of=self._conditions())

    def _difference(self) -> Question:
        if not self.word("in", "of"):
            raise self.unexpected("`in`, as in `difference in share of ...`")
        found = self._measure(within=True)
        if not self.word("between"):
            raise self.unexpected("`between GROUP and GROUP`")
        # In `between a = 1 and a = 2` the word divides the groups; each group may have several
        # conditions only if they are separated by commas.
        first = self._conditions(joined=False)
        if not self.word("and"):
            raise self.unexpected("`and` and the second group")
        second = self._conditions(joined=False)
        return replace(found, between=(first, second))

    # -- conditions

    def _conditions(self, *, joined: bool = True) -> Conditions:
        found = [self._condition()]
        while True:
            if self.mark(",") or (joined and self.word("and", "&")):
                self._assert_other_column(found[-1])
                found.append(self._condition())
            elif self.word("or"):
                self._assert_other_column(found[-1])
                raise BadInput(
                    "`or` is not known here: for several levels of one column write"
                    " COLUMN in (LEVEL, LEVEL)."
                )
            else:
                return tuple(found)

    def _assert_other_column(self, before: Condition) -> None:
        """Raise if a level of the same column follows a condition, as in `sex = male, female`.

        Raises:
            BadInput: with the condition to write.
        """
        start = self.place
        name, _, first = before.text.partition(" = ")
        levels, values = codes_by_text(self.columns[before.column]), [first]
        while self.longest(self.names) is None:
            begin = self.place
            if self.longest(levels) is None:
                break
            used = self.tokens[begin : self.place]
            if self.sign() is not None:  # `2 <= age`
                break
            values.append(self.text[used[0].start : used[-1].end])
            if not (self.mark(",") or self.word("and", "or", "&")):
                break
        self.place = start
        if first and len(values) > 1:
            raise BadInput(
                f"A record has one value of {name!r}; for several values write"
                f" `{name} in ({', '.join(values)})`."
            )

    def _condition(self) -> Condition:
        token = self.next_token()
        if token is None:
            raise self.unexpected("a condition such as `sex = female`")
        start = self.place
        name = self.longest(self.names)
        if name is None:
            return self._mirrored() or self._level_alone()
        column = self.columns[self._one_name(name)]
        sign = self.sign()
        if sign is not None:
            return self._valued(column, sign)
        negated = self.word("not")
        if self.word("in"):
            return equal_to(column, self._values(column), negated=negated)
        if negated:
            return equal_to(column, [self._value(column)], negated=True)
        if self.word("between"):
            low = self._value(column)
            if not self.word("and", "to"):
                raise self.unexpected("`and` and the upper end")
            return self._both(
                threshold_condition(column, ">=", low), column, "<=", self._value(column)
            )
        if self.word("is"):
            negated = self.word("not")
            if self.word("missing", "unknown", "null", "na"):
                return missing(column, negated=negated)
            sign = self.sign()
            if sign is not None and not negated:
                return self._valued(column, sign)
            return equal_to(column, [self._value(column)], negated=negated)
        self.place = start
        alone = self._level_of_other(column)
        if alone is not None:
            return alone
        self.place = start
        self.longest(self.names)
        error = self.unexpected(f"=, <, >= or `in` after {column.name!r}")
        if self.word("missing", "unknown", "null", "na"):
            raise BadInput(f"{error.message} Write `{column.name} = missing`.")
        raise error

    def _valued(self, column: Column, sign: str) -> Condition:
        if sign in ("=", "!="):
            if self.next_token() is not None and self.mark("("):
                self.place -= 1
                return equal_to(column, self._values(column), negated=sign == "!=")
            return equal_to(column, [self._value(column)], negated=sign == "!=")
        return threshold_condition(column, sign, self._value(column))

    def _both(self, first: Condition, column: Column, sign: str, value: str) -> Condition:
        """Return a condition with two ends."""
        second = threshold_condition(column, sign, value)
        codes = tuple(sorted({*first.codes} & {*second.codes}))
        # `age >= 30` and `age < 40` are `30 <= age < 40`, which needs no `and`.
        lower, low = first.text.removeprefix(f"{column.name} ").split(" ", 1)
        text = f"{low} {MIRRORED[lower]} {second.text}"
        if not codes:
            raise BadInput(f"No value of {column.name!r} meets {text!r}.")
        notes = " ".join(filter(None, (first.note, second.note)))
        return Condition(column.name, codes, text, notes)

    def _mirrored(self) -> Condition | None:
        """Return `30 <= age` or `30 <= age < 40`, None if there is no such condition."""
        start = self.place
        value = self.next_token()
        self.place += 1
        sign = self.sign()
        name = self.longest(self.names) if sign in MIRRORED else None
        if value is None or sign is None or name is None:
            self.place = start
            return None
        column = self.columns[self._one_name(name)]
        found = threshold_condition(column, MIRRORED[sign], value.text)
        upper = self.sign()
        if upper is None:
            return found
        if upper not in MIRRORED:
            raise self.unexpected("<, <=, > or >=")
        return self._both(found, column, upper, self._value(column))

    def _level_alone(self) -> Condition:
        """Return the condition of a level without its column, if only one column has it."""
        start = self.place
        owners: dict[str, list[str]] = {}
        for column in self.columns.values():
            for level in codes_by_text(column) if column.levels else ():
                if not re.fullmatch(r"[\d\s.,+-]*|missing|\(missing\)", level):
                    owners.setdefault(level, []).append(column.name)
        text = self.longest(owners)
        if text is not None:
            own = owners[text]
            if len(own) > 1:
                listed = " or ".join(f"{name} = {text}" for name in own[:4])
                raise BadInput(f"{text!r} is a level of {len(own)} columns: write {listed}.")
            return equal_to(self.columns[own[0]], [text])
        self.place = start
        word = self.run()
        near = self._in_waves(word) or similar(word, [*self.columns]) or similar(word, owners)
        raise BadInput(f"There is no column {word!r}.{near or nearest(word, self.columns)}")

    def _level_of_other(self, column: Column) -> Condition | None:
        """Return the condition of a level of another column that begins with this column's name."""
        for other in self.columns.values():
            if other.levels:
                start = self.place
                text = self.longest(codes_by_text(other))
                if text is not None and len(text) > len(column.name):
                    return equal_to(other, [text])
                self.place = start
        return None

    def _values(self, column: Column) -> list[str]:
        """Return the values of a list in brackets."""
        if not self.mark("("):
            raise self.unexpected(f"a list in brackets, as in {column.name} in (LEVEL, LEVEL)")
        found = [self._value(column)]
        while not self.mark(")"):
            if not (self.mark(",") or self.word("or", "and")):
                raise self.unexpected("a comma or the closing bracket")
            found.append(self._value(column))
        return found

    def _value(self, column: Column) -> str:
        """Return the text of a value: the longest level or bin, or all up to the next clause."""
        if self.next_token() is None:
            raise self.unexpected(f"a value of {column.name!r}")
        return self.longest(codes_by_text(column)) or self.run()

    # -- columns

    def _columns(self) -> list[str]:
        found = [self._column("a column after `by`")]
        while True:
            if self.mark(",") or self.word("and", "x", "×", "&"):
                found.append(self._column("a column after the comma"))
            elif (name := self.longest(self.names)) is not None:
                found.append(self._one_name(name))  # `by sex region`
            else:
                return found

    def _column(self, what: str) -> str:
        if self.next_token() is None:
            raise self.unexpected(what)
        name = self.longest(self.names)
        if name is None:
            word = self.run()
            near = self._in_waves(word) or nearest(word, self.columns)
            raise BadInput(f"There is no column {word!r}.{near}")
        return self._one_name(name)

    def _in_waves(self, word: str) -> str:
        """Return a hint if a word is a column that varies between the waves of a panel."""
        names = {} if self.panel is None else self.panel.columns.get(word, {})
        if self.panel is None or not names:
            return ""
        waves = [*names]
        levels = self.columns[next(iter(names.values()))].type.levels
        measure = f"share of {word} = LEVEL" if levels else f"mean of {word}"
        return (
            f" {word!r} has a column for each wave: {', '.join(names.values())}. Name one of them,"
            f" or ask for a change, such as `change in {measure} from {waves[0]} to {waves[-1]}`."
        )

    def _one_name(self, name: str) -> str:
        """Return the column that a text names in any case.

        If several differ by case only, the text must be exact.

        Raises:
            BadInput: if it is not.
        """
        named = self.names[name]
        token = self.tokens[self.place - 1]
        exact = [each for each in named if self.text[: token.end].rstrip("\"'`").endswith(each)]
        if len(named) > 1 and len(exact) != 1:
            raise BadInput(
                f"Columns {' and '.join(named)} differ by capitals only: type one exactly."
            )
        return exact[0] if len(named) > 1 else named[0]

    # -- mistakes

    def _no_measure(self, *, within: bool) -> BadInput:
        words = "count, share, mean of COLUMN or total of COLUMN"
        if not within:
            words = (
                "count, share, ratio or difference; or with mean, total, median, quantile 0.9,"
                " standard deviation, gini or top 10 % share of COLUMN"
            )
            name = self.longest(self.names)
            if name is not None:
                number = self.at_end() and not self.columns[self._one_name(name)].levels
                meant = ("mean of", "total of") if number else ("share of", "count by")
                one, other = (f"`{each} {self.text}`" for each in meant)
                return BadInput(
                    f"A question begins with what is asked: {one}, or {other}. Known are {words}."
                )
        token = self.next_token()
        shown = f"{token.text!r}" if token else "the end"
        near = similar(token.text, (*_MEASURES, *_MEDIANS, *_PARTS, *_SPREADS)) if token else ""
        return BadInput(
            f"{shown} is not known as a measure.{near} A question begins with {words}. Example:"
            f" share by {next(iter(self.columns))}."
        )


def _examples() -> str:
    return "; ".join(f'"{example}"' for example in EXAMPLES[:4])
