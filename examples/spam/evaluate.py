"""Judge an ONNX spam filter on a split of the dataset, as it will be served: text in, probabilities out.

evaluate.py MODEL SPLIT, where MODEL is the .onnx file or the folder it lies in. Appends f1, precision, recall and accuracy of spam to
$SLUICE_METRICS.
"""

import json
import os
import pathlib
import sys

import numpy
import onnxruntime

import dataset

BATCH = 32


def main(model: pathlib.Path, split: pathlib.Path) -> None:
    if model.is_dir():
        (model,) = model.rglob("*.onnx")
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    rows = dataset.read(split)
    spam = numpy.array([row["spam"] for row in rows])
    guess = numpy.concatenate([classify(session, rows[i : i + BATCH]) for i in range(0, len(rows), BATCH)])

    hits = float((guess & spam).sum())
    metrics = {
        "f1": 2 * hits / max(float(guess.sum() + spam.sum()), 1),
        "precision": hits / max(float(guess.sum()), 1),
        "recall": hits / max(float(spam.sum()), 1),
        "accuracy": float((guess == spam).mean()),
    }
    with open(os.environ["SLUICE_METRICS"], "a") as file:
        print(json.dumps(metrics), file=file)
    print(f"{len(rows)} mails:", ", ".join(f"{name} {value:.4f}" for name, value in metrics.items()))


def classify(session: onnxruntime.InferenceSession, rows: list[dict]) -> numpy.ndarray:
    text = numpy.array([row["text"] for row in rows], dtype=object)
    (probabilities,) = session.run(["probabilities"], {"text": text})
    return probabilities[:, 1] > 0.5


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: evaluate.py MODEL SPLIT")
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
