"""What each attack means, as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class AttackRow:
    """One attack.

    Attributes:
        name: Name of the attack.
        figure: Its advantage or risk, with the 95 % interval.
        baseline: What it has without the synthetic file, or on records that were not used.
        reference: What it has against a resample of the members, which protects nobody.
        note: What to know about it.
    """

    name: str
    figure: str
    baseline: str
    reference: str
    note: str


def attack_rows(found: Mapping[str, Any]) -> list[AttackRow]:
    """Return the rows of an audit, from `AttackAudit.to_json`."""
    rows = [
        AttackRow(
            "Membership by distance",
            _interval(found["membership_by_distance"]["advantage"]),
            "0",
            _interval(found["membership_by_distance_of_a_resample"]["advantage"]),
            f"advantage; area under the curve {found['membership_by_distance']['auc']:.3f}",
        )
    ]
    shadow = found["membership_by_shadow"]
    if shadow is not None:
        rows.append(
            AttackRow(
                "Membership by shadow files",
                _interval(shadow["advantage"]),
                "0",
                _interval(found["membership_by_shadow_of_a_resample"]["advantage"]),
                f"advantage on the {shadow['targets']} most unusual records;"
                f" {shadow['files_learnt']} files learnt, {shadow['files_judged']} judged",
            )
        )
    others = [found["singling_out"], found["linkability"]]
    named = [("Singling out", others[0]), ("Linkability", others[1])]
    named += [(f"Inference of {one['name']}", one) for one in found["inference"]]
    for name, one in named:
        if one is not None:
            rows.append(
                AttackRow(
                    name,
                    _interval(one["risk"]),
                    f"{_share(one['baseline'])} by guessing, {_share(one['control'])} on control",
                    "",
                    f"risk; {_share(one['members'])} of the attempts on members succeed"
                    + ("; no better than guessing, so it says nothing" if one["weak"] else ""),
                )
            )
    return rows


def _interval(found: Mapping[str, float]) -> str:
    return f"{found['value']:.3f} ({found['low']:.3f} to {found['high']:.3f})"


def _share(found: Mapping[str, int]) -> str:
    return f"{100 * found['successes'] / max(found['attempts'], 1):.1f} %"
