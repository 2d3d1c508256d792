"""Writes the corpus of small models that go through every variant: OUT/NAME/model.onnx, and OUT/NAME/rows with the splits train and test.

    python3 models.py OUT

Those of scikit-learn and TensorFlow are beside this file, in frozen/, so that a test needs neither. They were made by

    pip install skl2onnx==1.20.0 scikit-learn==1.9.1 && python3 models.py --freeze sklearn
    pip install tf2onnx==1.17.0 tensorflow-cpu==2.15.1 onnx==1.16.2 && python3 models.py --freeze tensorflow
"""

import inspect
import json
import pathlib
import sys
import warnings

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

FROZEN = pathlib.Path(__file__).parent / "frozen"
ROWS = {"train": 100, "test": 24}
MODELS = {}


def model(opset, **options):
    """Registers a function that makes the nodes, inputs, outputs and weights of a model."""

    def register(make):
        MODELS[f"{make.__name__}_{opset}"] = lambda rng: build(*make(Weights(rng)), opset, **options)
        return make

    return register


class Weights:
    def __init__(self, rng):
        self.rng, self.list = rng, []

    def __call__(self, name, *shape, scale=0.5, dtype=np.float32):
        return self.put(name, (self.rng.standard_normal(shape) * scale).astype(dtype))

    def put(self, name, values):
        self.list.append(numpy_helper.from_array(np.asarray(values), name))
        return name


def build(nodes, inputs, outputs, weights, opset, ir=None, domains=(), functions=(), listed=False):
    values = lambda described: [h.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in described.items()]
    inputs = values(inputs)
    if listed:  # weights are inputs with a default
        inputs += [h.make_tensor_value_info(w.name, w.data_type, w.dims) for w in weights.list]
    graph = h.make_graph(nodes, "corpus", inputs, values(outputs), weights.list)
    imports = [h.make_opsetid("", opset), *(h.make_opsetid(*d) for d in domains)]
    made = h.make_model(graph, opset_imports=imports, ir_version=ir or (3 if listed else 4 if opset < 13 else 8 if opset < 19 else 10), functions=functions)
    onnx.checker.check_model(made)
    return made


N = h.make_node
IMAGE = {"x": (T.FLOAT, ["N", 3, 6, 6])}
VECTOR = {"x": (T.FLOAT, ["N", 8])}
SCORES = {"y": (T.FLOAT, ["N", 5])}


def head(w, pooled):
    """Four nodes from an image with 8 channels to scores."""
    return [
        N("GlobalAveragePool", [pooled], ["pool"]), N("Flatten", ["pool"], ["flat"]),
        N("Gemm", ["flat", w("g", 5, 8, scale=1), w("gb", 5)], ["y"], transB=1),
    ]


def conv(w):
    nodes = [N("Conv", ["x", w("w", 8, 3, 3, 3), w("b", 8)], ["a"], pads=[1, 1, 1, 1]), N("Relu", ["a"], ["r"]), *head(w, "r")]
    return nodes, IMAGE, SCORES, w


for opset in (7, 8, 10, 12, 13, 18, 21):
    model(opset)(conv)


@model(9)
def slices(w):
    """Operators that had attributes where later opsets have inputs."""
    nodes = [
        N("Slice", ["x"], ["s"], axes=[2, 3], starts=[1, 1], ends=[5, 5]), N("Pad", ["s"], ["p"], pads=[0, 0, 1, 1, 0, 0, 1, 1]),
        N("Clip", ["p"], ["c"], min=-2.0, max=2.0), N("Conv", ["c", w("w", 8, 3, 3, 3)], ["a"]), N("Dropout", ["a"], ["d"], ratio=0.5),
        N("Softmax", ["d"], ["soft"], axis=1), N("Mul", ["soft", w.put("k", np.float32(100))], ["m"]), *head(w, "m"),
    ]
    return nodes, IMAGE, SCORES, w


