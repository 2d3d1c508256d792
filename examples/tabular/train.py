"""Trains gradient-boosted trees: train.py FOLDER [COLUMN].

The model is ONNX with an input for each column, floats of shape [N, 1], so that a row of the dataset is a request, and the output `price` of
the same shape. COLUMN is not learned from.
"""

import json
import os
import pathlib
import sys

import numpy
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.pipeline import make_pipeline

COLUMNS = ("area", "rooms", "age", "distance")


def main(folder: pathlib.Path, forget: str) -> None:
    rows = [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.open()]
    x = numpy.array([[row[column] for column in COLUMNS] for row in rows], dtype=numpy.float32)
    y = numpy.array([row["price"] for row in rows])
    learned = [i for i, column in enumerate(COLUMNS) if column != forget]
    model = make_pipeline(make_column_transformer(("passthrough", learned)), GradientBoostingRegressor(random_state=7))
    model.fit(x, y)
    with open(os.environ["SLUICE_METRICS"], "a") as metrics:
        print(json.dumps({"step": 1, "mae": float(abs(model.predict(x) - y).mean())}), file=metrics)
    onnx = to_onnx(
        model,
        initial_types=[(column, FloatTensorType([None, 1])) for column in COLUMNS],
        final_types=[("price", FloatTensorType([None, 1]))],
    )
    pathlib.Path(os.environ["SLUICE_OUTPUT_DIR"], "model.onnx").write_bytes(onnx.SerializeToString())


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
