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
    ".rds": ("an R file", "", "arrow::write_parquet(readRDS('{name}'), 'NEW.parquet')"),
    ".rdata": ("an R file", "", "load('{name}'), then arrow::write_parquet(DATA, 'NEW.parquet')"),
    ".json": ("a JSON file", "read_json", ""),
    ".tsv": ("separated by tabs", "", "save it with commas as .csv"),
    ".tab": ("separated by tabs", "", "save it with commas as .csv"),
    ".zip": ("an archive", "", "unpack it, and name the file in it"),
    ".bz2": ("compressed with bzip2", "", "unpack it, or compress it with gzip as .csv.gz"),
    ".xz": ("compressed with xz", "", "unpack it, or compress it with gzip as .csv.gz"),
    ".zst": ("compressed with zstd", "", "unpack it, or compress it with gzip as .csv.gz"),
}


def conversion(name: str) -> str:
    """Return what a data file is by its name, and how to convert it; empty for a readable kind.

    >>> conversion("a.csv"), conversion("a.tsv")
    ('', 'is separated by tabs; data are CSV or Parquet: save it with commas as .csv.')
    """
    for suffix, (what, call, how) in _KINDS.items():
        if name.lower().endswith(suffix):
            if call:
                said = f"convert it in pandas, `pandas.{call}({name!r}).to_parquet('NEW.parquet')`"
            else:
                said = how.format(name=name)
            return f"is {what}; data are CSV or Parquet: {said}."
    return ""
