"""Asks a model that answers with its inputs, by NVIDIA's client: ask.py HOST:PORT MODEL."""

import sys

import ml_dtypes
import numpy as np
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http

at, model = sys.argv[1:]
VALUES = {
    "int8": np.array([[-128, 127]], np.int8),
    "int16": np.array([[-(2**15), 2**15 - 1]], np.int16),
    "uint16": np.array([[0, 2**16 - 1]], np.uint16),
    "uint32": np.array([[0, 2**32 - 1]], np.uint32),
    "uint64": np.array([[0, 2**64 - 1]], np.uint64),
    "float16": np.array([[1.5, -65504]], np.float16),
    "bfloat16": np.array([[1.5, -2]], ml_dtypes.bfloat16),
}
TYPES = {"float16": "FP16", "bfloat16": "BF16"}


def inputs(client, **binary):
    out = []
    for name, value in VALUES.items():
        tensor = client.InferInput(name, value.shape, TYPES.get(name, name.upper()))
        tensor.set_data_from_numpy(value, **(binary if name not in TYPES else {}))
        out.append(tensor)
    return out


def check(result, names=VALUES):
    for name in names:
        got = result.as_numpy(f"{name}_out")
        assert got is not None and (got == VALUES[name]).all() and got.shape == (1, 2), (name, got)


def refused(call, *says):
    try:
        call()
    except Exception as e:  # the clients have a class each
        assert all(s in str(e) for s in says), e
    else:
        raise AssertionError(f"not refused: {says}")


http, grpc = over_http.InferenceServerClient(at), over_grpc.InferenceServerClient(at)

assert http.is_server_live() and http.is_server_ready() and http.is_model_ready(model) and http.is_model_ready(model, "1")
assert "binary_tensor_data" in http.get_server_metadata()["extensions"]
metadata = http.get_model_metadata(model)
assert metadata["inputs"][0] == {"name": "int8", "datatype": "INT8", "shape": [-1, 2]} and metadata["versions"] == ["1"], metadata
index = http.get_model_repository_index()
assert index == [{"name": model, "version": "1", "state": "READY", "reason": ""}], index
refused(lambda: http.load_model(model), "rollouts")

check(http.infer(model, inputs(over_http), request_id="7"))  # all outputs as binary data
whole = [n for n in VALUES if n not in TYPES]
check(http.infer(model, inputs(over_http, binary_data=False), outputs=[over_http.InferRequestedOutput(f"{n}_out", binary_data=False) for n in whole]), whole)
half = http.infer(model, inputs(over_http), outputs=[over_http.InferRequestedOutput("float16_out"), over_http.InferRequestedOutput("int8_out", binary_data=False)])
check(half, ["float16", "int8"])
assert half.get_output("bfloat16_out") is None and half.get_output("int8_out")["data"] == [-128, 127], half.get_response()

refused(lambda: http.infer(model, inputs(over_http)[1:]), '400', '"int8" is missing')
empty = inputs(over_http)
empty[0] = over_http.InferInput("int8", [0, 2], "INT8")
empty[0].set_data_from_numpy(np.zeros((0, 2), np.int8))
refused(lambda: http.infer(model, empty), '400', '"int8" is empty: its shape is [0 2]')
refused(lambda: http.infer("other", inputs(over_http)), "404", f"/v2/models/{model}")

assert grpc.is_server_live() and grpc.is_server_ready() and grpc.is_model_ready(model)
assert grpc.get_server_metadata().name == "sluice"
models = [(m.name, m.version, m.state, m.reason) for m in grpc.get_model_repository_index().models]
assert models == [(model, "1", "READY", "")], models
for call in (grpc.load_model, grpc.unload_model, http.unload_model):
    refused(lambda call=call: call(model), "rollouts")
refused(lambda: grpc.load_model(model), "PERMISSION_DENIED")
metadata = grpc.get_model_metadata(model)
assert metadata.inputs[0].datatype == "INT8" and list(metadata.inputs[0].shape) == [-1, 2] and metadata.versions == ["1"], metadata
result = grpc.infer(model, inputs(over_grpc), request_id="7", headers={"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
check(result)
assert result.get_response().id == "7" and result.get_response().model_version == "1"
check(grpc.infer(model, inputs(over_grpc), outputs=[over_grpc.InferRequestedOutput("bfloat16_out")]), ["bfloat16"])
refused(lambda: grpc.infer(model, inputs(over_grpc)[1:]), "INVALID_ARGUMENT", '"int8" is missing')
refused(lambda: grpc.infer("other", inputs(over_grpc)), "NOT_FOUND")
refused(lambda: grpc.infer(model, inputs(over_grpc), compression_algorithm="gzip"), "UNIMPLEMENTED", "compressed")
