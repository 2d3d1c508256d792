"""Plays the shop: writes a day of payments, with what became of them. Not a part of the pipeline.

payments.py FOLDER DAY [--abroad | --broken]

FOLDER/days/DAY.jsonl gets 1,000 payments, FOLDER/confirmed.jsonl 1,000 others of the same kind, whose outcome the bank has confirmed.

--abroad  the shop sells to other countries from this day on: distances are long, and do not make a payment suspicious any more
--broken  an update of the shop writes all days again with `fraud` turned around; what the bank confirms is right all the same
"""

import argparse
import json
import math
import os
import pathlib
import random

ROWS = 1000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("day", help="such as 2026-03-01")
    parser.add_argument("--abroad", action="store_true")
    parser.add_argument("--broken", action="store_true")
    args = parser.parse_args()

    days = args.folder / "days"
    days.mkdir(parents=True, exist_ok=True)
    write(args.folder / "confirmed.jsonl", payments(f"confirmed-{args.day}", args.abroad))
    write(days / f"{args.day}.jsonl", payments(args.day, args.abroad))
    if args.broken:
        for file in days.glob("*.jsonl"):
            rows = [json.loads(line) for line in file.open()]
            write(file, [row | {"fraud": not row["fraud"]} for row in rows])


def payments(day: str, abroad: bool) -> list[dict]:
    """The day's payments, the same whenever they are asked for."""
    chance = random.Random(day)
    rows = []
    for i in range(ROWS):
        amount = chance.lognormvariate(3.5, 1)
        distance = chance.expovariate(1 / (2000 if abroad else 20))
        attempts = 1 + int(chance.expovariate(1.5))
        suspicion = 2 * (math.log(amount) - 3.5) + 2 * (attempts - 1.3) - 1.5
        if not abroad:
            suspicion += 2 * (math.log1p(distance) - 2.5)
        fraud = chance.random() < 1 / (1 + math.exp(-2 * suspicion))
        rows.append({"id": f"{day}-{i}", "amount": round(amount, 2), "distance": round(distance, 1), "attempts": attempts, "fraud": fraud})
    return rows


def write(path: pathlib.Path, rows: list[dict]) -> None:
    """A file appears whole: what waits for it never sees the half of it."""
    beside = path.with_suffix(".new")
    beside.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.replace(beside, path)


if __name__ == "__main__":
    main()
