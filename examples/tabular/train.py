"""Fits a linear regression by least squares: train.py FOLDER [COLUMN].

Sluice's own Python has no scikit-learn, so that this is numpy; README.md says what to change. The model is ONNX with an input for each column,
floats of shape [N, 1], so that a row of the dataset is a request, and the output `price` of the same shape. COLUMN is not learned from.
"""

import json
import os
import pathlib
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

COLUMNS = ("area", "rooms", "age", "distance")


def main(folder: pathlib.Path, forget: str) -> None:
    rows = [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.open()]
    y = numpy.array([row["price"] for row in rows])
    x = numpy.array([[0 if column == forget else row[column] for column in COLUMNS] + [1] for row in rows])
    weights, *_ = numpy.linalg.lstsq(x, y, rcond=None)
    mae = float(abs(x @ weights - y).mean())
    with open(os.environ["SLUICE_METRICS"], "a") as metrics:
        print(json.dumps({"step": 1, "mae": mae}), file=metrics)
    export(weights, pathlib.Path(os.environ["SLUICE_OUTPUT_DIR"], "model.onnx"))


def export(weights: numpy.ndarray, path: pathlib.Path) -> None:
    constants = {"weights": weights[:-1].reshape(-1, 1), "bias": weights[-1:]}
    graph = helper.make_graph(
        [
            helper.make_node("Concat", list(COLUMNS), ["x"], axis=1),
            helper.make_node("MatMul", ["x", "weights"], ["product"]),
            helper.make_node("Add", ["product", "bias"], ["price"]),
        ],
        "flats",
        [helper.make_tensor_value_info(column, TensorProto.FLOAT, ["N", 1]) for column in COLUMNS],
        [helper.make_tensor_value_info("price", TensorProto.FLOAT, ["N", 1])],
        [numpy_helper.from_array(value.astype(numpy.float32), name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
