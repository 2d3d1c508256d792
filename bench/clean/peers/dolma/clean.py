"""Drops documents with equal texts with dolma, a process for each core: clean.py IN OUT.

dolma takes compressed documents whose ids are texts, marks duplicates by a Bloom filter, and then mixes what has no mark.
"""

import gzip
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys

CORES = len(os.sched_getaffinity(0))


def convert(source, to):
    """Writes a file as dolma reads it and returns how many documents there are."""
    count = 0
    with open(source, encoding="utf-8") as rows, gzip.open(to, "wt", compresslevel=1, encoding="utf-8") as out:
        for count, line in enumerate(rows, 1):
            row = json.loads(line)
            row["id"] = str(row["id"])
            out.write(json.dumps(row) + "\n")
    return count


def dolma(*arguments):
    subprocess.run([pathlib.Path(sys.prefix) / "bin/dolma", *arguments, f"--processes={CORES}"], check=True, stdout=subprocess.DEVNULL)


def main():
    source, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    work = out.parent / "dolma"
    documents = work / "documents"
    documents.mkdir(parents=True)
    out.mkdir()
    files = [(str(f), str(documents / (f.name + ".gz"))) for f in sorted(source.glob("*.jsonl"))]
    with multiprocessing.Pool(CORES) as pool:
        count = sum(pool.starmap(convert, files))
    dolma(
        "dedupe",
        f"--documents={documents}/*.gz",
        "--dedupe.name=duplicate",
        "--dedupe.documents.attribute_name=duplicate",
        "--dedupe.documents.key=$.text",
        f"--bloom_filter.file={work}/bloom",
        f"--bloom_filter.estimated_doc_count={count}",
        "--bloom_filter.desired_false_positive_rate=1e-9",
        "--no-bloom_filter.read_only",
    )
    mix = {
        "streams": [
            {
                "name": "kept",
                "documents": [f"{documents}/*.gz"],
                "attributes": ["duplicate"],
                "output": {"path": str(out), "max_size_in_bytes": 1 << 40},
                "filter": {"exclude": ["$.attributes[?(@.duplicate && @.duplicate[0])]"]},
            }
        ]
    }
    (work / "mix.yaml").write_text(json.dumps(mix))
    dolma(f"--config={work}/mix.yaml", "mix")


if __name__ == "__main__":
    main()
