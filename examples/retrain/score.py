"""Compares two models on the same payments: score.py FOLDER MODEL SERVING. Reports the area under the ROC curve of each."""

import json
import os
import pathlib
import sys

import numpy
import onnxruntime

COLUMNS = ("amount", "distance", "attempts")


def main(folder: pathlib.Path, *models: pathlib.Path) -> None:
    rows = [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.open()]
    fraud = numpy.array([row["fraud"] for row in rows])
    inputs = {column: numpy.array([[row[column]] for row in rows], dtype=numpy.float32) for column in COLUMNS}
    auc, auc_serving = (area(answer(model, inputs), fraud) for model in models)
    with open(os.environ["SLUICE_METRICS"], "a") as metrics:
        print(json.dumps({"auc": auc, "auc_serving": auc_serving}), file=metrics)
    print(f"{len(rows)} payments: {auc:.4f}, what serves {auc_serving:.4f}")


def answer(model: pathlib.Path, inputs: dict) -> numpy.ndarray:
    session = onnxruntime.InferenceSession(str(model / "model.onnx"), providers=["CPUExecutionProvider"])
    (probabilities,) = session.run(["probabilities"], inputs)
    return probabilities[:, 1]


def area(score: numpy.ndarray, positive: numpy.ndarray) -> float:
    """The share of pairs of a fraud and an honest payment that are told apart (Mann-Whitney); without ties."""
    rank = numpy.empty(len(score))
    rank[numpy.argsort(score)] = numpy.arange(1, len(score) + 1)
    n = positive.sum()
    return float((rank[positive].sum() - n * (n + 1) / 2) / (n * (len(score) - n)))


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
