"""Drops documents with equal texts with DuckDB: clean.py IN OUT, a thread for each core."""

import os
import pathlib
import sys

import duckdb

source, out = sys.argv[1], pathlib.Path(sys.argv[2])
out.mkdir()
db = duckdb.connect(config={"threads": len(os.sched_getaffinity(0)), "temp_directory": str(out.parent / "spill")})
db.execute("SET preserve_insertion_order = false")
db.execute(
    f"""
    COPY (
        SELECT DISTINCT ON (text) id, source, text
        FROM read_json('{source}/*.jsonl', format = 'newline_delimited', columns = {{id: 'BIGINT', source: 'VARCHAR', text: 'VARCHAR'}})
    ) TO '{out / "all.jsonl"}' (FORMAT json)
    """
)
