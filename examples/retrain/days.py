"""Takes the newest days of the folder that the shop writes: days.py FOLDER COUNT.

Outputs: `days`, the COUNT newest files; `newest`, the last of them alone; `confirmed`, the payments whose outcome is certain, as the
split `test` of a dataset.
"""

import os
import pathlib
import shutil
import sys


def main(folder: pathlib.Path, count: int) -> None:
    files = sorted(folder.glob("days/*.jsonl"))[-count:]
    if not files:
        sys.exit(f"{folder}/days has no *.jsonl: nothing to learn from; payments.py writes a day")
    take("days", files)
    take("newest", files[-1:])
    take("confirmed/test", [folder / "confirmed.jsonl"])
    print(f"{len(files)} days, {files[0].stem} to {files[-1].stem}")


def take(output: str, files: list[pathlib.Path]) -> None:
    to = pathlib.Path(os.environ["SLUICE_OUTPUT_DIR"], output)
    to.mkdir(parents=True)
    for file in files:
        shutil.copy(file, to)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
