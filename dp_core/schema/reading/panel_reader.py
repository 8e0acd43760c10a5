"""Reads the schema of a panel as a schema of records: a varying column becomes one for each wave.

The result is the document of a single table with one row for each person, which is read like any
other. `Schema.document` has this form too: its key `panel` names the columns of each wave, which
are read as they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from dp_core.schema.definition import Schema
from dp_core.schema.panel.panel_waves import (
    ABSENT,
    IN,
    TAKES_PART,
    Disagreeing,
    Panel,
    Repeated,
    wave_column,
)
from dp_core.text.documents.faults import Faults
from dp_core.text.documents.node import TRUE, Node, one_of
from dp_core.text.documents.strict_yaml import texts_in
from dp_core.text.documents.typed_text import quote

EXAMPLE = "{person: person_id, wave: year, waves: [2023, 2024, 2025]}"
MOST_WAVES = 60
"""Most waves of a panel."""
_KEYS = (
    "person",
    "wave",
    "waves",
    "everyone",
    "ignore_waves",
    "repeated",
    "disagreeing",
)
_MADE = ("columns", "takes_part", "required")
"""Further keys of the document of a schema of records."""
_REPEATED: tuple[Repeated, ...] = ("reject", "keep_one")
_DISAGREEING: tuple[Disagreeing, ...] = ("first", "reject")
_OF_COLUMN = ("constant", "waves")
"""Keys of a column that only a panel has."""
_CONSTANT_ONLY = {
    "within": "areas within areas",
    "role": "weights and columns of the sample design",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedPanel:
    """A panel as the schema file states it.

    Attributes:
        flat: The document of a single table of records, to be read like any other.
        panel: The waves.
        definitions: The columns of the file; none for a document of records, whose names were
            checked when it was made.
    """

    flat: Node
    panel: Panel
    definitions: Mapping[str, Node] = field(default_factory=dict)

    def of(self, schema: Schema) -> Schema:
        """Return the schema of records, which was read from `flat`, with its waves."""
        document = {"panel": _document(self.panel), **schema.document}
        waves = (self.panel.waves[0], self.panel.waves[-1])
        unit = replace(schema.unit, waves=waves)
        return replace(schema, panel=self.panel, unit=unit, document=document)


def read_panel(root: Node, faults: Faults) -> StatedPanel:
    """Return the panel that a schema states.

    Args:
        root: The document.
        faults: Notes the faults.

    Raises:
        BadInput: if the waves cannot be read, so that nothing else can be checked.
    """
    entries = root.entries()
    node = entries["panel"]
    if node.has("columns"):
        return StatedPanel(flat=root.without("panel"), panel=_of_records(node))
    stated = faults.of(None, _read_stated, node)
    definitions = None
    if "columns" in entries:
        example = "work: {type: category, levels: [employed, other]}"
        definitions = faults.of(None, entries["columns"].ordered_entries, example=example)
    if stated is None or definitions is None:
        if "columns" not in entries:
            faults.of(None, root.fields, tuple(entries), required=("columns",))
        faults.stop()
        raise AssertionError("the fault was noted")
    if "unit" in entries:
        faults.note(
            entries["unit"].error(
                "a panel protects persons with all their waves, and `panel` names them; remove"
                " `unit`."
            )
        )
    for word in (stated.person, stated.wave):
        if word is not None:
            faults.of(None, _check_key, word, definitions, entries.get("ignore"), node)
    return _Records(entries, definitions, stated, faults).make(root)


def _read_stated(node: Node) -> Panel:
    """Return the panel without its columns."""
    keys = node.fields(_KEYS, required=("person", "waves"), example=EXAMPLE)
    waves = keys["waves"].texts(example="[2023, 2024, 2025]")
    if len(waves) < 2:
        raise keys["waves"].error(
            "has fewer than two waves; list all of them, or remove `panel` if there is only one."
        )
    if len(waves) > MOST_WAVES:
        raise keys["waves"].error(f"has {len(waves)} waves; a panel has at most {MOST_WAVES}.")
    named: dict[str, str] = {}
    for wave in waves:
        if not re.search(r"[A-Za-z0-9]", wave) or wave != wave.strip():
            raise keys["waves"].error(
                f"{quote(wave)} cannot be part of the name of a column; name the wave with letters"
                " or digits, without blanks around them."
            )
        name = wave_column("", wave)
        if name in named:
            raise keys["waves"].error(
                f"{quote(named[name])} and {quote(wave)} would give the same names of columns;"
                " name the waves by different letters and digits."
            )
        named[name] = wave
    person = keys["person"].key_column()
    wave_in = keys["wave"].name() if "wave" in keys else None
    if wave_in == person:
        raise keys["wave"].error("is also the `person`; name the column that holds the wave.")
    ignored = keys["ignore_waves"].texts(example="[2022]") if "ignore_waves" in keys else ()
    if ignored and wave_in is None:
        raise keys["ignore_waves"].error(
            "needs `wave`: with a file for each wave, name only the files of the waves you want."
        )
    for wave in ignored:
        if wave in waves:
            raise keys["ignore_waves"].error(
                f"{quote(wave)} is also under `waves`; keep it in one of the two places."
            )
    everyone = keys["everyone"].boolean() if "everyone" in keys else False
    return Panel(
        person=person,
        wave=wave_in,
        waves=waves,
        columns={},
        takes_part={} if everyone else {wave: wave_column(IN, wave) for wave in waves},
        ignore_waves=ignored,
        repeated=one_of(keys.get("repeated"), _REPEATED),
        disagreeing=one_of(keys.get("disagreeing"), _DISAGREEING),
    )


def _check_key(
    name: str, definitions: Mapping[str, Node], ignore: Node | None, panel: Node
) -> None:
    """Refuse the `person` or `wave` column if it is also released or ignored."""
    role = None
    if name in definitions and isinstance(definitions[name].content, Mapping):
        role = definitions[name].entries().get("role")
    if name in definitions and (role is None or role.content != "id"):
        raise panel.error(
            f"{quote(name)} tells persons or waves apart and is not released; remove it from"
            " `columns`."
        )
    if ignore is not None and isinstance(ignore.content, tuple):
        for item in ignore.content:
            if item.content == name:
                raise panel.error(
                    f"{quote(name)} tells persons or waves apart, so it is read; remove it from"
                    " `ignore`."
                )


@dataclass
class _Records:
    """Makes the document of records from the keys of a document and the columns of its file."""

    _entries: Mapping[str, Node]
    _definitions: Mapping[str, Node]
    _stated: Panel
    _faults: Faults
    _zeros: list[Node] = field(default_factory=list)
    _required: list[str] = field(default_factory=list)

    @cached_property
    def _levels(self) -> set[str]:
        """Texts and labels of all listed levels."""
        return {
            word
            for node in self._definitions.values()
            if node.has("levels")
            for word in texts_in(node.entries()["levels"])
        }

    def make(self, root: Node) -> StatedPanel:
        """Return the panel with its columns and the document of records."""
        place = self._entries["columns"]
        columns: dict[str, Node] = {}
        varying: dict[str, tuple[Node, tuple[str, ...]]] = {}
        bad: set[str] = set()
        for name, node in self._definitions.items():
            found = self._faults.of(None, self._read, node)
            if found is None:
                bad.add(name)
            elif found[1]:
                varying[name] = found
            else:
                columns[name] = found[0]
        names = {
            name: {wave: wave_column(name, wave) for wave in waves}
            for name, (_, waves) in varying.items()
        }
        panel = replace(self._stated, columns=names)
        if not varying and not bad:
            self._faults.note(
                place.error("has no column that varies between waves; remove `panel`.")
            )
        for wave in panel.waves:
            if not panel.balanced:
                part = {
                    "type": "category",
                    "levels": TAKES_PART,
                    "out_of_range": "reject",
                    "description": f"Whether the person takes part in wave {wave}",
                }
                self._add(columns, panel.takes_part[wave], place.stating(part), place)
            for name, (node, waves) in varying.items():
                if wave in waves:
                    one = self._faults.of(None, self._of_wave, name, node, wave, panel)
                    if one is None:
                        bad.add(names[name][wave])
                        continue
                    self._add(columns, names[name][wave], one, node)
        panel = replace(panel, required=tuple(self._required))
        flat = dict(self._entries)
        del flat["panel"]
        flat["columns"] = replace(place, content=columns)
        at = self._entries["panel"]
        flat["unit"] = at.stating({"column": panel.person, "max_rows": 1})
        if not panel.balanced:
            nobody = {name: "no" for name in panel.takes_part.values()}
            self._zeros.append(at.stating(nobody))
        for key, zeros in (("rules", []), ("impossible", self._zeros)):
            stated = flat.get(key, replace(at, content=()))
            if (key in flat or zeros) and isinstance(stated.content, tuple):
                items = (one for item in stated.content for one in self._in_waves(item, panel))
                flat[key] = replace(stated, content=(*items, *zeros))
        self._faults.bad |= bad
        self._faults.bad |= {one for name in bad if name in names for one in names[name].values()}
        return StatedPanel(
            flat=replace(root, content=flat),
            panel=panel,
            definitions=self._definitions,
        )

    def _add(self, columns: dict[str, Node], name: str, node: Node, place: Node) -> None:
        if name in self._definitions or name in columns:
            self._faults.note(
                self._definitions.get(name, place).error(
                    f"the name {quote(name)} is that of a column of a wave, which the program"
                    " makes; rename the column in the file."
                )
            )
            return
        columns[name] = node

    def _read(self, node: Node) -> tuple[Node, tuple[str, ...]]:
        """Return the definition without a panel's keys, and the waves that have the column.

        A constant column, and one that is not read, has no waves of its own.
        """
        keys = node.entries(example="{type: integer, min: 0, max: 80, constant: true}")
        rest = node.without(*_OF_COLUMN)
        role = keys.get("role")
        if role is not None and role.content == "id":
            return rest, ()
        constant = keys["constant"].boolean() if "constant" in keys else False
        if constant:
            if "waves" in keys:
                raise keys["waves"].error(
                    "a constant column has one value for all waves; remove `waves` or `constant`."
                )
            follows = keys.get("follows")
            other = None if follows is None else self._definitions.get(str(follows.content))
            if follows is not None and other is not None and not _is_constant(other):
                raise follows.error(
                    f"{quote(str(follows.content))} varies between waves, so a column that follows"
                    " it does too; remove `constant`."
                )
            return rest, ()
        for key, what in _CONSTANT_ONLY.items():
            if key in keys:
                raise keys[key].error(
                    f"in a panel, {what} are the same in every wave; give the column"
                    " `constant: true`, or put it under `ignore`."
                )
        waves = self._stated.waves
        if "waves" not in keys:
            return rest, waves
        own = keys["waves"].texts(example="[2024, 2025]")
        for wave in own:
            if wave not in waves:
                raise keys["waves"].error(
                    f"{quote(wave)} is not a wave of the panel, which has {', '.join(waves)}."
                )
        if not own:
            raise keys["waves"].error("has no wave; list the waves that have the column.")
        return rest, tuple(wave for wave in waves if wave in own)

    def _of_wave(self, name: str, node: Node, wave: str, panel: Panel) -> Node:
        """Return the definition of a varying column in one wave."""
        keys = dict(node.entries())
        about = keys.get("description")
        told = about.content if about is not None and isinstance(about.content, str) else name
        keys["description"] = (about or node).stating(f"{told} (wave {wave})")
        if "follows" in keys:
            return self._dependent(keys, node, wave, panel)
        if panel.balanced:
            return replace(node, content=keys)
        part, own = panel.takes_part[wave], panel.name(name, wave)
        missing = keys.get("missing")
        may_be_missing = missing is not None and missing.content == "level"
        if _is_listed_category(keys):
            keys["levels"] = _with_absent(keys["levels"])
            absent: object = ABSENT
            present: object = {"not": ABSENT}
            if may_be_missing:
                present = [present, "missing"]
            self._zeros.append(node.stating({part: "yes", own: absent}))
        else:
            # Whether the value is missing says whether the person takes part.
            present = {"not": "missing"}
            if missing is None or missing.content == "reject":
                keys["missing"] = (missing or node).stating("level")
                self._required.append(own)
                self._zeros.append(node.stating({part: "yes", own: "missing"}))
        self._zeros.append(node.stating({part: "no", own: present}))
        return replace(node, content=keys)

    def _dependent(self, keys: dict[str, Node], node: Node, wave: str, panel: Panel) -> Node:
        """Return the definition of a column that follows another one, in one wave."""
        source = keys["follows"].name()
        if source not in panel.columns:
            return replace(node, content=keys)
        if wave not in panel.columns[source]:
            raise keys["follows"].error(f"{quote(source)} is not a column of wave {wave}.")
        keys["follows"] = replace(keys["follows"], content=panel.name(source, wave))
        if panel.balanced or not _is_listed_category(self._definitions[source].entries()):
            missing = keys.get("missing")
            if not panel.balanced and missing is not None and missing.content == "reject":
                keys["missing"] = replace(missing, content="level")
            return replace(node, content=keys)
        if "map" not in keys or not isinstance(keys["map"].content, Mapping):
            raise node.error(
                f"follows {quote(source)}, which has the level {quote(ABSENT)} in a panel; write"
                " the `map` in the schema, as in `map: {a: x, b: y}`."
            )
        mapped = keys["map"]
        assert isinstance(mapped.content, Mapping)
        keys["map"] = replace(mapped, content={**mapped.content, ABSENT: mapped.stating(ABSENT)})
        if _has_listed_levels(keys.get("levels")):
            keys["levels"] = _with_absent(keys["levels"])
        return replace(node, content=keys)

    def _in_waves(self, item: Node, panel: Panel) -> tuple[Node, ...]:
        """Return a rule in every wave if it names columns of the file that vary between waves."""
        levels = self._levels
        renamed = {name: _with_names(item, {name: f"{name}_"}, levels) for name in panel.columns}
        names = [name for name, other in renamed.items() if other != item]
        if not names:
            return (item,)
        waves = [w for w in panel.waves if all(w in panel.columns[name] for name in names)]
        found = {
            wave: _with_names(item, {n: panel.name(n, wave) for n in names}, levels)
            for wave in waves
        }
        if panel.balanced or not isinstance(item.content, str):
            return tuple(found.values())
        # The rule holds for the persons who take part in the wave.
        return tuple(
            replace(each, content=_for_those_in(panel.takes_part[wave], str(each.content)))
            for wave, each in found.items()
        )


def _for_those_in(takes_part: str, rule: str) -> str:
    """Return a rule between columns for the persons who take part in a wave.

    >>> _for_those_in("in_2023", "if work_2023 == inactive then income_2023 <= 999")
    'if in_2023 == yes and work_2023 == inactive then income_2023 <= 999'
    """
    condition = re.match(r"\s*if\s+", rule, re.IGNORECASE)
    if condition is None:
        return f"if {takes_part} == yes then {rule}"
    return f"if {takes_part} == yes and {rule[condition.end() :]}"


def _is_constant(node: Node) -> bool:
    return node.has("constant") and str(node.entries()["constant"].content).lower() in TRUE


def _is_listed_category(keys: Mapping[str, Node]) -> bool:
    """Return whether a column is a category with levels to which one more can be added."""
    kind = keys.get("type")
    return (
        kind is not None and kind.content == "category" and _has_listed_levels(keys.get("levels"))
    )


def _has_listed_levels(levels: Node | None) -> bool:
    """Return whether levels are listed, so that one more can be added."""
    if levels is None:
        return False
    if isinstance(levels.content, Mapping):
        return not {"private", "rest"} & {*levels.content}
    return isinstance(levels.content, tuple)


def _with_absent(levels: Node) -> Node:
    """Return listed levels with the level of a person who is not in the wave."""
    one = levels.stating(ABSENT)
    if isinstance(levels.content, tuple):
        return replace(levels, content=(*levels.content, one))
    assert isinstance(levels.content, Mapping)
    return replace(levels, content={**levels.content, ABSENT: one})


def _with_names(item: Node, names: Mapping[str, str], levels: Collection[str]) -> Node:
    """Return a rule with columns renamed; levels with the same text stay as they are."""
    if isinstance(item.content, Mapping):
        renamed = {names.get(key, key): value for key, value in item.content.items()}
        return replace(item, content=renamed)
    if isinstance(item.content, tuple):
        return replace(item, content=tuple(_with_names(one, names, levels) for one in item.content))
    if item.content is None:
        return item
    # The first alternatives leave lists of levels, and a level after a sign, as they are.
    words = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    known = "|".join(re.escape(name) for name in names if name in levels) or "(?!)"
    pattern = re.compile(rf"\[[^\]]*\]|[=!]=\s*(?:{known})(?!\w)|(?<!\w)(?:{words})(?!\w)")
    return replace(
        item, content=pattern.sub(lambda found: names.get(found[0], found[0]), item.content)
    )


def _of_records(node: Node) -> Panel:
    """Return the panel that the document of a schema of records names."""
    keys = node.fields((*_KEYS, *_MADE), required=("person", "waves", *_MADE[:2]))
    stated = {key: value for key, value in keys.items() if key not in _MADE}
    panel = _read_stated(replace(node, content=stated))

    def names_of(one: Node) -> dict[str, str]:
        names = one.entries()
        return {wave: names[wave].name() for wave in panel.waves if wave in names}

    columns = keys["columns"].ordered_entries(example="work: {2023: work_2023}")
    return replace(
        panel,
        columns={name: names_of(one) for name, one in columns.items()},
        takes_part=names_of(keys["takes_part"]),
        required=keys["required"].texts() if "required" in keys else (),
    )


def _document(panel: Panel) -> dict[str, object]:
    """Return the panel as the document of a schema of records states it."""
    return {
        "person": panel.person,
        **({} if panel.wave is None else {"wave": panel.wave}),
        "waves": list(panel.waves),
        **({"everyone": "true"} if panel.balanced else {}),
        **({"ignore_waves": list(panel.ignore_waves)} if panel.ignore_waves else {}),
        "repeated": panel.repeated,
        "disagreeing": panel.disagreeing,
        "columns": [{name: dict(names)} for name, names in panel.columns.items()],
        "takes_part": dict(panel.takes_part),
        **({"required": list(panel.required)} if panel.required else {}),
    }
