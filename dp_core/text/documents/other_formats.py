"""Data files that are not read: what they are, and how to convert them."""

from __future__ import annotations

from collections.abc import Mapping

_KINDS: Mapping[str, tuple[str, str, str]] = {
    ".xlsx": ("an Excel workbook", "read_excel", ""),
    ".xls": ("an Excel workbook", "read_excel", ""),
    ".ods": ("a spreadsheet", "read_excel", ""),
    ".sav": ("an SPSS file", "read_spss", ""),
    ".zsav": ("an SPSS file", "read_spss", ""),
    ".dta": ("a Stata file", "read_stata", ""),
    ".sas7bdat": ("a SAS file", "read_sas", ""),
    ".xpt": ("a SAS file", "read_sas", ""),
    ".feather": ("a Feather file", "read_feather", ""),
    ".arrow": ("an Arrow file", "read_feather", ""),
    ".rds": (
        "an R file",
        "",
        "Convert it in R: arrow::write_parquet(readRDS('{name}'), 'NEW.parquet')",
    ),
    ".rdata": (
        "an R file",
        "",
        "Convert it in R: load('{name}'), then arrow::write_parquet(DATA, 'NEW.parquet')",
    ),
    ".json": ("a JSON file", "read_json", ""),
    ".tsv": ("separated by tabs", "", "Save it with commas as CSV"),
    ".tab": ("separated by tabs", "", "Save it with commas as CSV"),
    ".zip": ("an archive", "", "Unpack it, and give the file in it"),
    ".bz2": ("compressed with bzip2", "", "Unpack it, or compress it with gzip as .csv.gz"),
    ".xz": ("compressed with xz", "", "Unpack it, or compress it with gzip as .csv.gz"),
    ".zst": ("compressed with zstd", "", "Unpack it, or compress it with gzip as .csv.gz"),
}


def conversion(name: str) -> str:
    """Return what a data file is by its name, and how to convert it; empty for a readable kind.

    >>> conversion("a.csv"), conversion("a.tsv")
    ('', 'is separated by tabs. dp-release reads CSV and Parquet only. Save it with commas as CSV.')
    """
    for suffix, (what, call, how) in _KINDS.items():
        if name.lower().endswith(suffix):
            if call:
                said = (
                    f"Convert it with pandas: `pandas.{call}({name!r}).to_parquet('NEW.parquet')`"
                )
            else:
                said = how.format(name=name)
            return f"is {what}. dp-release reads CSV and Parquet only. {said}."
    return ""
