"""Reads the cleaned dataset: a folder per split, rows {"id", "text", "spam"} in *.jsonl files."""

import json
import pathlib
import sys


def read(split: pathlib.Path) -> list[dict]:
    """All rows of a split, in the order of its files."""
    rows = [json.loads(line) for path in sorted(split.glob("*.jsonl")) for line in path.open(encoding="utf-8")]
    if not rows:
        sys.exit(f"{split} has no rows: expected *.jsonl files in it")
    return rows
