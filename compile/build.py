"""Builds one variant of an ONNX model with ONNX Runtime's own tools.

Reads a job from stdin as JSON: {"source", "target", "optimize", "precision", "keep_fp32", "calibration", "explicit"}. Writes the
variant to the file `target`. A job with "inputs" cuts the source in two instead: what makes these tensors goes to the file `front`,
what follows them to `target`. What is written depends on the source, the job and the tools' versions only.

A fault of the model or the job ends it with code 3, and stderr with a line that says what is wrong.

A source with external data has variants with external data: no protobuf message is larger than 2 GiB. It lies beside the target, in
one file of the target's name with ".data" behind it.
"""

import difflib
import itertools
import json
import logging
import pathlib
import re
import sys
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import inliner, version_converter
from onnx.external_data_helper import uses_external_data
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.registry import IntegerOpsRegistry
from onnxruntime.transformers.float16 import ALWAYS_FLOAT_INPUTS, DEFAULT_OP_BLOCK_LIST, convert_float_to_float16

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


# The opsets from which ONNX has an operator that quantises dynamically, and operators that quantise by channel. ONNX Runtime has the latter in
# any.
DYNAMICALLY, BY_CHANNEL = 11, 13


class Fault(Exception):
    """What is wrong with the model or the job."""


# What computes with large constants, and what TensorRT quantises.
MATRICES = ["Conv", "ConvTranspose", "Gemm", "MatMul"]


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


