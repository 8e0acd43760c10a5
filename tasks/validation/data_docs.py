"""Data Docs of a validation, made from the results in the internal folder when somebody asks.

Making them takes all of Great Expectations, 3 s of CPU time, which a release does not spend.

Privacy:
    The pages are confidential, like the results. As the library makes them they load styles,
    scripts and a picture from other machines, which would learn when staff opens one. So a content
    security policy forbids all that is not in the folder, and the pages have a style of their own.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from dp_core.errors import BadInput
from tasks.support.run_folder import INTERNAL_NOTICE, write_atomically
from tasks.validation.expectations import RESULTS, TABLES
from tasks.validation.suite_judge import deprecations_unheard, keep_quiet, new_context

DATA_DOCS = "expectations/data-docs"
"""Folder of the pages in the internal folder."""

_HEAD = """<head>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src 'self' data:;
 style-src 'unsafe-inline'; font-src 'self'">
<style>
body { font: 15px/1.5 sans-serif; max-width: 70rem; margin: 1rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: .5rem 0 }
td, th { border: 1px solid #bbb; padding: .25rem .6rem; text-align: left; vertical-align: top }
.badge { border: 1px solid #888; border-radius: .3rem; padding: 0 .3rem }
.modal, .btn, .popover, .cooltip, footer, img { display: none }
.fa-check-circle::before { content: "met" }
.fa-times::before { content: "not met" }
.text-success { color: #1b5e20 } .text-danger { color: #b00020 }
.confidential { background: #b00020; color: #fff; padding: .5rem 1rem; font-weight: bold }
</style>"""
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
    for page in pages.rglob("*.html"):
        write_atomically(page, _confined(page.read_text(encoding="utf-8")).encode("utf-8"))
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


def _confined(page: str) -> str:
    """Return a page that says that it is confidential and loads nothing from elsewhere."""
    head, found, rest = page.partition("<head>")
    assert found
    before, body, after = rest.partition("<body")
    assert body
    inside, close, rest = after.partition(">")
    return f"{head}{_HEAD}{before}{body}{inside}{close}{_NOTICE}{rest}"
