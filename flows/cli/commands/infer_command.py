"""`dp-release infer`: a regression on the sets of a release."""

from __future__ import annotations

import shlex
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dp_core.errors import BadInput
from dp_core.text.documents.typed_text import exact_number, plain_text
from dp_core.text.pages.answer import CommandAnswer
from flows.cli.command_parts import PATH, answering, cli, internal_result, this_home

if TYPE_CHECKING:
    from dp_core.analysis.regression.regression_answer import RegressionAnswer


@cli.command("infer")
@click.argument("folder", metavar="DIR", type=PATH)
@click.argument("formula", metavar="FORMULA", nargs=-1, required=True)
@click.option(
    "--family",
    metavar="NAME",
    help="linear, logistic, multinomial or poisson; default: depends on the outcome.",
)
@click.option("--level", default="0.95", metavar="LEVEL", help="Confidence level; 0.95.")
@click.option("--naive", is_flag=True, help="Accept naive intervals if there is only one set.")
@click.option(
    "--against-confidential",
    is_flag=True,
    help="Staff: also fit the data file, in the internal folder.",
)
@click.option("--weighted", is_flag=True, help="Use the release's survey weights.")
@click.option(
    "--design",
    is_flag=True,
    help="Compute standard errors from the survey's sample design and weights.",
)
@answering
def infer(
    folder: Path,
    formula: tuple[str, ...],
    family: str | None,
    level: str,
    naive: bool,
    against_confidential: bool,
    weighted: bool,
    design: bool,
) -> RegressionAnswer | CommandAnswer:
    """Fit a regression on every set, and combine the results.

    \b
    dp-release infer DIR "income ~ age + sex"              a number: linear
    dp-release infer DIR "smoker ~ age * sex"              two levels: logistic
    dp-release infer DIR "health == 'poor' ~ age"          one level against the others: logistic
    dp-release infer DIR "visits ~ age" --family poisson   counts

    It needs the bundle only. The combining rule depends on how the sets were made.
    """  # noqa: D301 (click's sign for text that is not to be wrapped)
    text = one_formula(folder, formula)
    stated = exact_number("--level", level, positive=True)
    if stated >= 1:
        raise BadInput(f"--level must be between 0 and 1, such as 0.95, not {level}.")
    if against_confidential:
        if family is not None or stated != Fraction(19, 20) or naive or weighted or design:
            raise BadInput(
                "--against-confidential uses the default family and level, without weights; leave"
                " out --family, --level, --naive, --weighted and --design."
            )
        return _against(folder, text)
    from dp_core.analysis.regression.regression_inference import infer as carry_out
    from dp_core.analysis.regression.separation import Separated
    from dp_core.bundle.reading import read_bundle

    bundle, part = read_bundle(folder), float(stated)
    try:
        return carry_out(
            bundle,
            text,
            family=family,
            level=part,
            naive=naive,
            weighted=weighted,
            by_design=design,
        )
    except Separated as error:
        if not error.fittable:
            raise
        words = ["dp-release", "infer", str(folder), error.fittable]
        words += ["--family", family] if family is not None else []
        words += ["--level", level] if part != 0.95 else []
        given = {"--naive": naive, "--weighted": weighted, "--design": design}
        words += [option for option, wanted in given.items() if wanted]
        raise BadInput(f"{error.message} Type: {shlex.join(words)}") from None


def _against(folder: Path, formula: str) -> CommandAnswer:
    """Compare with the confidential file; return only where the result is.

    Privacy:
        The answer is the same whatever was found: whether a formula can be fitted may depend on
        one record, and a formula can be written so that it does.
    """
    from flows.cli.actions.internal_regression import against_file

    release, page = against_file(this_home(), folder, formula)
    return internal_result(release, page, formula=formula)


def one_formula(folder: Path, words: tuple[str, ...]) -> str:
    """Return the formula, which must be one argument.

    Raises:
        BadInput: if it is in several pieces, or comes before the folder.
    """
    for word in words:
        plain_text("FORMULA", word)
    if len(words) > 1:
        raise BadInput(
            "The formula is in several pieces; put it in quotes:"
            ' dp-release infer DIR "income ~ age + sex".'
        )
    if "~" in str(folder) and not folder.exists() and "~" not in words[0]:
        raise BadInput("The folder comes first: dp-release infer DIR FORMULA.")
    return words[0]