@model(9)
def upsample(w):
    nodes = [
        N("Conv", ["x", w("w", 8, 3, 3, 3)], ["a"]), N("Upsample", ["a", w.put("factors", np.float32([1, 1, 2, 2]))], ["u"], mode="nearest"),
        *head(w, "u"),
    ]
    return nodes, IMAGE, SCORES, w


@model(11)
@model(13)
def product3d(w):
    nodes = [N("MatMul", ["x", w("w", 3, 5, 4)], ["a"]), N("Relu", ["a"], ["r"]), N("ReduceMean", ["r"], ["y"], axes=[1], keepdims=0)]
    return nodes, {"x": (T.FLOAT, ["N", 3, 2, 5])}, {"y": (T.FLOAT, ["N", 2, 4])}, w


@model(11)
@model(13)
def row_bias(w):
    nodes = [N("Gemm", ["x", w("w", 8, 6), w("b", 1, 6)], ["a"]), N("Relu", ["a"], ["r"]), N("Gemm", ["r", w("v", 6, 5), w("one", 1)], ["y"])]
    return nodes, VECTOR, SCORES, w


@model(13)
def factors(w):
    """A Gemm with factors, and one with a bias for each row."""
    nodes = [
        N("Gemm", ["x", w("w", 8, 6), w("b", 6, scale=2)], ["a"], alpha=0.5, beta=2.0), N("Relu", ["a"], ["r"]),
        N("Gemm", ["r", w("v", 6, 5), w("c", 1, 1)], ["s"], beta=3.0), N("Unsqueeze", ["s", w.put("ax", np.int64([1]))], ["u"]),
        N("Squeeze", ["u", "ax"], ["y"]),
    ]
    return nodes, VECTOR, SCORES, w


@model(13)
def column_bias(w):
    nodes = [N("Gemm", [w("w", 4, 8), "x", w("c", 4, 1)], ["a"], transB=1), N("Transpose", ["a"], ["y"], perm=[1, 0])]
    return nodes, VECTOR, {"y": (T.FLOAT, ["N", 4])}, w


@model(17)
def shared_bias(w):
    w("b", 3)
    nodes = [
        N("Conv", ["x", w("w", 3, 3, 3, 3), "b"], ["b0"], pads=[1, 1, 1, 1]), N("Conv", ["b0", w("v", 3, 3, 3, 3), "b"], ["b1"], pads=[1, 1, 1, 1]),
        N("Add", ["b1", "x"], ["b_1"]), N("GlobalAveragePool", ["b_1"], ["p"]), N("Flatten", ["p"], ["y"]),
    ]
    return nodes, IMAGE, {"y": (T.FLOAT, ["N", 3])}, w


@model(11)
def shared_row_bias(w):
    w("b", 1, 8)
    nodes = [N("Gemm", ["x", w("w", 8, 8), "b"], ["a"]), N("Gemm", ["a", w("v", 8, 8), "b"], ["c"]), N("Add", ["c", "b"], ["y"])]
    return nodes, VECTOR, {"y": (T.FLOAT, ["N", 8])}, w


@model(13)
def shared_weight(w):
    """A matrix by whose columns one operator computes, and by whose rows another."""
    w("w", 8, 8)
    nodes = [N("MatMul", ["x", "w"], ["a"]), N("Relu", ["a"], ["r"]), N("Gemm", ["r", "w", w("b", 8)], ["y"], transB=1)]
    return nodes, VECTOR, {"y": (T.FLOAT, ["N", 8])}, w


@model(13)
def left_weight(w):
    nodes = [N("MatMul", [w("w", 4, 3), "x"], ["a"]), N("MatMul", ["a", w("v", 5)], ["y"])]
    return nodes, {"x": (T.FLOAT, ["N", 3, 5])}, {"y": (T.FLOAT, ["N", 4])}, w


