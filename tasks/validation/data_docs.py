"""Data Docs of a validation, made from the results in the internal folder when somebody asks.

Making them takes all of Great Expectations, 3 s of CPU time, which a release does not spend.

Privacy:
    The pages are confidential, like the results. As the library makes them they load styles,
    scripts and a picture from other machines, which would learn when staff opens one. So these are
    taken out, a content security policy forbids others, and each page contains its style. The first
    page, which the library fills by a script, is written here.
"""

from __future__ import annotations

import json
import re
import shutil
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dp_core.errors import BadInput
from tasks.support.run_folder import INTERNAL_NOTICE, write_atomically
from tasks.validation.expectations import RESULTS, TABLES
from tasks.validation.suite_judge import deprecations_unheard, keep_quiet, new_context

DATA_DOCS = "expectations/data-docs"
"""Folder of the pages in the internal folder."""

_HEAD = """<head>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:;
 style-src 'unsafe-inline'">
<style>
:root { color-scheme: light dark }
body { font: 15px/1.5 sans-serif; max-width: 70rem; margin: 1rem auto; padding: 0 1rem }
h3, h4, h5, h6 { font-size: 1.1rem; margin: 1.2rem 0 .4rem }
table { border-collapse: collapse; margin: .5rem 0; display: block; overflow-x: auto }
td, th { border: 1px solid #8888; padding: .25rem .6rem; text-align: left; vertical-align: top }
.badge { border: 1px solid #888; border-radius: .3rem; padding: 0 .3rem }
.modal, .btn, .btn-group, .popover, .cooltip, footer, img, [data-toggle=collapse],
.card:has(.btn-group), .navbar-brand { display: none }
.navbar { height: auto !important }
.fa-check-circle::before { content: "met" }
.fa-times::before { content: "not met" }
.text-success { color: light-dark(#1b5e20, #81c784) }
.text-danger { color: light-dark(#b00020, #ff8a80) }
.confidential { background: #b00020; color: #fff; padding: .5rem 1rem; font-weight: bold }
</style>"""
_LOADED = re.compile(r"<script\b.*?</script>|<link\b[^>]*>", re.DOTALL | re.IGNORECASE)
"""What the library's pages load or run."""
_NOTICE = (
    f'<p class="confidential">{INTERNAL_NOTICE}</p><p>The rows of a suite "profile" are distinct'
    " values, or bounds, of a column; <code>validation.json</code> counts the rows of the file.</p>"
)


def write_data_docs(internal: Path) -> Path:
    """Write the Data Docs of the last validation and return their first page.

    Args:
        internal: Internal folder of the run, with the results of the validation; of linked tables,
            the results of each table.

    Raises:
        BadInput: if there are no results.
    """
    files = sorted((internal / TABLES).glob(f"*/{RESULTS}")) or [internal / RESULTS]
    try:
        documents = [json.loads(file.read_text()) for file in files]
    except (OSError, ValueError):
        raise BadInput(
            "The internal folder of the release has no results of its validation; they are there"
            " once the stage `validate` has read the whole file."
        ) from None
    keep_quiet()
    pages = internal / DATA_DOCS
    shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir(mode=0o700, parents=True)
    with deprecations_unheard():
        _build(pages, [result for each in documents for result in each["results"]])
    shutil.rmtree(pages / "static", ignore_errors=True)
    for page in pages.rglob("*.html"):
        write_atomically(page, _confidential_page(page.read_text(encoding="utf-8")).encode("utf-8"))
    write_atomically(pages / "index.html", _index(pages, documents).encode("utf-8"))
    for each in [pages, *pages.rglob("*")]:
        each.chmod(0o700 if each.is_dir() else 0o600)
    return pages / "index.html"


def _build(pages: Path, results: list[dict[str, Any]]) -> None:
    from great_expectations.core.expectation_validation_result import (
        expectationSuiteValidationResultSchema,
    )
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

    context = new_context()
    store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(pages)}
    index = {"class_name": "DefaultSiteIndexBuilder"}
    site = {"class_name": "SiteBuilder", "site_index_builder": index, "store_backend": store}
    context.add_data_docs_site("internal", site)
    for number, plain in enumerate(results, start=1):
        result = expectationSuiteValidationResultSchema.load(plain)
        time = result.meta["run_id"]["run_time"]
        key = ValidationResultIdentifier(
            expectation_suite_identifier=ExpectationSuiteIdentifier(name=result.suite_name),
            run_id=RunIdentifier(run_name=f"frame {number}", run_time=time),
            batch_identifier=result.batch_id,
        )
        context.validation_results_store.set(key, result)
    context.build_data_docs()


def _index(pages: Path, documents: list[dict[str, Any]]) -> str:
    """Return the first page, with a link to the results of each suite, without scripts."""
    results = [result for each in documents for result in each["results"]]
    rows = []
    for number, result in enumerate(results, start=1):
        found = sorted(pages.glob(f"validations/*/frame {number}/*/*.html"))
        link = quote(found[0].relative_to(pages).as_posix())
        met = result["statistics"]["successful_expectations"]
        every = result["statistics"]["evaluated_expectations"]
        rows.append(
            f'<tr><td><a href="{link}">{escape(result["suite_name"])}</a></td>'
            f"<td>{met:,} of {every:,} expectations met</td></tr>"
        )
    title = "Data Docs of the validation"
    return (
        f'<!DOCTYPE html>\n<html lang="en">{_HEAD}<title>{title}</title></head>\n<body>{_NOTICE}'
        f"<h1>{title}</h1><table>{''.join(rows)}</table></body></html>\n"
    )


def _confidential_page(page: str) -> str:
    """Return a page that says that it is confidential, and loads and runs nothing."""
    head, found, rest = _LOADED.sub("", page).partition("<head>")
    assert found
    before, body, after = rest.partition("<body")
    assert body
    inside, close, rest = after.partition(">")
    return f"{head}{_HEAD}{before}{body}{inside}{close}{_NOTICE}{rest}"
