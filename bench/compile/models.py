"""Writes three models, each in a folder with rows for it: the spam filter of examples/spam, a network of convolutions, and a transformer's block."""

import inspect
import json
import pathlib
import random
import sys
import warnings

import torch

sys.path.insert(0, "examples/spam")
import model as spam  # noqa: E402

ROWS = 20


def write(folder, rows):
    (folder / "rows/test").mkdir(parents=True)
    (folder / "rows/test/rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def export(folder, module, shape):
    options = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
    (folder / "model").mkdir(parents=True)
    torch.onnx.export(
        module.eval(), (torch.zeros(1, *shape),), str(folder / "model/model.onnx"), input_names=["x"], output_names=["y"],
        dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}, **options,
    )
    write(folder, [{"x": torch.randn(*shape).tolist()} for _ in range(ROWS)])


def main():
    warnings.simplefilter("ignore")
    torch.manual_seed(1)
    random.seed(1)
    to = pathlib.Path(sys.argv[1])
    words = [f"word{i}" for i in range(5000)]
    spam.export(spam.SpamFilter(len(words)).eval(), words, to / "spam/model/model.onnx")
    write(to / "spam", [{"text": " ".join(random.choices(words, k=60))} for _ in range(ROWS)])
    layers, channels = [], 3
    for wide in (32, 64, 128, 256):
        layers += [torch.nn.Conv2d(channels, wide, 3, 2, 1), torch.nn.ReLU(), torch.nn.Conv2d(wide, wide, 3, 1, 1), torch.nn.ReLU()]
        channels = wide
    export(to / "convolutions", torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(channels, 10)), (3, 64, 64))
    export(to / "transformer", torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, dropout=0), (64, 256))


main()
