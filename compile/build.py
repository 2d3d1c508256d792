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
from onnxruntime.quantization.registry import IntegerOpsRegistry

LEVELS = {
    "none": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}

# ONNX Runtime's names of the types that its own operators put out.
ELEMENT_TYPES = {
    "tensor(string)": onnx.TensorProto.STRING,
    "tensor(float)": onnx.TensorProto.FLOAT,
    "tensor(double)": onnx.TensorProto.DOUBLE,
    "tensor(float16)": onnx.TensorProto.FLOAT16,
    "tensor(int64)": onnx.TensorProto.INT64,
    "tensor(int32)": onnx.TensorProto.INT32,
    "tensor(int8)": onnx.TensorProto.INT8,
    "tensor(uint8)": onnx.TensorProto.UINT8,
    "tensor(bool)": onnx.TensorProto.BOOL,
}

# What is quantised: all the tools can do, but convolutions. Their dynamic form is slower than floating point (twice the latency on a
# text CNN), and a model's bytes are seldom in them.
QUANTIZED = [operator for operator in IntegerOpsRegistry if operator != "Conv"]

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
    """Makes the weights 8-bit integers. The tools want constants folded and types known first."""
    prepared = folder / "prepared.onnx"
    optimize(source, prepared, "basic")
    annotate(prepared)
    quantize_dynamic(str(prepared), str(target), weight_type=QuantType.QInt8, op_types_to_quantize=QUANTIZED)


def annotate(path):
    """Writes down the types of what ONNX Runtime's own operators put out.

    onnx, whose inference the tools use, does not know those operators, and crashes on some that read a tensor of unknown type.
    ONNX Runtime tells the type of any tensor that is an output of a graph.
    """
    model = onnx.load(str(path))
    known = {v.name for v in (*model.graph.value_info, *model.graph.output)}
    unknown = [
        name for node in model.graph.node if node.domain not in ("", "ai.onnx", "ai.onnx.ml")
        for name in node.output if name and name not in known
    ]
    if not unknown:
        return
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in unknown)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = LEVELS["none"]
    session = onnxruntime.InferenceSession(probe.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for output in session.get_outputs():
        if output.name in unknown and output.type in ELEMENT_TYPES:
            model.graph.value_info.append(onnx.helper.make_tensor_value_info(output.name, ELEMENT_TYPES[output.type], None))
    onnx.save(model, str(path))


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
