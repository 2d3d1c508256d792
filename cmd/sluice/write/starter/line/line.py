"""The programs of the starter pipeline: make points, fit a line to them, and score it. They need only Python's standard library."""

import csv
import json
import os
import pathlib
import random
import sys


def output(name):
    """The path of a file below the step's output folder."""
    return pathlib.Path(os.environ["SLUICE_OUTPUT_DIR"], name)


def read(folder):
    with open(pathlib.Path(folder, "points.csv"), newline="") as f:
        return [(float(x), float(y)) for x, y in csv.reader(f)]


def make(rows):
    random.seed(7)
    with open(output("points.csv"), "w", newline="") as f:
        for _ in range(rows):
            x = random.uniform(0, 10)
            csv.writer(f).writerow([x, 2 * x + 1 + random.gauss(0, 0.3)])
    output("outputs.json").write_text(json.dumps({"rows": rows}))


def fit(points):
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    output("model.json").write_text(json.dumps({"slope": slope, "offset": mean_y - slope * mean_x}))
    output("outputs.json").write_text(json.dumps({"slope": slope}))


def score(model, points):
    errors = [abs(model["slope"] * x + model["offset"] - y) for x, y in points]
    with open(os.environ["SLUICE_METRICS"], "a") as f:
        print(json.dumps({"error": sum(errors) / len(errors)}), file=f)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make", rows]:
            make(int(rows))
        case ["fit", folder]:
            fit(read(folder))
        case ["score", model, folder]:
            score(json.loads(pathlib.Path(model, "model.json").read_text()), read(folder))
        case other:
            sys.exit(f"unknown arguments: {other}")