@model(9, listed=True)
def listed(w):
    nodes = [N("MatMul", ["x", w("w", 8, 5)], ["a"]), N("Add", ["a", w("b", 5)], ["c"]), N("Gemm", ["c", w("v", 5, 5), w("d", 1, 5)], ["y"])]
    return nodes, VECTOR, SCORES, w


@model(13)
def half(w):
    nodes = [
        N("Cast", ["x"], ["xh"], to=T.FLOAT16), N("MatMul", ["xh", w("w", 8, 6, dtype=np.float16)], ["a"]), N("Relu", ["a"], ["r"]),
        N("MatMul", ["r", w("v", 6, 5, dtype=np.float16)], ["yh"]), N("Cast", ["yh"], ["y"], to=T.FLOAT),
    ]
    return nodes, VECTOR, SCORES, w


@model(17)
def half_weights(w):
    nodes = [
        N("Cast", [w("wh", 8, 3, 3, 3, dtype=np.float16)], ["w"], to=T.FLOAT), N("Cast", [w("bh", 8, dtype=np.float16)], ["b"], to=T.FLOAT),
        N("Conv", ["x", "w", "b"], ["a"]), *head(w, "a"),
    ]
    return nodes, IMAGE, SCORES, w


@model(15)
def half_in_part(w):
    nodes = [
        N("MatMul", ["x", w("w", 8, 6)], ["a"]), N("Cast", ["a"], ["ah"], to=T.FLOAT16), N("Relu", ["ah"], ["r"]), N("Cast", ["r"], ["rf"], to=T.FLOAT),
        N("MatMul", ["rf", w("v", 6, 5)], ["s"]), N("Softmax", ["s"], ["y"], axis=-1),
    ]
    return nodes, VECTOR, SCORES, w


@model(13)
def quantised(w):
    """As ONNX Runtime's quantiser leaves a model, by its names."""
    w.put("x_scale", np.float32(0.03)), w.put("x_zero_point", np.int8(0)), w.put("w_scale", np.float32(0.02))
    w.put("w_quantized", w.rng.integers(-60, 60, (8, 6)).astype(np.int8)), w.put("w_zero_point", np.int8(0))
    nodes = [
        N("QuantizeLinear", ["x", "x_scale", "x_zero_point"], ["x_QuantizeLinear_Output"]),
        N("DequantizeLinear", ["x_QuantizeLinear_Output", "x_scale", "x_zero_point"], ["x_DequantizeLinear_Output"]),
        N("DequantizeLinear", ["w_quantized", "w_scale", "w_zero_point"], ["w"]), N("MatMul", ["x_DequantizeLinear_Output", "w"], ["a"]),
        N("Relu", ["a"], ["r"]), N("Add", ["x", w("c", 8)], ["shifted"]), N("MatMul", ["shifted", w("u", 8, 6)], ["side"]), N("Add", ["r", "side"], ["z"]),
        N("MatMul", ["z", w("v", 6, 5)], ["y"]),
    ]
    return nodes, VECTOR, SCORES, w


@model(11)
def integers(w):
    """Quantised dynamically already."""
    nodes = [
        N("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"]), N("MatMulInteger", ["q", w.put("w", w.rng.integers(-60, 60, (8, 5)).astype(np.int8)), "qz"], ["i"]),
        N("Cast", ["i"], ["f"], to=T.FLOAT), N("Mul", ["qs", w.put("ws", np.float32(0.01))], ["s"]), N("Mul", ["f", "s"], ["y"]),
    ]
    return nodes, VECTOR, SCORES, w


