"""Reports the mean absolute error of a model on rows that it has not seen: score.py MODEL FOLDER."""

import json
import os
import pathlib
import sys

import numpy
import onnxruntime

rows = [json.loads(line) for file in sorted(pathlib.Path(sys.argv[2]).glob("*.jsonl")) for line in file.open()]
session = onnxruntime.InferenceSession(f"{sys.argv[1]}/model.onnx", providers=["CPUExecutionProvider"])
inputs = {i.name: numpy.array([[row[i.name]] for row in rows], dtype=numpy.float32) for i in session.get_inputs()}
(price,) = session.run(["price"], inputs)
mae = float(abs(price[:, 0] - numpy.array([row["price"] for row in rows])).mean())
with open(os.environ["SLUICE_METRICS"], "a") as metrics:
    print(json.dumps({"mae": mae}), file=metrics)
print(f"{len(rows)} flats: off by {mae:.1f} on average")
