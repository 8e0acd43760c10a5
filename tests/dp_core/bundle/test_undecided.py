"""A bundle by a method that this program does not have: no fault, and never verified."""

from __future__ import annotations

import dataclasses
import shutil
from fractions import Fraction
from typing import ClassVar

import pytest

from dp_core.accounts.guarantee import tightest
from dp_core.bundle.reading import read_bundle
from dp_core.bundle.verification.claims import read_charge, unknown_method
from dp_core.bundle.verification.verify import verify
from dp_core.errors import BadInput
from dp_core.inference.combining_rules import inference_statement
from dp_core.kernel.canonical import digest
from dp_core.methods import registry
from dp_core.methods.selection.selector import PlannedSelector
from tests.dp_core.bundle.conftest import make_published, write
from tests.dp_core.bundle.forgery import relink, reseal, statement_of


class Newer(PlannedSelector):
    """A selection of a later version."""

    def fixed_selection(self, domain):
        raise NotImplementedError


class Drawing(Newer):
    """One that draws records."""

    gives: ClassVar = frozenset({"records"})

    def draws(self, domain, relation):  # noqa: ARG002
        return 1


@pytest.fixture(scope="module", params=[Newer, Drawing], ids=["tables", "records"])
def unknown(request, tmp_path_factory):
    """A bundle as a version that has the method `newer` wrote it."""
    folder, find = tmp_path_factory.mktemp("unknown"), registry.find
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            registry,
            "find",
            lambda family, name: request.param if name == "newer" else find(family, name),
        )
        published, data = make_published(select="newer")
        published = dataclasses.replace(
            published, software={"python": "3.11", "dp_release": "99.1"}
        )
        if request.param is Newer:
            charges = [read_charge(row) for row in published.receipts if row.kind == "charge"]
            asked = [(charge.event, charge.asks) for charge in charges]
            paid = (published.currency, published.privacy, asked)
            published = dataclasses.replace(published, tightest=tightest(*paid))
        out = write(folder / "out", published, data, folder / "scratch")
        assert verify(out).passed
    return out


def test_what_rests_on_the_method_is_undecided_and_the_rest_is_checked(unknown):
    found = verify(unknown)
    assert (found.passed, found.undecided) == (False, True)
    # What is stated by the reserved total rests on no method.
    stated = statement_of(unknown)["guarantee"]
    rests = {"guarantee"} if stated["tightest"] != stated["enforced"] else set()
    assert {check.name for check in found.failures} == {"wording"} | rests
    (said,) = [check.sentence for check in found.failures if check.name == "wording"]
    assert "'newer'" in said
    assert "dp_release 99.1" in said
    decided = {each["name"]: each["decided"] for each in found.to_json()["checks"]}
    assert (decided["wording"], decided["charges"]) == (False, True)
    with pytest.raises(BadInput, match="'newer'"):
        read_bundle(unknown)


@pytest.mark.parametrize("unknown", [Newer], indirect=True)
def test_a_guarantee_that_rests_on_what_the_method_planned_is_undecided(unknown):
    (said,) = [check for check in verify(unknown).failures if check.name == "guarantee"]
    assert not said.decided
    assert "noise" in said.sentence


@pytest.mark.parametrize(
    ("lie", "where"),
    [
        (lambda d: d["inference"].update(covers="All."), "wording"),
        # No version writes this of a method that it has.
        (
            lambda d: d.update(inference=inference_statement("shared", 2, origin="unknown")),
            "wording",
        ),
        (lambda d: d["inference"].update(includes_noise=True, rule="split"), "wording"),
        (lambda d: d["guarantee"].update(in_words="Nothing is lost."), "wording"),
        (lambda d: d["guarantee"]["tightest"]["epsilon"].update(exact="1/1000"), "guarantee"),
    ],
)
def test_a_lie_is_a_fault_whatever_method_is_named(unknown, tmp_path, lie, where):
    folder = shutil.copytree(unknown, tmp_path / "copy")
    document = statement_of(folder)
    lie(document)
    reseal(folder, document)
    found = verify(folder)
    assert not found.undecided
    assert where in [check.name for check in found.failures if check.decided]


def test_the_method_that_is_not_known_is_named():
    def name(synthesize=None, **stages):
        stages = {stage: {"method": each} for stage, each in stages.items()}
        return unknown_method({"spec": {"synthesize": {"method": synthesize}, **stages}})

    assert name(select="mst", reconstruct="gum") == ""
    assert name(select="msst", reconstruct="gum") == "msst"
    assert name(select="mst", reconstruct="gumm") == "gumm"
    assert name(synthesize="modips") == ""
    assert name(synthesize="modipps") == "modipps"


def replanned(folder, change):
    """Change the plan of a bundle, and make every hash fit again."""
    document = statement_of(folder)
    method, reserve = document["method"], document["ledger"]["receipts"][0]
    change(method["plan"])
    method["plan_sha256"] = reserve["body"]["plan"] = digest(method["plan"])
    reserve["body"]["costs"] = method["plan"]["costs"]
    relink(document)
    reseal(folder, document)
    return verify(folder)


def adaptive(plan):
    """Pay a selection that looks at the data."""
    paid = plan["costs"]["measure"]
    plan["costs"] |= {"measure": str(Fraction(paid) * 9 / 10), "select": str(Fraction(paid) / 10)}


def both(plan):
    """Name a parametric method as the selection, which is known here and looks at the data."""
    for stage in ("select", "synthesize"):
        plan["spec"][stage]["method"] = "mst"


@pytest.mark.parametrize("unknown", [Newer], indirect=True)
@pytest.mark.parametrize("change", [adaptive, both])
def test_noise_that_was_not_fixed_is_a_fault_whatever_method_is_named(unknown, tmp_path, change):
    found = replanned(shutil.copytree(unknown, tmp_path / "copy"), change)
    assert not found.undecided
    assert "guarantee" in [check.name for check in found.failures if check.decided]
