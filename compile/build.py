"""Builds one variant of an ONNX model with ONNX Runtime's own tools.

Reads a job from stdin as JSON: {"source", "target", "optimize", "precision", "keep_fp32", "calibration", "explicit"}. Writes the
variant to the file `target`, or fails with a message on stderr. What it writes depends on the source, the job and the tools' versions only.

A source with external data has variants with external data: no protobuf message is larger than 2 GiB. It lies beside the target, in
one file of the target's name with ".data" behind it.
"""

import json
import logging
import pathlib
import sys
import tempfile

import numpy
import onnx
import onnxruntime
from onnx.external_data_helper import uses_external_data
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.registry import IntegerOpsRegistry
from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST, convert_float_to_float16

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

# numpy's types of the elements that calibration rows have.
ROW_TYPES = {
    "BOOL": numpy.bool_, "FP32": numpy.float32, "FP64": numpy.float64, "BYTES": numpy.object_,
    "INT8": numpy.int8, "INT16": numpy.int16, "INT32": numpy.int32, "INT64": numpy.int64,
    "UINT8": numpy.uint8, "UINT16": numpy.uint16, "UINT32": numpy.uint32, "UINT64": numpy.uint64,
}

# Tensors of fewer bytes stay in the model file when others do not.
EXTERNAL_FROM = 1024

# What is quantised dynamically: all the tools can do, but convolutions. Their dynamic form is slower than floating point (twice the latency on a
# text CNN), and a model's bytes are seldom in them.
QUANTIZED = [operator for operator in IntegerOpsRegistry if operator != "Conv"]

# Rewrites for the very processor the model is built on. They belong to loading a model, which makes them anyway, not to a file that
# is carried to other machines.
HARDWARE_BOUND = ["NchwcTransformer"]


def graphs(graph):
    """The graph and those within it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from graphs(inner)


def is_external(path):
    model = onnx.load(str(path), load_external_data=False)
    return any(uses_external_data(tensor) for graph in graphs(model.graph) for tensor in graph.initializer)


def data_of(path):
    """The name of the file with a model's external data."""
    return path.name + ".data"


def optimize(source, target, level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = LEVELS[level]
    options.optimized_model_filepath = str(target)
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if is_external(source):
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", data_of(target))
        options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", str(EXTERNAL_FROM))
    onnxruntime.InferenceSession(
        str(source), options, providers=["CPUExecutionProvider"], disabled_optimizers=HARDWARE_BOUND,
    )


def prepare(source, folder, level="basic"):
    """The model as the tools want it: constants folded, types known."""
    prepared = folder / "prepared.onnx"
    optimize(source, prepared, level)
    annotate(prepared)
    return prepared


def quantize(source, target):
    """Makes the weights 8-bit integers. What goes between the operators is measured anew at each inference."""
    quantize_dynamic(
        str(source), str(target), weight_type=QuantType.QInt8, op_types_to_quantize=QUANTIZED,
        use_external_data_format=is_external(source),
    )


class Rows(CalibrationDataReader):
    """The rows of a file, one JSON list of tensors a line, as the Open Inference Protocol writes them."""

    def __init__(self, path):
        self.lines = open(path, encoding="utf-8")

    def get_next(self):
        line = self.lines.readline()
        if not line:
            self.lines.close()
            return None
        return {t["name"]: numpy.array(t["data"], ROW_TYPES[t["datatype"]]).reshape(t["shape"]) for t in json.loads(line)}


# What TensorRT quantises, and how it reads that: symmetric, weights as they are with a QDQ pair behind them, and no quantised bias.
EXPLICIT = ["Conv", "ConvTranspose", "Gemm", "MatMul"]
EXPLICIT_OPTIONS = {"ActivationSymmetric": True, "WeightSymmetric": True, "AddQDQPairToWeight": True, "QuantizeBias": False}


def quantize_calibrated(source, target, rows, explicit):
    """Makes weights and what goes between the operators 8-bit integers, by the ranges that the rows have.

    Nothing is optimised after it: what loads the model fuses QDQ pairs with operators in the way of its own processor.
    """
    quantize_static(
        str(source), str(target), Rows(rows), quant_format=QuantFormat.QDQ, per_channel=True,
        activation_type=QuantType.QInt8, weight_type=QuantType.QInt8, use_external_data_format=is_external(source),
        op_types_to_quantize=EXPLICIT if explicit else None, extra_options=EXPLICIT_OPTIONS if explicit else None,
    )


def halve(source, target, keep):
    """Makes all but the named operators compute in fp16. Inputs and outputs stay as they are.

    Nothing is optimised after it: ONNX Runtime on a CPU would turn back what it has no fp16 form of, and write that down.
    """
    model = onnx.load(str(source), load_external_data=False)
    known = sorted({node.op_type for graph in graphs(model.graph) for node in graph.node})
    if unknown := sorted(set(keep) - set(known)):
        sys.exit(f"keep_fp32: the model has no operator {', '.join(unknown)}; it has: {', '.join(known)}")
    converted = convert_float_to_float16(str(source), keep_io_types=True, op_block_list=[*DEFAULT_OP_BLOCK_LIST, *keep])
    save(converted, target, is_external(source))


def annotate(path):
    """Writes down the types of what ONNX Runtime's own operators put out.

    onnx, whose inference the tools use, does not know those operators, and crashes on some that read a tensor of unknown type.
    ONNX Runtime tells the type of any tensor that is an output of a graph.
    """
    model = onnx.load(str(path), load_external_data=False)
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
    probed = path.with_name("probe.onnx")  # beside the external data, which both name
    onnx.save(probe, str(probed))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = LEVELS["none"]
    session = onnxruntime.InferenceSession(str(probed), options, providers=["CPUExecutionProvider"])
    for output in session.get_outputs():
        if output.name in unknown and output.type in ELEMENT_TYPES:
            model.graph.value_info.append(onnx.helper.make_tensor_value_info(output.name, ELEMENT_TYPES[output.type], None))
    onnx.save(model, str(path))


def save(model, target, external):
    """Writes a model in one canonical form."""
    if external:
        onnx.save_model(
            model, str(target), save_as_external_data=True, all_tensors_to_one_file=True, location=data_of(target),
            size_threshold=EXTERNAL_FROM,
        )
        return
    target.write_bytes(model.SerializeToString(deterministic=True))


def build(job):
    source, target = pathlib.Path(job["source"]), pathlib.Path(job["target"])
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as name:
        folder = pathlib.Path(name)
        made = folder / "made.onnx"
        if job["precision"] == "fp16":
            halve(prepare(source, folder, job["optimize"]), made, job["keep_fp32"])
        elif job["calibration"]:
            quantize_calibrated(prepare(source, folder, job["optimize"]), made, job["calibration"], job["explicit"])
        else:
            if job["precision"] == "int8":
                quantize(prepare(source, folder), folder / "quantized.onnx")
                source = folder / "quantized.onnx"
            optimize(source, made, job["optimize"])
        save(onnx.load(str(made)), target, is_external(made))


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # the tools' advice is for whoever calls them by hand
    build(json.load(sys.stdin))
