"""`dp-release verify`, `query`, `infer` and `export`: what anyone can do with a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dp_core.errors import BadInput
from dp_core.text.documents.typed_text import plain_text
from dp_core.text.pages.answer import CommandAnswer
from dp_core.text.pages.page import Fact, Verbatim
from flows.cli.arguments import LEVEL, Completed
from flows.cli.command_parts import PATH, answering, cli, internal_result, json_wanted, this_home

if TYPE_CHECKING:
    from dp_core.analysis.regression.regression_answer import RegressionAnswer
    from dp_core.bundle.verification.verify import Verification
    from dp_core.text.pages.answer import Answer

_LEVEL = click.option(
    "--level", type=LEVEL, default="0.95", metavar="LEVEL", help="Confidence level; 0.95."
)


@cli.command()
@click.argument("folder", metavar="DIR", type=PATH)
@click.option(
    "--public-key",
    "keys",
    multiple=True,
    type=PATH,
    help="Public key that must have signed the ledger; repeatable.",
)
@click.option(
    "--measurements",
    metavar="DIR",
    type=PATH,
    help="Bundle of the release whose noisy tables DIR uses.",
)
@answering
def verify(folder: Path, keys: tuple[Path, ...], measurements: Path | None) -> Verification:
    """Check a bundle: files, receipts and privacy arithmetic."""
    from dp_core.accounts.signatures import read_public
    from dp_core.bundle.verification.verify import verify as check

    trusted = [read_public(key) for key in keys]
    return check(folder, trusted=trusted, measurements=measurements)


@cli.command("query")
@click.argument("folder", metavar="DIR", type=PATH)
@click.argument("question", metavar="QUESTION", nargs=-1, required=True)
@_LEVEL
@click.option("--sampling", is_flag=True, help="Add the error of the file as a random sample.")
@click.option(
    "--since", metavar="DIR", type=PATH, multiple=True, help="Answer the change since this release."
)
@click.option("--csv", "as_csv", is_flag=True, help="Print the answer as CSV.")
@answering
def query(
    folder: Path,
    question: tuple[str, ...],
    level: float,
    sampling: bool,
    since: tuple[Path, ...],
    as_csv: bool,
) -> Answer:
    """Answer a question from the noisy tables and sets, with a margin.

    \b
    dp-release query DIR "count by sex, region"
    dp-release query DIR "share of sex = female by region where age >= 30"
    dp-release query DIR "mean of income by region"
    dp-release query DIR "difference in mean of income between sex = 1 and sex = 2"
    dp-release query DIR "ratio of smoker = yes to smoker = no by sex"
    dp-release query DIR "median of income by region" --since EARLIER
    dp-release query DIR "gini of income by region"
    dp-release query DIR "top 10 % share of income"

    It needs the bundle only, and combines all tables that bear on the question, for a number also
    the sets. It ends with exit code 2 if they do not determine the answer. With --since, it
    answers how much has changed since an earlier release, and whether the noise explains it.
    docs/query.md has the language.
    """  # noqa: D301 (click's sign for text that is not to be wrapped)
    for word in question:
        plain_text("QUESTION", word)
    if not folder.exists() and len(question) == 1 and Path(question[0]).is_dir():
        raise BadInput("The folder comes first: dp-release query DIR QUESTION.")
    if len(since) > 1:
        raise BadInput("Give --since once: a change is that between two releases.")
    if as_csv and json_wanted():
        raise BadInput("Give --csv or --json, not both.")
    from dp_core.analysis.query.query_answer import answer_query
    from dp_core.analysis.query.sources import sources_of
    from dp_core.bundle.reading import read_bundle

    bundle, asked = read_bundle(folder), " ".join(question)
    if since:
        from dp_core.analysis.query.change_answer import Release, answer_change

        later, earlier = (
            Release(each, sources_of(each)) for each in (bundle, read_bundle(since[0]))
        )
        found = answer_change(later, earlier, asked, level=level, sampling=sampling)
    else:
        found = answer_query(bundle, sources_of(bundle), asked, level=level, sampling=sampling)
    if as_csv and found.determined:
        return CommandAnswer({}, (Verbatim(found.csv()),))
    return found


@cli.command("infer")
@click.argument("folder", metavar="DIR", type=PATH)
@click.argument("formula", metavar="FORMULA", nargs=-1, required=True)
@click.option(
    "--family",
    metavar="NAME",
    help="linear, logistic, multinomial or poisson; default: depends on the outcome.",
)
@_LEVEL
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
    level: float,
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
    if against_confidential:
        if family is not None or level != 0.95 or naive or weighted or design:
            raise BadInput(
                "--against-confidential uses the default family and level, without weights; leave"
                " out --family, --level, --naive, --weighted and --design."
            )
        from flows.cli.actions.internal_comparisons import against_file

        # privacy: the answer is the same whatever was found. Whether a formula can be fitted may
        # depend on one record, and a formula can be written so that it does.
        release, page = against_file(this_home(), folder, text)
        return internal_result(release, page, formula=text)
    from dp_core.analysis.regression.regression_inference import infer as carry_out
    from dp_core.bundle.reading import read_bundle

    bundle = read_bundle(folder)
    return carry_out(
        bundle,
        text,
        family=family,
        level=level,
        naive=naive,
        weighted=weighted,
        by_design=design,
    )


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


@cli.command("export")
@click.argument("folder", metavar="DIR", type=PATH)
@click.option(
    "--format",
    "form",
    type=Completed(lambda: ("csv", "stata", "spss")),
    metavar="FORMAT",
    required=True,
    help="csv, stata or spss; the last two need the package pyreadstat.",
)
@click.option("--out", metavar="DIR", type=PATH, required=True, help="Folder to make.")
@answering
def export(folder: Path, form: str, out: Path) -> CommandAnswer:
    """Write the sets as CSV, Stata or SPSS files, with their labels.

    \b
    dp-release export DIR --format stata --out stata

    Categories become labelled numbers in Stata and SPSS, and labels in CSV. The report of the
    release has Stata code that analyses the files.
    """  # noqa: D301 (click's sign for text that is not to be wrapped)
    from dp_core.bundle.exported_sets import export_sets
    from dp_core.bundle.reading import read_bundle

    files = export_sets(read_bundle(folder), out, form)
    return CommandAnswer({"files": files}, (Fact("Written", f"{out}, {len(files)} files"),))