@model(12)
def masked(w):
    """Attention whose mask is the smallest number there is."""
    nodes = [
        N("MatMul", ["x", w("wq", 8, 8)], ["q"]), N("MatMul", ["x", w("wk", 8, 8)], ["k"]), N("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        N("MatMul", ["q", "kt"], ["s"]), N("Where", ["m", "s", w.put("least", np.float32(-3.4e38))], ["sm"]), N("Softmax", ["sm"], ["p"], axis=2),
        N("MatMul", ["p", "x"], ["o"]), N("ReduceMean", ["o"], ["y"], axes=[1], keepdims=0),
    ]
    return nodes, {"x": (T.FLOAT, ["N", 5, 8]), "m": (T.BOOL, ["N", 5, 5])}, {"y": (T.FLOAT, ["N", 8])}, w


@model(14)
def recurrent(w):
    nodes = [
        N("Transpose", ["x"], ["xt"], perm=[1, 0, 2]),
        N("LSTM", ["xt", w("w", 1, 32, 4, scale=0.3), w("r", 1, 32, 8, scale=0.3), w("b", 1, 64, scale=0.1)], ["", "h", ""], hidden_size=8),
        N("Squeeze", ["h", w.put("ax", np.int64([0]))], ["hs"]), N("MatMul", ["hs", w("v", 8, 5, scale=1)], ["y"]),
    ]
    return nodes, {"x": (T.FLOAT, ["N", 6, 4])}, SCORES, w


@model(13)
def loops(w):
    body = h.make_graph(
        [N("MatMul", ["s", "w"], ["s2"]), N("Identity", ["c"], ["c2"])], "body",
        [h.make_tensor_value_info(n, t, s) for n, t, s in (("i", T.INT64, []), ("c", T.BOOL, []), ("s", T.FLOAT, ["N", 8]))],
        [h.make_tensor_value_info(n, t, s) for n, t, s in (("c2", T.BOOL, []), ("s2", T.FLOAT, ["N", 8]))])
    w("w", 8, 8, scale=0.3)
    nodes = [N("Loop", [w.put("m", np.int64(3)), w.put("t", np.bool_(True)), "x"], ["z"], body=body), N("MatMul", ["z", w("v", 8, 5)], ["y"])]
    return nodes, VECTOR, SCORES, w


op17 = [h.make_opsetid("", 17)]
LINEAR = h.make_function("corpus", "Linear", ["a", "w"], ["o"], [N("MatMul", ["a", "w"], ["t"]), N("Relu", ["t"], ["o"])], op17)


@model(17, domains=[("corpus", 1)], functions=[LINEAR])
def functions(w):
    return [N("Linear", ["x", w("w", 8, 6)], ["a"], domain="corpus"), N("MatMul", ["a", w("v", 6, 5)], ["y"])], VECTOR, SCORES, w


@model(12)
def conv1d(w):
    nodes = [
        N("Conv", ["x", w("w", 8, 4, 3), w("b", 8)], ["a"]), N("Relu", ["a"], ["r"]), N("Conv", ["r", w("v", 8, 1, 3)], ["d"], group=8), *head(w, "d"),
    ]
    return nodes, {"x": (T.FLOAT, ["N", 4, 9])}, SCORES, w


@model(11)
def transposed(w):
    nodes = [N("ConvTranspose", ["x", w("w", 3, 8, 2, 2), w("b", 8)], ["a"], strides=[2, 2]), *head(w, "a")]
    return nodes, IMAGE, SCORES, w


@model(10)
def normalised(w):
    w.put("scale", np.ones(8, np.float32)), w.put("mean", np.zeros(8, np.float32)), w.put("var", np.ones(8, np.float32))
    nodes = [
        N("Conv", ["x", w("w", 8, 3, 3, 3)], ["a"], pads=[1, 1, 1, 1]), N("BatchNormalization", ["a", "scale", w("b", 8), "mean", "var"], ["n"]),
        N("LeakyRelu", ["n"], ["l"], alpha=0.1), N("MaxPool", ["l"], ["m"], kernel_shape=[2, 2], strides=[2, 2]), *head(w, "m"),
    ]
    return nodes, IMAGE, SCORES, w


@model(20)
def modern(w):
    nodes = [
        N("Gelu", ["x"], ["g"]), N("LayerNormalization", ["g", w.put("s", np.ones(8, np.float32)), w("b", 8)], ["n"]), N("MatMul", ["n", w("w", 8, 5)], ["y"]),
    ]
    return nodes, VECTOR, SCORES, w


@model(13)
def tied(w):
    nodes = [
        N("Gather", [w("e", 40, 16), "ids"], ["g"]), N("ReduceMean", ["g"], ["p"], axes=[1], keepdims=0), N("Transpose", ["e"], ["et"], perm=[1, 0]),
        N("MatMul", ["p", "et"], ["y"]),
    ]
    return nodes, {"ids": (T.INT64, ["N", 4])}, {"y": (T.FLOAT, ["N", 40])}, w


@model(13)
def double(w):
    return [N("MatMul", ["x", w("w", 8, 5, dtype=np.float64)], ["a"]), N("Sigmoid", ["a"], ["y"])], {"x": (T.DOUBLE, ["N", 8])}, {"y": (T.DOUBLE, ["N", 5])}, w


@model(15)
def names(w):
    nodes = [
        N("MatMul", ["x in:0", w("w/é", 8, 6)], ["h 1"]), N("Relu", ["h 1"], ["h 1_scale"]),
        N("Gemm", ["h 1_scale", w("v", 6, 5), w("v_zero_point", 5)], ["y out"]),
    ]
    return nodes, {"x in:0": (T.FLOAT, ["N", 8])}, {"y out": (T.FLOAT, ["N", 5])}, w


def torch_models():
    import torch

    def export(module, shape, opset, dtype=torch.float32):
        module.eval()
        example = torch.randn(1, *shape) if dtype == torch.float32 else torch.randint(0, 50, (1, *shape))
        options = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
        path = pathlib.Path("torch.onnx")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(module, example, str(path), input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "n"}, "y": {0: "n"}},
                              opset_version=opset, **options)
        made = onnx.load(str(path))
        path.unlink()
        return made

    class Residual(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
            self.second, self.out = torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.Linear(8, 5)

        def forward(self, x):
            x = torch.relu(self.norm(self.first(x)))
            return self.out((x + torch.relu(self.second(x))).mean((2, 3)))

    class Text(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.conv, self.out = torch.nn.Embedding(50, 16), torch.nn.Conv1d(16, 16, 3), torch.nn.Linear(16, 5)

        def forward(self, x):
            return self.out(torch.relu(self.conv(self.embed(x).transpose(1, 2))).amax(2))

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = torch.nn.Linear(8, 24), torch.nn.Linear(8, 5)

        def forward(self, x):
            q, k, v = self.qkv(x).chunk(3, -1)
            return self.out((torch.softmax(q @ k.transpose(1, 2) / 8**0.5, -1) @ v + x).mean(1))

    torch.manual_seed(1)
    mlp = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 5))
    return {
        "torch_mlp_9": export(mlp, (8,), 9), "torch_residual_11": export(Residual(), (3, 8, 8), 11), "torch_text_12": export(Text(), (9,), 12, torch.int64),
        "torch_attention_14": export(Attention(), (5, 8), 14), "torch_mlp_16": export(mlp, (8,), 16),
    }


