"""Writes the small models that the tests of serving and compile use. Run by hand: python3 generate.py (needs onnx and numpy).

crash.onnx is not among them: it is nn.TransformerEncoderLayer(16, 2, 32, batch_first=True) between an embedding and a linear layer, exported
by torch with opset 12, optimised by ONNX Runtime 1.31 (ORT_ENABLE_BASIC) and then converted by its own
onnxruntime.transformers.float16.convert_float_to_float16(model, keep_io_types=True)."""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import uses_external_data

HERE = pathlib.Path(__file__).parent
OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("com.microsoft", 1)]


def save(name, nodes, inputs, outputs, initializers=(), checked=True):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=OPSETS, ir_version=8)
    if checked and not any(uses_external_data(i) for i in initializers):  # which is not there
        onnx.checker.check_model(model)
    (HERE / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))


def tensor(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def text_classifier(name, spam):
    """text [N] -> probabilities [N, 2]; texts of the word "spam" have probability `spam` of class 1, all others 1 - spam."""
    nodes = [
        helper.make_node(
            "LabelEncoder", ["text"], ["p"], domain="ai.onnx.ml",
            keys_strings=["spam"], values_floats=[spam], default_float=1 - spam,
        ),
        helper.make_node("Sub", ["one", "p"], ["q"]),
        helper.make_node("Unsqueeze", ["p", "axis"], ["p2"]),
        helper.make_node("Unsqueeze", ["q", "axis"], ["q2"]),
        helper.make_node("Concat", ["q2", "p2"], ["probabilities"], axis=1),
    ]
    constants = [
        numpy_helper.from_array(np.array(1, np.float32), "one"),
        numpy_helper.from_array(np.array([1], np.int64), "axis"),
    ]
    save(
        name, nodes,
        [tensor("text", TensorProto.STRING, ["N"])],
        [tensor("probabilities", TensorProto.FLOAT, ["N", 2])], constants,
    )


def words():
    """text [N] -> probabilities [N, 2]: class 1 for texts with the word "spam". The Tokenizer is an operator of ONNX Runtime alone.

    Also in two parts, text -> hits and hits -> probabilities.
    """
    front = [
        helper.make_node(
            "Tokenizer", ["text"], ["tokens"], domain="com.microsoft", mark=0, mincharnum=1, pad_value="", separators=[" "],
        ),
        helper.make_node(
            "LabelEncoder", ["tokens"], ["hits"], domain="ai.onnx.ml", keys_strings=["spam"], values_floats=[1.0], default_float=0.0,
        ),
    ]
    back = [
        helper.make_node("ReduceMax", ["hits"], ["hit"], axes=[1], keepdims=1),
        helper.make_node("MatMul", ["hit", "w"], ["scaled"]),
        helper.make_node("Add", ["scaled", "b"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1),
    ]
    constants = [
        numpy_helper.from_array(np.array([[-4, 4]], np.float32), "w"),
        numpy_helper.from_array(np.array([2, -2], np.float32), "b"),
    ]
    text, hits = tensor("text", TensorProto.STRING, ["N"]), tensor("hits", TensorProto.FLOAT, ["N", "tokens"])
    probabilities = tensor("probabilities", TensorProto.FLOAT, ["N", 2])
    save("words", front + back, [text], [probabilities], constants)
    save("words_front", front, [text], [hits])
    save("words_back", back, [hits], [probabilities], constants)


def echo():
    """Every element type in, the same out."""
    kinds = {
        "bool": TensorProto.BOOL, "int32": TensorProto.INT32, "int64": TensorProto.INT64, "uint8": TensorProto.UINT8,
        "float": TensorProto.FLOAT, "double": TensorProto.DOUBLE, "string": TensorProto.STRING,
    }
    save(
        "echo",
        [helper.make_node("Identity", [k], [f"{k}_out"]) for k in kinds],
        [tensor(k, v, ["N", 2]) for k, v in kinds.items()],
        [tensor(f"{k}_out", v, ["N", 2]) for k, v in kinds.items()],
    )


def echo_small():
    """The element types that echo lacks in, the same out."""
    kinds = {
        "int8": TensorProto.INT8, "int16": TensorProto.INT16, "uint16": TensorProto.UINT16, "uint32": TensorProto.UINT32,
        "uint64": TensorProto.UINT64, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16,
    }
    save(
        "echo_small",
        [helper.make_node("Identity", [k], [f"{k}_out"]) for k in kinds],
        [tensor(k, v, ["N", 2]) for k, v in kinds.items()],
        [tensor(f"{k}_out", v, ["N", 2]) for k, v in kinds.items()],
    )


def half_open():
    """A tensor of two bytes an element, whose width only an inference tells."""
    kind = TensorProto.FLOAT16
    save("half_open", [helper.make_node("Identity", ["x"], ["y"])], [tensor("x", kind, ["N", "M"])], [tensor("y", kind, ["N", "M"])])


def logit():
    """x [N, 1] -> y [N, 1], unchanged, as a classifier of two classes that ends without a sigmoid."""
    shape = ["N", 1]
    save("logit", [helper.make_node("Identity", ["x"], ["y"])], [tensor("x", TensorProto.FLOAT, shape)], [tensor("y", TensorProto.FLOAT, shape)])


def zipmap():
    """x [N, 2] -> probabilities as scikit-learn's classifiers put them out: a sequence of maps."""
    nodes = [helper.make_node("ZipMap", ["x"], ["probabilities"], domain="ai.onnx.ml", classlabels_int64s=[0, 1])]
    maps = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    out = helper.make_value_info("probabilities", helper.make_sequence_type_proto(maps))
    save("zipmap", nodes, [tensor("x", TensorProto.FLOAT, ["N", 2])], [out])


def mlp():
    """x [N, 16] -> logits [N, 3] through one hidden layer: something to optimise and quantise."""
    rng = np.random.default_rng(7)
    weights = {
        "w1": rng.normal(0, 0.3, (16, 64)), "b1": rng.normal(0, 0.1, 64),
        "w2": rng.normal(0, 0.3, (64, 3)), "b2": rng.normal(0, 0.1, 3),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["m1"]),
        helper.make_node("Add", ["m1", "b1"], ["a1"]),
        helper.make_node("Relu", ["a1"], ["h"]),
        helper.make_node("MatMul", ["h", "w2"], ["m2"]),
        helper.make_node("Add", ["m2", "b2"], ["logits"]),
    ]
    save(
        "mlp", nodes,
        [tensor("x", TensorProto.FLOAT, ["N", 16])],
        [tensor("logits", TensorProto.FLOAT, ["N", 3])],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )


def conv():
    """x [N, 1, 8, 8] -> logits [N, 3] through two convolutions: something that static quantisation is for."""
    rng = np.random.default_rng(11)
    weights = {
        "w1": rng.normal(0, 0.5, (8, 1, 3, 3)), "b1": rng.normal(0, 0.1, 8),
        "w2": rng.normal(0, 0.3, (16, 8, 3, 3)), "b2": rng.normal(0, 0.1, 16),
        "w3": rng.normal(0, 0.3, (16, 3)), "b3": rng.normal(0, 0.1, 3),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("GlobalAveragePool", ["r2"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["logits"]),
    ]
    save(
        "conv", nodes,
        [tensor("x", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [tensor("logits", TensorProto.FLOAT, ["N", 3])],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )


def loop():
    """n -> n, by counting to it: an inference that lasts as long as it is asked to."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["going"], ["going_on"]),
            helper.make_node("Add", ["count", "step"], ["count_out"]),
        ],
        "body",
        [tensor("turn", TensorProto.INT64, []), tensor("going", TensorProto.BOOL, []), tensor("count", TensorProto.INT64, [1])],
        [tensor("going_on", TensorProto.BOOL, []), tensor("count_out", TensorProto.INT64, [1])],
        [numpy_helper.from_array(np.array([1], np.int64), "step")],
    )
    nodes = [
        helper.make_node("Squeeze", ["n"], ["turns"]),
        helper.make_node("Loop", ["turns", "", "start"], ["count_end"], body=body),
    ]
    save(
        "loop", nodes,
        [tensor("n", TensorProto.INT64, [1])],
        [tensor("count_end", TensorProto.INT64, [1])],
        [numpy_helper.from_array(np.array([0], np.int64), "start")],
    )


def one_hot():
    """text [N] -> hot [N, 2]; a text that is neither "ham" nor "spam" is an error of ONNX Runtime's."""
    nodes = [helper.make_node("OneHotEncoder", ["text"], ["hot"], domain="ai.onnx.ml", cats_strings=["ham", "spam"], zeros=0)]
    save("one_hot", nodes, [tensor("text", TensorProto.STRING, ["N"])], [tensor("hot", TensorProto.FLOAT, ["N", 2])])


def external(name, shape):
    """Numbers that are in the file model.onnx.data."""
    t = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "model.onnx.data", "offset": "0", "length": str(4 * int(np.prod(shape)))}.items():
        t.external_data.add(key=key, value=value)
    return t


def scalars():
    """x [N] -> their sum and whether it is 0, without dimensions, and x itself, of which the model says no dimensions."""
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Equal", ["sum", "zero"], ["nothing"]),
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("Identity", ["word"], ["text"]),
    ]
    save(
        "scalars", nodes,
        [tensor("x", TensorProto.FLOAT, ["N"])],
        [tensor("sum", TensorProto.FLOAT, []), tensor("nothing", TensorProto.BOOL, []), tensor("same", TensorProto.FLOAT, None), tensor("text", TensorProto.STRING, [])],
        [numpy_helper.from_array(np.array(0, np.float32), "zero"), helper.make_tensor("word", TensorProto.STRING, [], [b"sum"])],
        checked=False,  # which demands dimensions of outputs
    )


def table():
    """ids [N] -> rows [N, 256] of a table of 16 MiB, which is external data."""
    nodes = [helper.make_node("Gather", ["table", "ids"], ["rows"], axis=0)]
    save(
        "table", nodes,
        [tensor("ids", TensorProto.INT64, ["N"])],
        [tensor("rows", TensorProto.FLOAT, ["N", 256])],
        [external("table", [16384, 256])],
    )


text_classifier("text", 0.9)
text_classifier("text_close", 0.8)
text_classifier("text_wrong", 0.1)
words()
echo()
echo_small()
half_open()
logit()
zipmap()
mlp()
conv()
loop()
one_hot()
scalars()
table()
