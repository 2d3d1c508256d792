"""Normalizes documents, drops short ones and exact duplicates with datatrove: clean.py IN OUT, one worker for each core."""

import os
import pathlib
import re
import sys
import unicodedata

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.dedup.exact_dedup import ExactDedupConfig, ExactDedupFilter, ExactDedupSignature, ExactFindDedups
from datatrove.pipeline.filters import LambdaFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter

LEAST = 500
WORKERS = len(os.sched_getaffinity(0))

BREAKS = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
INVISIBLE = re.compile(
    "[" + "".join(re.escape(chr(c)) for c in range(0x110000) if unicodedata.category(chr(c)) in ("Cc", "Cf") and chr(c) not in "\n\t") + "]"
)
EMPTY_LINES = re.compile("\n{3,}")


def normalize(text: str) -> str:
    text = unicodedata.normalize("NFC", INVISIBLE.sub("", BREAKS.sub("\n", text)))
    lines = [" ".join(line.split()) for line in text.split("\n")]
    return EMPTY_LINES.sub("\n\n", "\n".join(lines)).strip("\n")


class Normalize(PipelineStep):
    type = "FORMAT"
    name = "normalize"

    def run(self, data, rank: int = 0, world_size: int = 1):
        for doc in data:
            doc.text = normalize(doc.text)
            yield doc


def content(doc) -> str:
    return doc.text


def long_enough(doc) -> bool:
    return len(doc.text) >= LEAST


def main() -> None:
    source, out = sys.argv[1], pathlib.Path(sys.argv[2])
    work = out.parent / "work"
    config = ExactDedupConfig(content_getter=content)
    tasks = len(list(pathlib.Path(source).glob("*.jsonl")))

    def run(name, pipeline, tasks, workers):
        LocalPipelineExecutor(pipeline=pipeline, tasks=tasks, workers=workers, logging_dir=str(work / "logs" / name)).run()

    run(
        "clean",
        [
            JsonlReader(source, glob_pattern="*.jsonl", doc_progress=False),
            Normalize(),
            LambdaFilter(long_enough),
            JsonlWriter(str(work / "cleaned"), compression=None),
            ExactDedupSignature(str(work / "signatures"), config=config, finder_workers=1),
        ],
        tasks,
        WORKERS,
    )
    run("find", [ExactFindDedups(str(work / "signatures"), str(work / "duplicates"), config=config, lines_to_buffer=1000)], 1, 1)
    run(
        "filter",
        [
            JsonlReader(str(work / "cleaned"), glob_pattern="*.jsonl"),
            ExactDedupFilter(str(work / "duplicates"), config=config),
            JsonlWriter(str(out), compression=None),
        ],
        tasks,
        WORKERS,
    )


if __name__ == "__main__":
    main()