def sklearn_models():
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    rng = np.random.default_rng(1)
    x = rng.standard_normal((300, 8)).astype(np.float32)
    y = (x @ rng.standard_normal((8, 3))).argmax(1)
    floats = [("x", FloatTensorType([None, 8]))]

    def skl(estimator, opset, types=floats, data=x, labels=y, ml=3):
        fitted = estimator.fit(data, labels)
        classes = {"options": {"zipmap": False}} if hasattr(fitted, "predict_proba") else {}
        return to_onnx(fitted, initial_types=types, target_opset={"": opset, "ai.onnx.ml": ml}, **classes)

    words = ["free money now", "see you at lunch", "win a prize", "the meeting is at noon", "cheap pills", "how are you"] * 10
    return {
        "skl_logistic_12": skl(make_pipeline(StandardScaler(), LogisticRegression()), 12),
        "skl_logistic_18": skl(make_pipeline(StandardScaler(), LogisticRegression()), 18),
        "skl_mlp_11": skl(MLPClassifier((16,), max_iter=50, random_state=1), 11),
        "skl_forest_15": skl(RandomForestClassifier(5, max_depth=4, random_state=1), 15),
        "skl_boosting_17": skl(GradientBoostingRegressor(n_estimators=5, random_state=1), 17, labels=x[:, 0]),
        "skl_svc_13": skl(SVC(probability=True, random_state=1), 13),
        "skl_text_18": skl(make_pipeline(TfidfVectorizer(lowercase=False), LogisticRegression()), 18, [("text", StringTensorType([None]))], words, [0, 1] * 30),
    }


