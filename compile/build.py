"""Builds one variant of an ONNX model with ONNX Runtime's own tools.

Reads a job from stdin as JSON: {"source", "target", "optimize", "precision"}. Writes the variant to the file `target`, or fails with
a message on stderr. What it writes depends on the source, the job and the tools' versions only.
"""

import json
import logging
import pathlib
import sys
import tempfile

import onnx
import onnxruntime
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.shape_inference import quant_pre_process

LEVELS = {
    "none": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}

# Rewrites for the very processor the model is built on. They belong to loading a model, which makes them anyway, not to a file that
# is carried to other machines.
HARDWARE_BOUND = ["NchwcTransformer"]


def optimize(source, target, level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = LEVELS[level]
    options.optimized_model_filepath = str(target)
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    onnxruntime.InferenceSession(
        str(source), options, providers=["CPUExecutionProvider"], disabled_optimizers=HARDWARE_BOUND,
    )


def quantize(source, target, folder):
    """Makes the weights 8-bit integers. The tools want shapes inferred and constants folded first."""
    prepared = folder / "prepared.onnx"
    quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    quantize_dynamic(str(prepared), str(target), weight_type=QuantType.QInt8)


def rewrite(source, target):
    """Writes a model in one canonical form."""
    target.write_bytes(onnx.load(str(source)).SerializeToString(deterministic=True))


def build(job):
    source, target = pathlib.Path(job["source"]), pathlib.Path(job["target"])
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as name:
        folder = pathlib.Path(name)
        if job["precision"] == "int8":
            quantize(source, folder / "quantized.onnx", folder)
            source = folder / "quantized.onnx"
        optimize(source, folder / "optimized.onnx", job["optimize"])
        rewrite(folder / "optimized.onnx", target)


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # the tools' advice is for whoever calls them by hand
    build(json.load(sys.stdin))
