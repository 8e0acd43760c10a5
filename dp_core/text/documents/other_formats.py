"""Data files that are not read: what they are, and how to convert them."""

from __future__ import annotations

_PANDAS = "Convert it with pandas: `pandas.%s({name!r}).to_parquet('NEW.parquet')`"
_R = "Convert it in R: %s"
_TABS, _UNPACK = "Save it with commas as CSV", "Unpack it, or compress it with gzip as .csv.gz"
_KINDS = (
    ((".xlsx", ".xls"), "an Excel workbook", _PANDAS % "read_excel"),
    ((".ods",), "a spreadsheet", _PANDAS % "read_excel"),
    ((".sav", ".zsav"), "an SPSS file", _PANDAS % "read_spss"),
    ((".dta",), "a Stata file", _PANDAS % "read_stata"),
    ((".sas7bdat", ".xpt"), "a SAS file", _PANDAS % "read_sas"),
    ((".feather",), "a Feather file", _PANDAS % "read_feather"),
    ((".arrow",), "an Arrow file", _PANDAS % "read_feather"),
    ((".json",), "a JSON file", _PANDAS % "read_json"),
    ((".rds",), "an R file", _R % "arrow::write_parquet(readRDS('{name}'), 'NEW.parquet')"),
    (
        (".rdata",),
        "an R file",
        _R % "load('{name}'), then arrow::write_parquet(DATA, 'NEW.parquet')",
    ),
    ((".tsv", ".tab"), "separated by tabs", _TABS),
    ((".zip",), "an archive", "Unpack it, and give the file in it"),
    ((".bz2",), "compressed with bzip2", _UNPACK),
    ((".xz",), "compressed with xz", _UNPACK),
    ((".zst",), "compressed with zstd", _UNPACK),
)
"""Endings of names, what such a file is, and what to do."""


def conversion(name: str) -> str:
    """Return what a data file is by its name, and how to convert it; empty for a readable kind.

    >>> conversion("a.csv"), conversion("a.tsv")
    ('', 'is separated by tabs. dp-release reads CSV and Parquet only. Save it with commas as CSV.')
    """
    for endings, what, how in _KINDS:
        if name.lower().endswith(endings):
            said = how.format(name=name)
            return f"is {what}. dp-release reads CSV and Parquet only. {said}."
    return ""