def tensorflow_models():
    import tensorflow as tf
    import tf2onnx

    tf.keras.utils.set_random_seed(1)
    layers = tf.keras.layers
    image = tf.keras.Sequential([layers.Conv2D(8, 3, activation="relu"), layers.BatchNormalization(), layers.DepthwiseConv2D(3), layers.GlobalAveragePooling2D(),
                                 layers.Dense(5, activation="softmax")])
    dense = tf.keras.Sequential([layers.Dense(16, activation="relu"), layers.Dense(5)])
    made = {}
    sequence = tf.keras.Sequential([layers.Embedding(50, 8), layers.LSTM(8), layers.Dense(5)])
    for name, network, shape, kind, opset in (
        ("tf_dense_9", dense, (8,), tf.float32, 9), ("tf_image_12", image, (8, 8, 3), tf.float32, 12), ("tf_image_17", image, (8, 8, 3), tf.float32, 17),
        ("tf_sequence_15", sequence, (7,), tf.int32, 15),
    ):
        network(tf.zeros((1, *shape), kind))
        made[name], _ = tf2onnx.convert.from_keras(network, (tf.TensorSpec((None, *shape), kind, name="x"),), opset=opset)
    return made


def row(made, rng):
    """A value for each input."""
    weights = {w.name for w in made.graph.initializer}
    values = {}
    for described in made.graph.input:
        if described.name in weights:
            continue
        tensor = described.type.tensor_type
        shape = [d.dim_value or 1 for d in tensor.shape.dim][1:]
        if tensor.elem_type == T.STRING:
            value = np.array([" ".join(rng.choice(["free", "money", "lunch", "meeting", "you", "at", "prize"], 4))])
            shape = shape or [1]
        elif tensor.elem_type == T.BOOL:
            value = (rng.random(shape) > 0.3) | np.eye(shape[-1], dtype=bool)
        elif tensor.elem_type in (T.INT32, T.INT64):
            value = rng.integers(0, 40, shape)
        else:
            value = rng.standard_normal(shape).round(4)
        values[described.name] = value.reshape(shape).tolist()
    return values


def write(folder, name, made):
    rng = np.random.default_rng(2)
    folder.mkdir(parents=True)
    onnx.save(made, str(folder / "model.onnx"))
    for split, count in ROWS.items():
        (folder / "rows" / split).mkdir(parents=True)
        rows = [row(made, rng) for _ in range(count)]
        (folder / "rows" / split / "part-0.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))


if __name__ == "__main__":
    if sys.argv[1] == "--freeze":
        FROZEN.mkdir(exist_ok=True)
        for name, made in {"sklearn": sklearn_models, "tensorflow": tensorflow_models}[sys.argv[2]]().items():
            onnx.save(made, str(FROZEN / f"{name}.onnx"))
        sys.exit()
    out = pathlib.Path(sys.argv[1])
    everything = {name: make(np.random.default_rng(1)) for name, make in MODELS.items()}
    everything |= torch_models()
    everything |= {path.stem: onnx.load(str(path)) for path in sorted(FROZEN.glob("*.onnx"))}
    for name, made in everything.items():
        write(out / name, name, made)
