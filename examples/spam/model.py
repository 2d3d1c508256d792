"""The spam filter: its tokenizer, its network and its ONNX form, which takes raw text.

The tokenizer exists twice, here for training and as an operator in front of the exported network, so that whoever serves the model
sends text and need not know how it was cut. test_model.py holds the two together.
"""

import collections
import os
import pathlib
import re
import tempfile

import numpy
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

TOKEN = "[A-Za-z]+|[0-9]+|[!$%]"  # case is kept: FREE is not free
LENGTH = 600  # tokens of a mail that are looked at
VOCABULARY = 20_000
PADDING, UNKNOWN = 0, 1  # the ids before those of the vocabulary
EMBEDDING, CHANNELS, WINDOW = 64, 128, 5  # the convolution looks at five tokens at a time

find_tokens = re.compile(TOKEN).findall


def build_vocabulary(texts: list[str]) -> list[str]:
    """The most frequent tokens that occur at least twice; ties in the order of the alphabet. Token i has the id i + 2."""
    counts = collections.Counter(token for text in texts for token in find_tokens(text)[:LENGTH])
    ranked = sorted((-count, token) for token, count in counts.items() if count > 1)
    return [token for _, token in ranked[:VOCABULARY]]


class Encoder:
    """Turns texts into ids."""

    def __init__(self, vocabulary: list[str]):
        self.ids = {token: i for i, token in enumerate(vocabulary, start=UNKNOWN + 1)}

    def encode(self, text: str) -> list[int]:
        return [self.ids.get(token, UNKNOWN) for token in find_tokens(text)[:LENGTH]]


def pad(rows: list[list[int]]) -> torch.Tensor:
    """One batch of shape [len(rows), longest + 1]: each row has padding at its end, so that a mail without a token has a column too."""
    width = max(map(len, rows)) + 1
    return torch.tensor([row + [PADDING] * (width - len(row)) for row in rows])


class SpamFilter(torch.nn.Module):
    """A convolution over word embeddings, its mean over the mail, and a linear layer.

    Padding has no part in any of them, so a mail's answer does not depend on what else is in its batch.
    """

    def __init__(self, vocabulary_size: int):
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary_size + UNKNOWN + 1, EMBEDDING, padding_idx=PADDING)
        torch.nn.init.normal_(self.embedding.weight, std=0.1)
        self.embedding.weight.data[PADDING] = 0
        self.convolution = torch.nn.Conv1d(EMBEDDING, CHANNELS, WINDOW)
        self.dropout = torch.nn.Dropout(0.5)
        self.output = torch.nn.Linear(CHANNELS, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits of shape [N, 2] (ham, spam) for ids of shape [N, L]."""
        embedded = torch.nn.functional.pad(self.embedding(ids).transpose(1, 2), (0, WINDOW - 1))
        is_token = (ids != PADDING).float().unsqueeze(1)
        windows = torch.relu(self.convolution(embedded)) * is_token
        mean = windows.sum(dim=2) / is_token.sum(dim=2).clamp(min=1)
        return self.output(self.dropout(mean))


def export(model: SpamFilter, vocabulary: list[str], path: pathlib.Path) -> None:
    """Writes the model as ONNX: input `text`, strings of shape [N]; output `probabilities`, floats of shape [N, 2] (ham, spam).

    The graph is spelt out rather than traced: the string operators have no counterpart in torch, and the rest is short.
    """
    weights = {name: value.detach().cpu().numpy() for name, value in model.state_dict().items()}
    constants = {
        "embedding": weights["embedding.weight"],
        "convolution": weights["convolution.weight"],
        "convolution_bias": weights["convolution.bias"],
        "output": numpy.ascontiguousarray(weights["output.weight"].T),
        "output_bias": weights["output.bias"],
        "first": numpy.array([0]),
        "length": numpy.array([LENGTH]),
        "columns": numpy.array([1]),
        "one_column": numpy.array([0, 0, 0, 1]),
        "padding": numpy.array(PADDING),
        "positions": numpy.array([2]),
        "one": numpy.array(1, dtype=numpy.float32),
    }
    node = helper.make_node
    nodes = [
        node("Tokenizer", ["text"], ["tokens"], domain="com.microsoft", tokenexp=TOKEN, mincharnum=1, mark=0, pad_value=""),
        node(
            "LabelEncoder", ["tokens"], ["all_ids"], domain="ai.onnx.ml", default_int64=UNKNOWN,
            keys_strings=["", *vocabulary], values_int64s=[PADDING, *range(UNKNOWN + 1, len(vocabulary) + UNKNOWN + 1)],
        ),
        node("Slice", ["all_ids", "first", "length", "columns"], ["head"]),
        node("Pad", ["head", "one_column"], ["ids"]),
        node("Gather", ["embedding", "ids"], ["embedded"]),
        node("Transpose", ["embedded"], ["transposed"], perm=[0, 2, 1]),
        node("Conv", ["transposed", "convolution", "convolution_bias"], ["convolved"], pads=[0, WINDOW - 1]),
        node("Relu", ["convolved"], ["positive"]),
        node("Greater", ["ids", "padding"], ["is_token_bool"]),
        node("Cast", ["is_token_bool"], ["is_token_flat"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["is_token_flat", "columns"], ["is_token"]),
        node("Mul", ["positive", "is_token"], ["windows"]),
        node("ReduceSum", ["windows", "positions"], ["sum"], keepdims=0),
        node("ReduceSum", ["is_token", "positions"], ["count"], keepdims=0),
        node("Max", ["count", "one"], ["at_least_one"]),
        node("Div", ["sum", "at_least_one"], ["mean"]),
        node("MatMul", ["mean", "output"], ["product"]),
        node("Add", ["product", "output_bias"], ["logits"]),
        node("Softmax", ["logits"], ["probabilities"], axis=1),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "spam_filter",
        [helper.make_tensor_value_info("text", TensorProto.STRING, ["N"])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 2])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
        # Said aloud, because onnx does not know the tokenizer: without a type here its shape inference, which every quantiser
        # runs, crashes on the LabelEncoder.
        value_info=[helper.make_tensor_value_info("tokens", TensorProto.STRING, ["N", "tokens"])],
    )
    opsets = [helper.make_opsetid(domain, version) for domain, version in (("", 17), ("ai.onnx.ml", 2), ("com.microsoft", 1))]
    model_proto = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="examples/spam")

    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(model_proto.SerializeToString(deterministic=True))
        file.flush()
        os.fsync(file.fileno())
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)
