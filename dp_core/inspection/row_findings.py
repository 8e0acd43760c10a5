"""Rules between columns, rows per person, repeated headers, shared missingness. Confidential."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_core.confidential.between_columns import DependencyCheck, RuleCheck
from dp_core.confidential.encoding import rule_rows, settle_zeros
from dp_core.confidential.person_rows import Persons, hashes
from dp_core.errors import BadInput
from dp_core.inspection.column_tally import Tally
from dp_core.inspection.findings import Example, Finding, Severity, some_rows
from dp_core.inspection.value_findings import FEWEST_ROWS
from dp_core.kernel.coding.encoder import Encoded
from dp_core.kernel.coding.problems import Problem
from dp_core.kernel.coding.stored_texts import is_text
from dp_core.schema.definition import Schema
from dp_core.schema.rules.file_rules import file_rules
from dp_core.schema.structure.structural_zeros import StructuralZeros

ROW_EXAMPLES = 4
"""Most rows that are shown for a rule."""

_ADVICE = (
    "Correct the file or the rule. To set the rule's last column to missing in such rows, give it"
    " `missing: level` and `out_of_range: missing`."
)
_ADVICE_WITHIN = "Correct the file or the schema's map."
_FEWEST_TOGETHER = 3  # columns
_NAMED_TOGETHER = 6
_AROUND = " \t\u00a0\ufeff"
"""What may stand around a name in a repeated header, such as a byte order mark."""


class RowChecks:
    """Checks the rules between columns in batches of rows. Confidential.

    A rule is checked if the file has all its columns, in the rows whose values of these columns
    are in the schema.

    Args:
        schema: The schema in whose codes the file is stored.
        present: Names of the schema's columns that the file has.
    """

    def __init__(self, schema: Schema, present: Sequence[str]) -> None:
        columns = tuple(column for column in schema.columns if column.name in present)
        names = {column.name for column in columns}
        stated = [rule for rule in schema.zeros.rules if not rule.derived]
        zeros = StructuralZeros(tuple(rule for rule in stated if names.issuperset(rule.columns)))
        rules = tuple(rule for rule in schema.rules if names.issuperset(rule.columns))
        dependents = []
        for dependent in schema.dependents:
            if dependent.source in names and dependent.column.name in present:
                dependents.append(dependent)
                names.add(dependent.column.name)
        self.schema = replace(
            schema,
            columns=columns,
            zeros=zeros,
            rules=rules,
            dependents=tuple(dependents),
            stored_zeros=None,
        )
        self._rules = file_rules(self.schema)
        self._compared = RuleCheck(self._rules)
        self._dependencies = DependencyCheck(self._rules)
        self._broken: Counter[str] = Counter()
        self._settled: Counter[str] = Counter()
        self._examples: dict[str, list[Example]] = {}
        self._rows = 0

    def add(self, records: pa.RecordBatch, encoded: Mapping[str, Encoded]) -> None:
        """Check a batch.

        Args:
            records: The rows, under the schema's names.
            encoded: Codes of each column that the file has.
        """
        schema, domain = self.schema, self.schema.domain
        if not schema.columns or not (schema.dependents or self._rules.row_rules):
            return
        codes = [np.array(encoded[name].codes) for name in domain.columns]
        for name, wrong in self._dependencies.disagreeing(records, codes).items():
            source = next(d.source for d in self.schema.dependents if d.column.name == name)
            self._note(name, wrong & _good(encoded, (name, source)), records, (source, name))
        units = self._compared.units(records)
        by_name = dict(zip(domain.columns, codes, strict=True))
        for settled in settle_zeros(self._rules, by_name, units):
            self._settled[settled.rule.text] += settled.settled
        rows = rule_rows(self._rules, by_name, units)
        for rule in self._rules.row_rules:
            broken = rule.breaks(rows) & _good(encoded, rule.columns)
            self._note(rule.text, broken, records, rule.columns)
        self._rows += records.num_rows

    def _note(
        self,
        name: str,
        broken: NDArray[np.bool_],
        records: pa.RecordBatch,
        columns: Sequence[str],
    ) -> None:
        rows = np.flatnonzero(broken)
        self._broken[name] += len(rows)
        examples = self._examples.setdefault(name, [])
        for row in rows[: ROW_EXAMPLES - len(examples)].tolist():
            cells = ", ".join(f"{one} {records.column(one)[row].as_py()}" for one in columns)
            panel = self.schema.panel
            which = f"row {self._rows + row + 1}"
            if panel is not None:  # records are not in the order of the file
                which = f"person {records.column(panel.person)[row].as_py()}"
            examples.append(Example(f"{which}: {cells}"))

    def findings(self) -> Iterator[Finding]:
        """Yield what was found in all rows."""
        for dependent in self.schema.dependents:
            name = dependent.column.name
            if rows := self._broken[name]:
                yield Finding(
                    "refusal",
                    "dependent",
                    name,
                    f"{some_rows(rows, 'differ')} from the value that the rule derives from"
                    f" {dependent.source!r}.",
                    "Correct the file or the schema's map. With `out_of_range: missing` on the"
                    " column, the derived value replaces the value in the file.",
                    rows,
                    tuple(self._examples[name]),
                )
        keys = {rule.text: rule.key for rule in self._rules.row_rules}
        for text, key in keys.items():
            named = f"`impossible` rule {{{text}}}" if key == "impossible" else f"rule `{text}`"
            broken, settled = self._broken[text], self._settled[text]
            message = f"{some_rows(broken or settled, 'break')} the {named}."
            if broken:
                fix = _ADVICE_WITHIN if key == "within" else _ADVICE
                examples = tuple(self._examples[text])
                yield Finding("refusal", key, "", message, fix, broken, examples)
            elif settled:
                fix = "A release sets a column of the rule to missing in these rows."
                yield Finding("settled", key, "", message, fix, settled)


def _good(encoded: Mapping[str, Encoded], names: Sequence[str]) -> NDArray[np.bool_]:
    """Return the rows whose values of some columns are in the schema."""
    rows = len(next(iter(encoded.values())).codes)
    good = np.ones(rows, np.bool_)
    for name in names:
        if name in encoded and (bad := encoded[name].bad) is not None:
            good &= ~bad
    return good


class PersonCheck:
    """Counts the rows of each person. Confidential.

    Args:
        schema: A schema whose unit of privacy is a person.
    """

    def __init__(self, schema: Schema) -> None:
        self._unit = schema.unit
        self._persons: list[Persons] = []
        self._nobody = 0
        self._unsuitable: Finding | None = None

    def add(self, identifiers: pa.Array) -> None:
        """Add the identifiers of a batch."""
        if self._unsuitable is not None:
            return
        name = str(self._unit.column)
        try:
            persons, without = hashes(name, identifiers, self._unit.missing_values)
        except BadInput as error:
            about = error.message.partition(";")
            message = f"{about[0]}."
            fix = "Store it as text or whole numbers, so that a person has one identifier."
            self._unsuitable = Finding("refusal", "identifier", name, message, fix)
            return
        self._persons.append(persons)
        self._nobody += without

    def findings(self) -> Iterator[Finding]:
        """Yield rows without a person, and persons with more rows than the limit."""
        if self._unsuitable is not None:
            yield self._unsuitable
            return
        name, most = str(self._unit.column), self._unit.max_rows
        if self._nobody:
            yield Finding(
                "refusal",
                "identifier",
                name,
                f"{some_rows(self._nobody, 'have')} no identifier, so the rows of a person cannot"
                " be limited.",
                "Fill the column, or remove these rows from the file.",
                self._nobody,
            )
        if not self._persons:
            return
        _, rows = np.unique(np.concatenate(self._persons), axis=0, return_counts=True)
        above = rows[rows > most]
        if above.size:
            lost = int((above - most).sum())
            yield Finding(
                "settled",
                "max-rows",
                name,
                f"{above.size:,} of {rows.size:,} persons {'has' if above.size == 1 else 'have'}"
                f" more rows than `max_rows` ({most:,}) allows; the largest number is"
                f" {int(rows.max()):,}.",
                f"A release drops {lost:,} of their rows. Raise `max_rows` only if public"
                " knowledge allows more: the noise grows with it.",
                lost,
            )
        elif rows.max(initial=0) <= 1 < most:
            yield Finding(
                "hint",
                "max-rows",
                name,
                f"Every person has one row, and `max_rows` is {most}.",
                "If each person can have only one row, write `max_rows: 1`. The noise is then"
                f" {most} times smaller.",
            )


class SharedMissingness:
    """Finds columns that are missing in the same rows, which a rule could say. Confidential.

    A release that does not know of it spends much of its budget on the pairs of these columns, and
    what else they say is lost in noise. Each row has a random number of 64 bits. Of each column,
    the check keeps the number of rows without a value and the sum of their numbers.

    Args:
        schema: The schema in whose codes the file is stored.
        present: Names of the schema's columns that the file has.
    """

    def __init__(self, schema: Schema, present: Sequence[str]) -> None:
        self._schema, self._rows = schema, 0
        self._codes = {
            column.name: column.missing_code
            for column in schema.columns
            if column.missing_code is not None and column.name in present and schema.panel is None
        }
        self._found = dict.fromkeys(self._codes, (0, 0))
        self._rng = np.random.default_rng()

    def add(self, encoded: Mapping[str, Encoded], rows: int) -> None:
        """Count a batch of so many rows, given the codes of its columns."""
        marks = self._rng.integers(2**64, size=rows, dtype=np.uint64)
        for name, code in self._codes.items():
            missing = encoded[name].codes == code
            number, total = self._found[name]
            more = int(marks[missing].sum(dtype=np.uint64))
            self._found[name] = number + int(missing.sum()), (total + more) % 2**64
        self._rows += rows

    def findings(self) -> Iterator[Finding]:
        """Yield a hint for each group of columns that are missing together, but not by a rule."""
        groups: dict[tuple[int, int], list[str]] = {}
        for name, found in self._found.items():
            groups.setdefault(found, []).append(name)
        for (number, _), names in groups.items():
            first, *others = names
            free = [name for name in others if not self._is_ruled(first, name)]
            if (
                not 0 < number < self._rows
                or self._rows < FEWEST_ROWS
                or len(free) + 1 < _FEWEST_TOGETHER
            ):
                continue
            rest = len(free) + 1 - _NAMED_TOGETHER
            said = ", ".join([first, *free][:_NAMED_TOGETHER]) + f" and {rest} more" * (rest > 0)
            yield Finding(
                "hint",
                "missing-together",
                "",
                f"{said} are missing in the same {number:,} rows.",
                "If the survey's design makes it so, and that is public, say it by `rules`: `if"
                f" {first} is missing then {free[0]} is missing` and `if {first} is not missing"
                f" then {free[0]} is not missing`, likewise for the others. Otherwise a release"
                " spends much of its budget on learning it.",
                number,
            )

    def _is_ruled(self, one: str, other: str) -> bool:
        """Return whether rules exclude that only the second of two columns is missing."""
        with_other: set[int] = {self._codes[one]}
        for rule in self._schema.zeros.rules:
            codes = dict(zip(rule.columns, rule.codes, strict=True))
            if {*codes} == {one, other} and self._codes[other] in codes[other]:
                with_other.update(codes[one])
        return len(with_other) == self._schema.domain.size((one,))


class RepeatedHeaders:
    """Finds the rows in which every column has its own name, in any capital letters. Confidential.

    Args:
        tallies: The tally of each column. `findings` removes the names in header lines from them,
            so that these are one finding and not one for each column.
    """

    def __init__(self, tallies: Mapping[str, Tally]) -> None:
        self._tallies = tallies
        self._texts: dict[str, Counter[str]] = {name: Counter() for name in tallies}
        # A row of levels that are also the names of their columns is no header.
        self._can_tell = any(
            name.lower() not in {level.lower() for level in tally.column.texts()}
            for name, tally in tallies.items()
        )
        self._first: int | None = None
        self._rows = 0

    def add(
        self, records: pa.RecordBatch, names: Mapping[str, str], before: int
    ) -> NDArray[np.intp]:
        """Return the indices of the header lines in a batch.

        Args:
            records: The rows, under the schema's names.
            names: Name of each column in the file.
            before: Number of rows before the batch.
        """
        places, none = np.arange(records.num_rows), np.zeros(0, np.intp)
        if not self._can_tell:
            return none
        for name in names:
            found = records.column(name).take(pa.array(places))
            coded = pa.types.is_dictionary(found.type)
            texts = found.dictionary if coded else found
            if not is_text(texts.type) or not len(places):
                return none
            own = pa.scalar(names[name].strip(_AROUND).lower(), texts.type)
            equal = pc.equal(_folded_texts(texts), own)
            equal = pc.fill_null(equal.take(found.indices) if coded else equal, False)
            places = places[equal.to_numpy(zero_copy_only=False)]
        if not len(places):
            return none
        if self._first is None:
            self._first = before + int(places[0]) + 1
        self._rows += len(places)
        for name, counted in self._texts.items():
            values = records.column(name).take(pa.array(places))
            counted.update(values.to_pylist())
        return places

    def findings(self) -> Iterator[Finding]:
        """Yield the finding about repeated headers, and remove their names from the tallies."""
        if not self._rows or not self._tallies:
            return
        severity: Severity = "settled"
        strange = False
        for name, texts in self._texts.items():
            tally = self._tallies[name]
            problem = Problem.LEVEL if tally.column.levels else Problem.TYPE
            own = {text: rows for text, rows in texts.items() if text in tally.strangers}
            strange |= bool(own)
            if own and problem in tally.encoder.refused:
                severity = "refusal"
            tally.strangers.subtract(own)
            tally.strangers += Counter()  # drops what has no rows left
            tally.problems[problem] -= sum(own.values())
        if strange:
            fix = "Remove them; when files are joined, keep the header of the first only."
            if severity == "settled":
                fix = f"A release treats their texts as missing. {fix}"
            message = (
                f"{some_rows(self._rows, 'repeat')} the header; the first is row {self._first:,}."
            )
            yield Finding(severity, "header-repeated", "", message, fix, self._rows)


def _folded_texts(texts: pa.Array) -> pa.Array:
    return pc.utf8_lower(pc.utf8_trim(texts, characters=_AROUND))
