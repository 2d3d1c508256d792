"""Trains a logistic regression on payments, as any training of Sluice's may be interrupted and goes on: train.py FOLDER.

The model is ONNX: inputs `amount`, `distance` and `attempts`, floats of shape [N, 1]; output `probabilities` of shape [N, 2], for an
honest payment and a fraud.
"""

import json
import os
import pathlib
import signal
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

COLUMNS = ("amount", "distance", "attempts")
STEPS, EVERY, RATE = 300, 50, 0.5

stop = False


def main(folder: pathlib.Path) -> None:
    signal.signal(signal.SIGTERM, on_notice)
    rows = [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.open()]
    x = numpy.log1p(numpy.array([[row[column] for column in COLUMNS] for row in rows], dtype=numpy.float64))
    y = numpy.array([row["fraud"] for row in rows], dtype=numpy.float64)
    mean, spread = x.mean(axis=0), x.std(axis=0) + 1e-9
    x = (x - mean) / spread

    first, weights, bias = 0, numpy.zeros(len(COLUMNS)), 0.0
    if resume := os.environ.get("SLUICE_RESUME_DIR"):
        saved = numpy.load(pathlib.Path(resume, "state.npz"))
        first, weights, bias = int(saved["step"]), saved["weights"], float(saved["bias"])
    with open(os.environ["SLUICE_METRICS"], "a") as metrics:
        for step in range(first + 1, STEPS + 1):
            p = 1 / (1 + numpy.exp(-(x @ weights + bias)))
            weights -= RATE * x.T @ (p - y) / len(y)
            bias -= RATE * float((p - y).mean())
            loss = -float((y * numpy.log(p + 1e-12) + (1 - y) * numpy.log(1 - p + 1e-12)).mean())
            print(json.dumps({"step": step, "of": STEPS, "loss": loss}), file=metrics, flush=True)
            if stop or step % EVERY == 0:
                checkpoint(step, weights, bias)
            if stop and step < STEPS:
                sys.exit(143)
    export(mean, spread, weights, bias, pathlib.Path(os.environ["SLUICE_OUTPUT_DIR"], "model.onnx"))


def on_notice(*_) -> None:
    global stop
    stop = True


def checkpoint(step: int, weights: numpy.ndarray, bias: float) -> None:
    """A folder step-<n> that appears by rename."""
    folder = pathlib.Path(os.environ["SLUICE_CHECKPOINT_DIR"], f"step-{step}")
    beside = folder.with_name(f".{folder.name}")
    beside.mkdir(parents=True, exist_ok=True)
    numpy.savez(beside / "state.npz", step=step, weights=weights, bias=bias)
    beside.rename(folder)


def export(mean, spread, weights, bias, path: pathlib.Path) -> None:
    constants = {"one": [1], "mean": mean, "spread": spread, "weights": weights.reshape(-1, 1), "bias": [bias]}
    node = helper.make_node
    nodes = [
        node("Concat", list(COLUMNS), ["raw"], axis=1),
        node("Add", ["raw", "one"], ["positive"]),
        node("Log", ["positive"], ["log"]),
        node("Sub", ["log", "mean"], ["centered"]),
        node("Div", ["centered", "spread"], ["scaled"]),
        node("MatMul", ["scaled", "weights"], ["product"]),
        node("Add", ["product", "bias"], ["logit"]),
        node("Sigmoid", ["logit"], ["fraud"]),
        node("Sub", ["one", "fraud"], ["honest"]),
        node("Concat", ["honest", "fraud"], ["probabilities"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "fraud",
        [helper.make_tensor_value_info(column, TensorProto.FLOAT, ["N", 1]) for column in COLUMNS],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 2])],
        [numpy_helper.from_array(numpy.asarray(value, dtype=numpy.float32), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="examples/retrain")
    onnx.save(model, str(path))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
