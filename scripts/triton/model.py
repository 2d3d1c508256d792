"""ONNX Runtime as a backend of Triton that is written in Python.

Triton's own backend for ONNX is a C++ library that no registry of packages has. A backend may be a model.py instead, which Triton's Python
backend runs; this one is installed under the same name, so models that ask for `platform: "onnxruntime_onnx"` are loaded by it, from the same
folders, with the same config.pbtxt. It completes a config.pbtxt without tensors as the C++ backend does with default-max-batch-size=0.

It is installed as the backend for TensorRT engines, too: there is no TensorRT without a GPU, so the engines of the tests are ONNX models.
"""

import json
import os

import numpy as np
import onnxruntime as ort
import triton_python_backend_utils as pb_utils

TYPES = {
    "tensor(bool)": "TYPE_BOOL", "tensor(string)": "TYPE_STRING",
    "tensor(uint8)": "TYPE_UINT8", "tensor(uint16)": "TYPE_UINT16", "tensor(uint32)": "TYPE_UINT32", "tensor(uint64)": "TYPE_UINT64",
    "tensor(int8)": "TYPE_INT8", "tensor(int16)": "TYPE_INT16", "tensor(int32)": "TYPE_INT32", "tensor(int64)": "TYPE_INT64",
    "tensor(float16)": "TYPE_FP16", "tensor(float)": "TYPE_FP32", "tensor(double)": "TYPE_FP64",
}  # fmt: skip


def open_session(config, folder):
    """Opens the model of a version's folder. One inference runs on one thread, as it does in Sluice."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return ort.InferenceSession(os.path.join(folder, config["default_model_filename"]), options)


def described(tensors):
    """Describes tensors in the words of config.pbtxt, with all dimensions."""
    for t in tensors:
        if t.type not in TYPES:
            raise pb_utils.TritonModelException(f"tensor '{t.name}' has the type {t.type}, which is not supported")
        dims = [d if isinstance(d, int) else -1 for d in t.shape]
        yield {"name": t.name, "data_type": TYPES[t.type], "dims": dims}


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(completed):
        config = completed.as_dict()
        session = open_session(config, pb_utils.get_model_dir())
        batches = config["max_batch_size"] > 0
        for tensors, known, add in (
            (session.get_inputs(), config["input"], completed.add_input),
            (session.get_outputs(), config["output"], completed.add_output),
        ):
            actual = list(described(tensors))
            for t in actual:
                if batches and t["dims"][:1] != [-1]:
                    raise pb_utils.TritonModelException(
                        f"autofill failed for model '{config['name']}': model does not support batching while non-zero max_batch_size is specified"
                    )
                if batches:
                    t["dims"] = t["dims"][1:]
            if not known:
                for t in actual:
                    # Triton knows no tensor without dimensions.
                    add({**t, "dims": t["dims"] or [1]})
                continue
            told = {t["name"]: (t["data_type"], [int(d) for d in t["dims"]]) for t in known}
            if told != {t["name"]: (t["data_type"], t["dims"]) for t in actual}:
                raise pb_utils.TritonModelException(f"model '{config['name']}': the model has {actual}, its configuration says {told}")
        return completed

    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.session = open_session(config, os.path.join(args["model_repository"], args["model_version"]))
        self.inputs = {t.name: len(t.shape) for t in self.session.get_inputs()}
        self.outputs = [t.name for t in self.session.get_outputs()]

    def execute(self, requests):
        # The requests that Triton's dynamic batching has joined are one inference.
        given = [{name: self.read(request, name) for name in self.inputs} for request in requests]
        try:
            if len(given) == 1:
                return [self.answer(self.session.run(self.outputs, given[0]))]
            rows = [len(next(iter(inputs.values()))) for inputs in given]
            joined = self.session.run(self.outputs, {name: np.concatenate([inputs[name] for inputs in given]) for name in self.inputs})
            cuts = np.cumsum(rows)[:-1]
            return [self.answer(parts) for parts in zip(*(np.split(output, cuts) for output in joined))]
        except Exception as e:  # what ONNX Runtime says of the inputs is for who sent them
            return [pb_utils.InferenceResponse(error=pb_utils.TritonError(str(e))) for _ in requests]

    def read(self, request, name):
        value = pb_utils.get_input_tensor_by_name(request, name).as_numpy()
        if value.dtype == np.object_:
            value = np.array([text.decode() for text in value.flat], dtype=np.object_).reshape(value.shape)
        return value.reshape(value.shape[: self.inputs[name]])

    def answer(self, outputs):
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, np.atleast_1d(value)) for name, value in zip(self.outputs, outputs)])