def load(path, level="all"):
    """Loads a model as it will be loaded to be served."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = LEVELS[level]
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def reason(error):
    """What an error of the tools says, in one line and without the names of files."""
    text = " ".join(str(error).split()) or type(error).__name__
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)
    return re.sub(r"Load model from \S+ failed:", "", text).rstrip(".: ")


def prepare(source, folder, level="basic"):
    """The model as the tools want it: constants folded, types known."""
    prepared = folder / "prepared.onnx"
    optimize(source, prepared, level)
    annotate(prepared)
    return prepared


def quantize(source, target):
    """Makes the weights integers of 7 bits, by channel. What goes between the operators is measured anew at each inference.

    x86 processors without VNNI add products of two 8-bit numbers in 16 bits, which overflow, and a model is not always served on the
    processor that it was proved on.
    """
    if opset_of(source) < DYNAMICALLY:
        convert(source, DYNAMICALLY)
    source = tidy(source)

    graph = onnx.load(str(source), load_external_data=False).graph
    dims = {tensor.name: len(tensor.dims) for tensor in graph.initializer}
    deep = [node.name for node in graph.node if node.op_type == "MatMul" and dims.get(node.input[1], 2) != 2]  # not computed by channel

    def build(operators, made):
        options = {"weight_type": QuantType.QInt8, "reduce_range": True, "op_types_to_quantize": operators, "use_external_data_format": is_external(source)}
        by_channel = made.with_name("by_channel.onnx") if deep else made
        quantize_dynamic(str(source), str(by_channel), per_channel=True, nodes_to_exclude=deep, **options)
        if deep:
            quantize_dynamic(str(by_channel), str(made), nodes_to_quantize=deep, **options)
            by_channel.unlink()
            by_channel.with_name(data_of(by_channel)).unlink(missing_ok=True)

    best([QUANTIZED, ["MatMul"]], build, target, lambda made: load(made) and 1.0)


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


# How TensorRT reads what is quantised: symmetric, weights as they are with a QDQ pair behind them, and no quantised bias.
EXPLICIT_OPTIONS = {"ActivationSymmetric": True, "WeightSymmetric": True, "AddQDQPairToWeight": True, "QuantizeBias": False}



def quantize_calibrated(source, target, rows, explicit):
    """Makes weights and what goes between the operators 8-bit integers, by the ranges that the rows have.

    Nothing is optimised after it: what loads the model fuses QDQ pairs with operators in the way of its own processor. For ONNX Runtime the
    weights have 7 bits, as in quantize.
    """
    if explicit and opset_of(source) < BY_CHANNEL:
        convert(source, BY_CHANNEL)
    source = tidy(source)
    options = EXPLICIT_OPTIONS if explicit else {"UseQDQContribOps": opset_of(source) < BY_CHANNEL}
    options = {**options, "TensorQuantOverrides": {name: [{}] for name in in_one_scale(onnx.load(str(source), load_external_data=False).graph)}}

    def build(operators, made):
        quantize_static(
            str(source), str(made), Rows(rows), quant_format=QuantFormat.QDQ, per_channel=True,
            activation_type=QuantType.QInt8, weight_type=QuantType.QInt8, reduce_range=not explicit, use_external_data_format=is_external(source),
            op_types_to_quantize=operators, extra_options=options,
        )

    level = "none" if explicit else "all"  # TensorRT has 8 bits that do not overflow
    expected = list(outputs_of(load(source), rows))
    best([None, MATRICES][explicit:], build, target, lambda made: likeness(expected, outputs_of(load(made, level), rows)))


# A quantised model whose outputs are less like the source model's is built in another way too.
ALIKE = 0.95

# So many rows of a calibration show it.
COMPARED = 8


def best(ways, build, target, judge):
    """Builds a model in the first of several ways of which judge, by a number up to 1, thinks well, or else in the best."""
    most, fault = -numpy.inf, None
    for i, operators in enumerate(ways):
        made = target.with_name(f"way-{i}") / target.name
        made.parent.mkdir()
        try:
            build(operators, made)
            found = judge(made)
        except Exception as e:  # of the tools, which fail in many ways
            fault = fault or e
            continue
        if found > most:
            most, chosen = found, made
        if found >= ALIKE:
            break
    if most == -numpy.inf:
        raise Fault(f"ONNX Runtime's tools cannot quantise the model: {reason(fault)}") from fault
    for file in chosen.parent.iterdir():
        file.rename(target.with_name(file.name))


def outputs_of(session, rows):
    """The numbers that a model puts out for the first rows of a file, in one vector each."""
    for row in itertools.islice(iter(Rows(rows).get_next, None), COMPARED):
        numbers = [output for output in session.run(None, row) if isinstance(output, numpy.ndarray) and output.dtype.kind in "fiub"]
        yield numpy.concatenate([numpy.float64(output).ravel() for output in numbers] or [numpy.zeros(1)])


def likeness(expected, found):
    """The least cosine of the angle between two vectors."""
    least = 1.0
    for a, b in zip(expected, found, strict=True):
        size = numpy.linalg.norm(a) * numpy.linalg.norm(b)
        least = min(least, numpy.nan_to_num(a @ b / size, nan=-1.0) if size else float(not a.any() and not b.any()))
    return least


def opset_of(path):
    return max((o.version for o in onnx.load(str(path), load_external_data=False).opset_import if o.domain in ("", "ai.onnx")), default=1)


def convert(path, opset):
    """Writes a model in a later opset, in its place."""
    external, own = is_external(path), opset_of(path)
    try:
        model = version_converter.convert_version(onnx.load(str(path)), opset)
    except Exception as e:
        raise Fault(
            f"the model has opset {own}, this quantisation needs {opset}, and onnx cannot convert the model: {reason(e)}; "
            f"export it with opset {opset} or later"
        ) from e
    save(model, path, external)
    annotate(path)


# How the names end that the quantisers give to what they add.
ADDED = ("_scale", "_zero_point", "_quantized", "_QuantizeLinear_Output", "_QuantizeLinear_Input", "_DequantizeLinear_Output")


def tidy(path):
    """Rewrites what the quantisers stumble over, which changes nothing that the model computes, and returns the new file."""
    model = onnx.load(str(path), load_external_data=False)
    graph = model.graph
    # The tools look for one entry of ONNX's own operators.
    opsets = [opset for opset in model.opset_import if opset.domain not in ("", "ai.onnx")]
    opsets.append(onnx.helper.make_opsetid("", opset_of(path)))
    model.ClearField("opset_import")
    model.opset_import.extend(opsets)
    # Before IR 4, weights are inputs with a default.
    model.ir_version = max(model.ir_version, 4)
    weights = {tensor.name: tensor for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    graph.ClearField("input")
    graph.input.extend(inputs)
    outside = {value.name for value in (*graph.input, *graph.output)}
    taken = {name for each in graphs(graph) for node in each.node for name in (*node.input, *node.output, node.name)}
    taken |= outside | set(weights)

    def fresh(name):
        name = next(n for n in itertools.chain([name], (f"{name}_{i}" for i in itertools.count())) if n not in taken)
        taken.add(name)
        return name

    # Nodes are told apart by their names.
    for each in graphs(graph):
        for node in each.node:
            node.name = node.name or fresh(node.op_type)
    # Names of tensors are not looked up before they are given.
    given = [*(tensor.name for tensor in graph.initializer), *(name for each in graphs(graph) for node in each.node for name in node.output)]
    rename(model, {name: fresh(name + "_") for name in given if name.endswith(ADDED) and name not in outside})
    # A bias belongs to one operator, by whose scales it is quantised, and has a number for each channel. Factors are part of the weights.
    readers = [name for each in graphs(graph) for node in each.node for name in read_by(node)]
    weights = {tensor.name: tensor for tensor in graph.initializer}

    def own(node, i, change=None):
        tensor = graph.initializer.add()
        tensor.CopyFrom(weights[node.input[i]])
        tensor.name = fresh(node.input[i])
        if change:
            values = onnx.numpy_helper.to_array(weights[node.input[i]], str(path.parent))
            tensor.CopyFrom(onnx.numpy_helper.from_array(change(values).astype(values.dtype), tensor.name))
        node.input[i] = tensor.name

    for at, node in reversed(list(enumerate(graph.node))):
        if node.op_type == "Gemm" and node.input[1] in weights and readers.count(node.input[1]) > 1:
            own(node, 1)  # it is transposed in its place
            weights[node.input[1]] = graph.initializer[-1]
        if node.op_type not in MATRICES or len(node.input) < 3 or not {*node.input[1:3]} <= set(weights):
            continue
        if node.op_type != "Gemm":
            if readers.count(node.input[2]) > 1 or node.input[2] in outside:
                own(node, 2)
            continue
        alpha, beta = attribute(node, "alpha", 1.0), attribute(node, "beta", 1.0)
        count = weights[node.input[1]].dims[0 if attribute(node, "transB", 0) else 1]
        shape = tuple(weights[node.input[2]].dims)
        if alpha != 1:
            own(node, 1, lambda weight: weight * alpha)
        if shape in ((), (1,), (1, 1), (1, count)):
            own(node, 2, lambda bias: numpy.broadcast_to(bias.ravel() * beta, count))
        elif beta != 1 or readers.count(node.input[2]) > 1 or node.input[2] in outside:
            own(node, 2, lambda bias: bias * beta)
        kept = [a for a in node.attribute if a.name not in ("alpha", "beta")]
        node.ClearField("attribute")
        node.attribute.extend(kept)
        if shape not in ((), (1,), (1, 1), (1, count), (count,)):  # not one for each channel
            product, bias = fresh(node.output[0] + "_product"), node.input.pop()
            graph.node.insert(at + 1, onnx.helper.make_node("Add", [product, bias], [node.output[0]], fresh(node.name + "_add")))
            node.output[0] = product
    tidied = path.with_name("tidied.onnx")
    onnx.save(model, str(tidied))
    return tidied


def attribute(node, name, default):
    return next((onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


def rename(model, names):
    """Gives tensors other names, everywhere."""
    for graph in graphs(model.graph):
        for described in (*graph.initializer, *graph.value_info, *graph.output):
            described.name = names.get(described.name, described.name)
        for node in graph.node:
            for field in (node.input, node.output):
                field[:] = [names.get(name, name) for name in field]


def in_one_scale(graph):
    """The weights that no kernel computes with by channel: of products with three dimensions, on the left of a product, or of several uses."""
    axes = {tensor.name: set() for tensor in graph.initializer}
    dims = {tensor.name: len(tensor.dims) for tensor in graph.initializer}
    matrices = set()
    for each in graphs(graph):
        for node in each.node:
            for i, name in enumerate(node.input):
                if name not in axes:
                    continue
                axis = None
                if i == 1 and node.op_type in MATRICES:
                    axis = {"Conv": 0, "ConvTranspose": 1, "Gemm": 1 - attribute(node, "transB", 0), "MatMul": 1}[node.op_type]
                if node.op_type == "MatMul" and dims[name] != 2:
                    axis = None
                axes[name].add(axis)
                if i < 2 and node.op_type in MATRICES:
                    matrices.add(name)
    return sorted(name for name in matrices if len(axes[name]) > 1 or None in axes[name])


# ONNX Runtime's own operators on integers, whose scales are fp32.
INTEGER_OPERATORS = ("Quantize", "Dequantize", "DynamicQuantize", "QLinear", "QGemm", "QAttention", "QEmbed")

# Those whose sums are larger than a number in fp16.
INTEGER_SUMS = ("MatMulInteger", "ConvInteger")


def halve(source, target, keep):
    """Makes all but the named operators compute in fp16. Inputs and outputs stay as they are.

    Nothing is optimised after it: ONNX Runtime on a CPU would turn back what it has no fp16 form of, and write that down.
    """
    model = onnx.load(str(source), load_external_data=False)
    known = sorted({node.op_type for graph in graphs(model.graph) for node in graph.node})
    if unknown := sorted(set(keep) - set(known)):
        raise Fault(f"keep_fp32: the model has no operator {', '.join(unknown)}; it has: {', '.join(known)}")
    if sums := [operator for operator in known if operator.startswith(INTEGER_SUMS)]:
        raise Fault(f"the model is quantised already, and the sums of its {sums[0]} do not fit into fp16: make fp16 of the model before it was quantised")
    block = {*DEFAULT_OP_BLOCK_LIST, *keep, *fp32_only(model), *(operator for operator in known if operator.startswith(INTEGER_OPERATORS))}
    try:
        converted = convert_float_to_float16(str(source), keep_io_types=True, op_block_list=block)
        save(converted, target, is_external(source))
        load(target)
    except Exception as e:
        raise Fault(f"ONNX Runtime's tools cannot make fp16 of the model: {reason(e)}") from e


def fp32_only(model):
    """The operators of ONNX that have no fp16 in the model's opset, apart from those whose exceptions the converter knows."""
    versions = {opset.domain: opset.version for opset in model.opset_import}
    for node in (node for graph in graphs(model.graph) for node in graph.node if node.op_type not in ALWAYS_FLOAT_INPUTS):
        domain = "" if node.domain == "ai.onnx" else node.domain
        if onnx.defs.has(node.op_type, versions.get(node.domain, 1), domain):
            schema = onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), domain)
            if any("tensor(float)" in value.types and "tensor(float16)" not in value.types for value in (*schema.inputs, *schema.outputs)):
                yield node.op_type


def is_half(path):
    """Whether a model computes in fp16 already, as far as its tensors and casts tell."""
    model = onnx.load(str(path), load_external_data=False)
    half = onnx.TensorProto.FLOAT16
    return any(
        any(tensor.data_type == half for tensor in graph.initializer)
        or any(value.type.tensor_type.elem_type == half for value in (*graph.input, *graph.value_info))
        or any(attribute(node, "to", None) == half for node in graph.node if node.op_type == "Cast")
        for graph in graphs(model.graph)
    )


def unfold(source, folder):
    """The model as it is, but without functions. ONNX Runtime on a CPU would write fp16 down as fp32 with casts around it."""
    unfolded = folder / "prepared.onnx"
    model = onnx.load(str(source))
    save(inliner.inline_local_functions(model) if model.functions else model, unfolded, is_external(source))
    annotate(unfolded)
    return unfolded


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
            prepared = unfold(source, folder) if is_half(source) else prepare(source, folder, job["optimize"])
            halve(prepared, made, job["keep_fp32"])
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
    except (OSError, MemoryError):
        raise  # of the machine
    except Exception as e:
        print(f"ONNX Runtime's tools cannot build it: {reason(e)}", file=sys.stderr)
        sys.exit(3)
