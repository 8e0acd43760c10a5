"""One pipeline step per file: a thin Prefect task around a call into dp_core."""
