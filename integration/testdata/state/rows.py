"""Writes rows of one word each: every third is spam, every fiftieth empty."""

import json
import os
import pathlib

ROWS = 300

output = pathlib.Path(os.environ["SLUICE_OUTPUT_DIR"])
(output / "raw").mkdir()
with open(output / "raw" / "rows.jsonl", "w") as rows:
    for i in range(ROWS):
        text = "" if i % 50 == 0 else "spam" if i % 3 == 0 else "ham"
        rows.write(json.dumps({"id": str(i), "text": text}) + "\n")
(output / "outputs.json").write_text(json.dumps({"rows": ROWS}))
