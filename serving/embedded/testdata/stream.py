"""Asks a model that answers with its inputs for what only Triton's protocol has, by NVIDIA's client: stream.py HOST:PORT MODEL.

At the end it leaves a stream open, says so, and waits for the server to end it."""

import asyncio
import queue
import sys

import ml_dtypes
import numpy as np
import tritonclient.grpc as over_grpc
import tritonclient.grpc.aio as over_aio_grpc
import tritonclient.http as over_http
import tritonclient.http.aio as over_aio_http
from tritonclient.utils import InferenceServerException

at, model = sys.argv[1:]
NAMES = {"int8": np.int8, "int16": np.int16, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64, "float16": np.float16}


def inputs(value, omit=()):
    out = []
    for name, dtype in NAMES.items():
        if name in omit:
            continue
        tensor = over_grpc.InferInput(name, [1, 2], "FP16" if name == "float16" else name.upper())
        tensor.set_data_from_numpy(np.full((1, 2), value, dtype))
        out.append(tensor)
    last = over_grpc.InferInput("bfloat16", [1, 2], "BF16")
    last.set_data_from_numpy(np.full((1, 2), value, ml_dtypes.bfloat16))
    return out + [last]


def is_answer(result, value, request):
    answer = result.get_response()
    assert (result.as_numpy("int8_out") == value).all() and answer.id == request and answer.model_version == "1", answer
    assert answer.parameters["triton_final_response"].bool_param, answer


def refused(call, *says):
    try:
        call()
    except InferenceServerException as e:
        assert all(s in str(e) for s in says), e
    else:
        raise AssertionError(f"not refused: {says}")


http, grpc = over_http.InferenceServerClient(at), over_grpc.InferenceServerClient(at)

for extension in ("model_configuration", "statistics"):
    assert extension in http.get_server_metadata()["extensions"] and extension in grpc.get_server_metadata().extensions
config, over = http.get_model_config(model), grpc.get_model_config(model, "1", as_json=True)["config"]
assert config["name"] == over["name"] == model and config["backend"] == over["backend"] == "onnxruntime", (config, over)
assert config["max_batch_size"] == over["max_batch_size"] > 0 and "dynamic_batching" in over, (config, over)
assert config["input"][0] == {"name": "int8", "data_type": "TYPE_INT8", "dims": [2]}, config
assert over["input"][0] == {"name": "int8", "data_type": "TYPE_INT8", "dims": ["2"]}, over  # protobuf's JSON has such numbers as text
refused(lambda: http.get_model_config("other"), "404")
refused(lambda: grpc.get_model_config(model, "9"), "NOT_FOUND", "no version 9")


def asked():
    over_rest, over_grpc = http.get_inference_statistics(model)["model_stats"][0], grpc.get_inference_statistics().model_stats[0]
    assert over_rest["version"] == over_grpc.version == "1" and over_rest["inference_stats"]["success"]["count"] == over_grpc.inference_stats.success.count
    assert over_rest["batch_stats"][0]["batch_size"] == 1 and over_rest["last_inference"] == over_grpc.last_inference > 0, over_rest
    return over_grpc.inference_stats.success.count


before = asked()
answers = queue.Queue()
grpc.start_stream(lambda result, error: answers.put((result, error)))
for n in range(20):
    grpc.async_stream_infer(model, inputs(n, ["int8"] if n == 7 else []), request_id=str(n), enable_empty_final_response=n == 3)
grpc.async_stream_infer("other", inputs(20), request_id="20")
grpc.stop_stream()  # which waits for the answers
for n in range(21):
    result, error = answers.get(timeout=10)
    if n in (7, 20):
        assert ('"int8" is missing' if n == 7 else 'there is no model "other"') in str(error), error
    else:
        is_answer(result, n, str(n))
assert answers.empty() and asked() == before + 19, (before, asked())


async def asynchronous():
    async with over_aio_grpc.InferenceServerClient(at) as client, over_aio_http.InferenceServerClient(at) as rest:
        assert (await client.get_model_config(model)).config.max_batch_size == (await rest.get_model_config(model))["max_batch_size"]
        assert (await client.get_inference_statistics(model)).model_stats[0].execution_count == (await rest.get_inference_statistics(model))["model_stats"][0]["execution_count"]

        async def requests():
            for n in range(3):
                yield {"model_name": model, "inputs": inputs(n, ["int8"] if n == 1 else []), "request_id": str(n)}

        got = [one async for one in client.stream_infer(requests())]
        assert len(got) == 3 and '"int8" is missing' in str(got[1][1]), got
        is_answer(got[0][0], 0, "0")
        is_answer(got[2][0], 2, "2")
        try:
            await rest.register_system_shared_memory("region", "/key", 8)
            raise AssertionError("not refused")
        except InferenceServerException as e:
            assert "shared memory is not supported" in str(e), e


asyncio.run(asynchronous())

for client, status in ((http, "501"), (grpc, "UNIMPLEMENTED")):
    refused(lambda: client.register_system_shared_memory("region", "/key", 8), status, "shared memory is not supported; send the tensors")
    refused(client.get_system_shared_memory_status, status, "shared memory is not supported")
    refused(lambda: client.unregister_cuda_shared_memory("region"), status, "shared memory is not supported")
    refused(lambda: client.get_trace_settings(model), status, "there are no trace settings")
    refused(lambda: client.update_trace_settings(settings={"trace_rate": "1"}), status, "there are no trace settings")
    refused(client.get_log_settings, status, "there are no log settings")

grpc.start_stream(lambda result, error: answers.put((result, error)))
grpc.async_stream_infer(model, inputs(1), request_id="1")
is_answer(answers.get(timeout=10)[0], 1, "1")
print("open", flush=True)
result, error = answers.get(timeout=60)
assert result is None and error.status() == "StatusCode.UNAVAILABLE" and "the gateway is closing" in error.message(), error
