"""`dp-release infer`: a regression on the sets of a release, with intervals by its own rule."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import click

from dp_core.documents.typed_text import exact_number, plain_text
from dp_core.errors import BadInput
from flows.cli.command_parts import print_answer, this_home, with_json


@click.command("infer")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("formula", metavar="FORMULA", nargs=-1, required=True)
@click.option(
    "--family",
    metavar="NAME",
    help="linear, logistic, multinomial or poisson; by default the outcome's.",
)
@click.option("--level", default="0.95", metavar="LEVEL", help="Of the intervals; 0.95.")
@click.option("--naive", is_flag=True, help="Take one set for real people, where there is one.")
@click.option(
    "--against-confidential",
    is_flag=True,
    help="For staff: fit the file too; the result goes to the internal folder.",
)
@click.option("--weighted", is_flag=True, help="Use the release's survey weights.")
@with_json
def infer(
    folder: Path,
    formula: tuple[str, ...],
    family: str | None,
    level: str,
    naive: bool,
    against_confidential: bool,
    weighted: bool,
    as_json: bool,
) -> Mapping[str, object]:
    """Fit a regression on every set of a release and combine.

    \b
    dp-release infer DIR "income ~ age + sex"              a number: linear
    dp-release infer DIR "smoker ~ age * sex"              two levels: logistic
    dp-release infer DIR "health == 'poor' ~ age"          one level against the others: logistic
    dp-release infer DIR "visits ~ age" --family poisson   counts

    DIR is all it needs. The rule follows from how the sets were made; the release states it.
    """  # noqa: D301 (click's sign for text that is not to be wrapped)
    text = one_formula(folder, formula)
    stated = exact_number("--level", level, positive=True)
    if stated >= 1:
        raise BadInput(f"--level is a part of 1, such as 0.95, not {level}.")
    if against_confidential:
        if family is not None or stated != Fraction(19, 20) or naive or weighted:
            raise BadInput(
                "--against-confidential takes the outcome's own family, no weights, and intervals"
                " of 95 %; leave out --family, --level, --naive and --weighted."
            )
        return _against(folder, text, as_json=as_json)
    from flows.answers.regression_answers import Request, family_word
    from flows.answers.regression_answers import infer as carry_out

    answer = carry_out(Request(folder, text, family_word(family), float(stated), naive, weighted))
    if not as_json:
        print_answer("inferred", answer)
    return answer


def _against(folder: Path, formula: str, *, as_json: bool) -> Mapping[str, object]:
    """Compare with the confidential file; only where the result is, is told.

    Privacy:
        The words are the same whatever was found: whether a formula can be fitted can hang on one
        record, and a formula can be written so that it does.
    """
    from flows.cli.actions.internal_regression import against_file

    written = against_file(this_home(), folder, formula)
    if not as_json:
        click.echo(f"What came of it: {written.page} (confidential, for staff)")
    return {
        "release": written.release,
        "formula": formula,
        "internal": str(written.page),
    }


def one_formula(folder: Path, words: tuple[str, ...]) -> str:
    """Return the formula, which the shell must have left in one piece.

    Raises:
        BadInput: if it is in several, or where the folder belongs.
    """
    for word in words:
        plain_text("FORMULA", word)
    if len(words) > 1:
        raise BadInput(
            "The formula came in several pieces; put it in quotes, as in"
            ' dp-release infer DIR "income ~ age + sex".'
        )
    if "~" in str(folder) and not folder.exists() and Path(words[0]).is_dir():
        raise BadInput("The folder comes first: dp-release infer DIR FORMULA.")
    return words[0]
