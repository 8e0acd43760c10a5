"""The rows and persons of a panel that do not fit its schema. Confidential."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from dp_core.errors import SchemaViolation
from dp_core.schema.panel.panel_waves import Panel

EXAMPLES = 5
"""Most persons that are kept as examples of a misfit."""
_SHOWN = 5


@dataclass(slots=True)
class Misfits:
    """The rows and persons of a panel that do not fit its schema. Confidential.

    Attributes:
        without: Rows without an identifier of their person.
        unknown: Number of rows of each wave that the schema does not name, by the wave's text.
        repeated: Persons with several rows in a wave, by wave.
        absent: Persons without a row in a wave, by wave, if everyone takes part in every wave.
        disagreeing: Persons with several values of a constant column, by column.
        examples: Identifiers of the first persons of each kind, by kind and wave or column.
    """

    without: int = 0
    unknown: dict[str, int] = field(default_factory=dict)
    repeated: dict[str, int] = field(default_factory=dict)
    absent: dict[str, int] = field(default_factory=dict)
    disagreeing: dict[str, int] = field(default_factory=dict)
    examples: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def note(self, kind: str, where: str, persons: pa.Array) -> None:
        """Count persons of one kind of misfit: `repeated`, `absent` or `disagreeing`."""
        if len(persons):
            counts: dict[str, int] = getattr(self, kind)
            counts[where] = counts.get(where, 0) + len(persons)
            shown = self.examples.setdefault((kind, where), [])
            shown += persons.slice(0, EXAMPLES - len(shown)).to_pylist()

    def violation(self, panel: Panel) -> SchemaViolation | None:
        """Return the error about them, whose message names no value and no count; None if none."""
        said, detail = [], []
        if self.without:
            said.append(
                f"rows without an identifier in {panel.person!r}, which belong to no person; fill"
                " the column, or remove these rows"
            )
            detail.append(f"{self.without} rows without an identifier")
        if self.unknown:
            said.append(
                f"rows of a wave that the schema does not name; add it to `waves` or to"
                f" `ignore_waves`, or correct {panel.wave!r}"
            )
            detail += [f"{rows} rows of wave {wave!r}" for wave, rows in self.unknown.items()]
        if self.repeated:
            waves = _listed(_in_order(self.repeated, panel))
            said.append(
                f"persons with several rows in wave {waves}; correct the rows, or state"
                " `repeated: keep_one` under `panel`"
            )
            detail += [f"{n} persons with several rows: {w}" for w, n in self.repeated.items()]
        if self.absent:
            waves = _listed(_in_order(self.absent, panel))
            said.append(
                f"persons without a row in wave {waves}; add the rows, or remove `everyone: true`"
            )
            detail += [f"{n} persons without a row: {w}" for w, n in self.absent.items()]
        if self.disagreeing:
            said.append(
                f"persons whose {_listed(self.disagreeing)} differs between waves, although it is"
                " constant; correct the rows, or state `disagreeing: first` under `panel`"
            )
            detail += [f"{n} persons with several values: {c}" for c, n in self.disagreeing.items()]
        if not said:
            return None
        more = " It also has ".join(f"{each}." for each in said)
        return SchemaViolation(f"The panel has {more}", internal="\n".join(detail))


def _in_order(counts: Mapping[str, int], panel: Panel) -> list[str]:
    return [wave for wave in panel.waves if wave in counts]


def _listed(names: Collection[str]) -> str:
    shown = list(names)[:_SHOWN]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(shown)}{more}"
