"""Builds one variant of an ONNX model with ONNX Runtime's own tools.

Reads a job from stdin as JSON: {"source", "target", "optimize", "precision", "keep_fp32", "calibration", "explicit"}. Writes the
variant to the file `target`. A job with "inputs" cuts the source in two instead: what makes these tensors goes to the file `front`,
what follows them to `target`. What is written depends on the source, the job and the tools' versions only.

A fault of the model or the job ends it with code 3, and stderr with a line that says what is wrong.

A source with external data has variants with external data: no protobuf message is larger than 2 GiB. It lies beside the target, in
one file of the target's name with ".data" behind it.
"""

import difflib
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


class Fault(Exception):
    """What is wrong with the model or the job."""


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

    Nothing is optimised after it: what loads the model fuses QDQ pairs with operators in the way of its own processor. For ONNX Runtime the
    weights have 7 bits: x86 processors without VNNI add products of two 8-bit numbers in 16 bits, which overflow, and a model is not
    always served on the processor that it was proved on.
    """
    quantize_static(
        str(source), str(target), Rows(rows), quant_format=QuantFormat.QDQ, per_channel=True,
        activation_type=QuantType.QInt8, weight_type=QuantType.QInt8, reduce_range=not explicit, use_external_data_format=is_external(source),
        op_types_to_quantize=EXPLICIT if explicit else None, extra_options=EXPLICIT_OPTIONS if explicit else None,
    )


def halve(source, target, keep):
    """Makes all but the named operators compute in fp16. Inputs and outputs stay as they are.

    Nothing is optimised after it: ONNX Runtime on a CPU would turn back what it has no fp16 form of, and write that down.
    """
    model = onnx.load(str(source), load_external_data=False)
    known = sorted({node.op_type for graph in graphs(model.graph) for node in graph.node})
    if unknown := sorted(set(keep) - set(known)):
        raise Fault(f"keep_fp32: the model has no operator {', '.join(unknown)}; it has: {', '.join(known)}")
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
    described = described_by_runtime(model, unknown, path.parent)
    model.graph.value_info.extend(described[name] for name in unknown if name in described)
    onnx.save(model, str(path))


def described_by_runtime(model, names, folder):
    """Element types and shapes of tensors as ONNX Runtime knows them, as far as it does. The model's external data is in the folder."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    outputs = {o.name for o in probe.graph.output}
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in outputs)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = LEVELS["none"]
    options.log_severity_level = 3
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    session = onnxruntime.InferenceSession(probe.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return {
        o.name: onnx.helper.make_tensor_value_info(o.name, ELEMENT_TYPES[o.type], o.shape or None)
        for o in session.get_outputs() if o.type in ELEMENT_TYPES
    }


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


def read_by(node):
    """The names of the tensors that a node reads, and the graphs within it."""
    yield from node.input
    for attribute in node.attribute:
        for inner in (attribute.g, *attribute.graphs):
            yield from (output.name for output in inner.output)
            for each in inner.node:
                yield from read_by(each)


class Cut:
    """A model that is cut in two, with all text before the cut: TensorRT has none."""

    def __init__(self, source):
        self.folder, self.external = source.parent, is_external(source)
        self.model = onnx.load(str(source), load_external_data=False)
        graph = self.model.graph
        self.nodes = list(graph.node)
        self.reads = [set(read_by(node)) for node in self.nodes]
        self.makers = {name: i for i, node in enumerate(self.nodes) for name in node.output if name}
        self.weights = {tensor.name for tensor in graph.initializer}
        self.inputs = {value.name: value for value in graph.input if value.name not in self.weights}
        self.outputs = [value.name for value in graph.output]
        self.tensors = self.inputs | described_by_runtime(self.model, list(self.makers), self.folder)
        self.text = {i for i, node in enumerate(self.nodes) if any(map(self.is_text, (*self.reads[i], *node.output)))}

    def is_text(self, name):
        return name in self.tensors and self.tensors[name].type.tensor_type.elem_type == onnx.TensorProto.STRING

    def between(self, begin, ends):
        """The nodes on which the tensors `ends` depend, and what those read that none of them makes. What is in `begin` is given."""
        found, leaves, names = set(), set(), list(ends)
        while names:
            name = names.pop()
            if name in begin or name not in self.makers:
                leaves.add(name)
            elif self.makers[name] not in found:
                found.add(self.makers[name])
                names.extend(self.reads[self.makers[name]])
        return found, leaves

    def beginnings(self):
        """The tensors at which text ends, and some single ones further on. None where an output of the model comes from text alone."""
        front, _ = self.between((), [name for i in self.text for name in self.nodes[i].output])
        made = [name for i in sorted(front) for name in self.nodes[i].output]
        if any(name in made for name in self.outputs):
            return [], []
        rest = [i for i in range(len(self.nodes)) if i not in front]
        read = {name for i in rest for name in self.reads[i]}
        later = []
        for name in (name for i in rest[:50] for name in self.nodes[i].output):
            if len(later) < 3 and name not in self.outputs and not front & self.between({name}, self.outputs)[0]:
                later.append(name)
        return [name for name in made if name in read], later

    def refusal(self, i):
        """Why the engine cannot have a node, and what to do."""
        first, later = self.beginnings()
        if not first:
            return f"{self.nodes[i].op_type} works on strings, which TensorRT does not support, and an output of the model depends on nothing else"
        advice = f"let the engine start after it with `inputs: [{', '.join(first)}]`"
        if later:
            advice += f", or later, such as at {', '.join(later)}"
        return f"{self.nodes[i].op_type} works on strings, which TensorRT does not support: {advice}"

    def part(self, indices, inputs, outputs):
        """A model of some of the nodes."""
        graph = self.model.graph
        read = {name for i in indices for name in self.reads[i]}
        made = {name for i in indices for name in self.nodes[i].output}
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        for field in ("node", "input", "output", "initializer", "sparse_initializer", "value_info"):
            model.graph.ClearField(field)
        model.graph.node.extend(self.nodes[i] for i in sorted(indices))
        model.graph.input.extend(self.tensors[name] for name in inputs)
        model.graph.output.extend(outputs)
        model.graph.initializer.extend(tensor for tensor in graph.initializer if tensor.name in read)
        model.graph.sparse_initializer.extend(tensor for tensor in graph.sparse_initializer if tensor.values.name in read)
        model.graph.value_info.extend(value for value in graph.value_info if value.name in made)
        domains = {"", "ai.onnx"} | {node.domain for each in graphs(model.graph) for node in each.node}
        if not model.functions:
            kept = [opset for opset in model.opset_import if opset.domain in domains]
            model.ClearField("opset_import")
            model.opset_import.extend(kept)
        return model

    def save(self, model, target):
        if self.external:
            onnx.load_external_data_for_model(model, str(self.folder))
        save(model, target, self.external)


def cut(job):
    model = Cut(pathlib.Path(job["source"]))
    begin = [name for name in job["inputs"] if name not in model.inputs]
    for name in begin:
        if name not in model.makers:
            close = difflib.get_close_matches(name, model.makers, 3)
            raise Fault(f"inputs: the model has no tensor {name}" + (f"; it has {', '.join(close)}" if close else ""))
        if name not in model.tensors or not model.tensors[name].type.tensor_type.HasField("shape"):
            raise Fault(f"inputs: the number of dimensions of {name} is only known at run time; start at another tensor")
    if not begin and job["inputs"]:
        raise Fault("inputs: the model begins at these tensors already; leave `inputs` out")
    back, leaves = model.between(set(begin), model.outputs)
    if model.text & back:
        raise Fault(model.refusal(min(model.text & back)))
    if unread := [name for name in begin if name not in leaves]:
        raise Fault(f"inputs: nothing that follows the others reads {', '.join(unread)}; remove it")
    front, sources = model.between((), begin)
    inputs = [*begin, *(name for name in model.inputs if name in leaves)]
    model.save(model.part(front, [name for name in model.inputs if name in sources], [model.tensors[name] for name in begin]), pathlib.Path(job["front"]))
    model.save(model.part(back, inputs, model.model.graph.output), pathlib.Path(job["target"]))


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # the tools' advice is for whoever calls them by hand
    asked = json.load(sys.stdin)
    try:
        build(asked) if asked["inputs"] is None else cut(asked)
    except Fault as fault:
        print(fault, file=sys.stderr)
        sys.exit(3)
