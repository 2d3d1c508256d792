#!/usr/bin/env python3
"""Runs, on a machine with an NVIDIA GPU, what no other test of Sluice can: `make test-gpu`.

It takes at most eight minutes and needs no network, no Go and no compiler: the programs in bin/, and a python3 with PyTorch for CUDA. Each check
has a time limit of its own. One whose parts are missing says `not run: why`; the exit code is 1 if any other failed.

--rehearse runs, without a GPU, what of each check can be: on the CPU, with gloo for NCCL, and on the sluice-gpu that $SLUICE_GPU names.
"""

import argparse
import ctypes
import glob
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

# Where the container toolkit puts the driver.
for folder in ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib"):
    if os.path.isdir(folder):
        os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, [os.environ.get("LD_LIBRARY_PATH"), folder]))

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = pathlib.Path(os.environ.get("SLUICE_BIN", ROOT / "bin"))
SLUICE_GPU = os.environ.get("SLUICE_GPU", str(BIN / "sluice-gpu"))
TOTAL = 480  # seconds, of all checks

NOT_RUN = 75  # the exit code of a check that was not run
MIB = 1 << 20


class NotRun(Exception):
    """A part of the check is missing."""


def want(holds, *what):
    if not holds:
        raise AssertionError(" ".join(map(str, what)))


def need(program):
    want(os.access(BIN / program, os.X_OK), f"there is no {BIN / program}: run `make build` where Go is, and bring bin/ along")
    return str(BIN / program)


# ---- what the machine has


def inventory():
    if "SLUICE_GPU" not in os.environ:
        need("sluice-gpu")
    done = subprocess.run([SLUICE_GPU, "inventory"], capture_output=True, text=True)
    want(done.returncode == 0, "sluice-gpu inventory:", done.stderr.strip())
    found = json.loads(done.stdout)
    if not found.get("gpus"):
        raise NotRun("no GPU: " + found.get("absent", "the driver lists none"))
    return found


def torch_on_gpu():
    try:
        import torch
    except ImportError as e:
        raise NotRun(f"no PyTorch in {sys.executable}: {e}") from None
    if not torch.cuda.is_available():
        raise NotRun("PyTorch sees no GPU")
    return torch


def first_of(torch, gpus):
    """Of what sluice-gpu says of each GPU, what it says of PyTorch's first one."""
    uuid = getattr(torch.cuda.get_device_properties(0), "uuid", None)
    return next(g for g in gpus if uuid is None or str(uuid) in g["uuid"])


def folder_of(package):
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise NotRun(f"no Python package {package}")
    return pathlib.Path(list(spec.submodule_search_locations)[0])


def cuda_libraries():
    """The folders of the libraries of CUDA that came with PyTorch."""
    try:
        return sorted({os.path.dirname(path) for path in glob.glob(f"{folder_of('nvidia')}/**/lib*.so*", recursive=True)})
    except NotRun:
        return []  # the dynamic linker may know them


# ---- a project of Sluice


class Project:
    """A folder with a pipeline, and the commands of Sluice in it."""

    def __init__(self, here, pipeline, environment, variables=None):
        self.here = pathlib.Path(here)
        self.program = need("sluice")
        need("sluice-agent")
        (self.here / "pipeline.yaml").write_text("sluice: pipeline/v1\nname: gpu\n" + pipeline)
        (self.here / "environment.yaml").write_text("sluice: environment/v1\nname: gpu\n" + environment)
        tools = self.here / "tools"  # steps start this Python by the name python3
        tools.mkdir()
        (tools / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        (tools / "python3").chmod(0o700)
        self.env = dict(os.environ, SLUICE_STATE=str(self.here / "state"), PATH=f"{tools}:{os.environ['PATH']}", **(variables or {}))
        for name in ("SLUICE_PYTHON_ENV", "VIRTUAL_ENV"):  # make sets the first, and its Python would come before this one
            self.env.pop(name, None)

    def start(self, *args):
        log = open(self.here / f"{args[0]}.log", "w")
        return subprocess.Popen([self.program, *args], cwd=self.here, env=self.env, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def run(self):
        return self.start("run", "pipeline.yaml", "-e", "environment.yaml")

    def said(self, command):
        return (self.here / f"{command}.log").read_text()

    def show(self):
        done = subprocess.run([self.program, "show", "--format", "json"], cwd=self.here, env=self.env, capture_output=True, text=True)
        want(done.returncode == 0, "sluice show:", done.stderr)
        return json.loads(done.stdout)


def until(what, holds, process=None, limit=120):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if value := holds():
            return value
        want(process is None or process.poll() is None, f"sluice ended before {what}")
        time.sleep(0.1)
    raise AssertionError(f"not within {limit} s: {what}")


# ---- the checks


def check_inventory(here, rehearse):
    """sluice-gpu lists what nvidia-smi and PyTorch do"""
    found = inventory()
    for gpu in found["gpus"]:
        for key in ("uuid", "model", "memory", "capability"):
            want(gpu.get(key), f"a GPU without {key}:", gpu)
    seen = []
    if smi := shutil.which("nvidia-smi"):
        lines = subprocess.run(
            [smi, "--query-gpu=uuid,name,memory.total,driver_version", "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True
        ).stdout.strip().splitlines()
        want(len(lines) == len(found["gpus"]), "nvidia-smi lists", lines)
        for gpu, line in zip(found["gpus"], lines):
            uuid, model, memory, driver = (part.strip() for part in line.split(","))
            want((gpu["uuid"], gpu["model"], found["driver"]) == (uuid, model, driver), "sluice-gpu says", gpu, "and nvidia-smi", line)
            want(abs(gpu["memory"] / MIB - float(memory)) < 1, "memory:", gpu["memory"], "and by nvidia-smi, in MiB,", memory)
        seen.append("as nvidia-smi")
    try:
        torch = torch_on_gpu()
        p = torch.cuda.get_device_properties(0)
        first = first_of(torch, found["gpus"])
        want((first["model"], first["capability"]) == (p.name, f"{p.major}.{p.minor}"), "sluice-gpu says", first, "and PyTorch", p)
        seen.append("as PyTorch")
    except NotRun as e:
        seen.append(str(e))
    names = ", ".join(sorted({f"{g['model']} ({g['capability']}, {g['memory'] >> 20} MiB)" for g in found["gpus"]}))
    return f"{len(found['gpus'])} GPUs, {names}, driver {found.get('driver')}; {', '.join(seen)}"


class Watch:
    """sluice-gpu watch: what it has printed so far."""

    def __init__(self, here):
        self.path = pathlib.Path(here) / "watch.jsonl"
        self.process = subprocess.Popen([SLUICE_GPU, "watch", "--every", "500ms"], stdout=open(self.path, "w"))

    def reports(self):
        return [json.loads(line) for line in self.path.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def readings(self, since=0):
        return [r["readings"] for r in self.reports()[since:] if r.get("readings")]

    def close(self):
        self.process.terminate()
        want(self.process.wait(10) == 0, "sluice-gpu watch ended with", self.process.returncode)


LOAD = """
import time, torch
held = torch.empty(2 << 30, dtype=torch.uint8, device="cuda").fill_(1)
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
torch.cuda.synchronize(); print("busy", flush=True)
end = time.monotonic() + 8
while time.monotonic() < end:
    for _ in range(20): b = a @ a
    torch.cuda.synchronize()
"""


def check_readings(here, rehearse):
    """sluice-gpu watch sees memory, utilization, power and throttling of a GPU that works"""
    inventory()
    watch = Watch(here)
    try:
        until("readings", lambda: len(watch.readings()) >= 3, watch.process, 20)
        idle = watch.readings()[-1]
        for r in idle:
            fits = 0 < r.get("temperature", 0) < 120 and r.get("power", 0) > 0 and 0 <= r.get("memory_used", 0) <= r.get("memory", 0)
            want(fits, "a reading that cannot be:", r)
        if rehearse:
            return f"{len(idle)} GPUs are read; none was made to work"
        torch = torch_on_gpu()
        mine = lambda readings: first_of(torch, readings)
        load = subprocess.Popen([sys.executable, "-c", LOAD], stdout=subprocess.PIPE, text=True)
        want(load.stdout.readline().strip() == "busy", "PyTorch did not begin to compute")
        before = len(watch.reports())
        want(load.wait(60) == 0, "PyTorch ended with", load.returncode)
        busy = [mine(r) for r in watch.readings(before)]
        want(busy, "nothing was read while PyTorch computed")
        top = lambda key: max(r.get(key) or 0 for r in busy)
        grown = top("memory_used") - mine(idle)["memory_used"]
        want(top("utilization") > 0.5, "the GPU computed, and its utilization is", top("utilization"))
        want(grown > 2 << 30, "2 GiB were taken, and its memory is used by more by", grown)
        throttled = sorted({why for r in busy for why in r.get("throttled") or []})
        want(set(throttled) <= {"power", "thermal", "brake", "sync"}, "unknown reasons:", throttled)
        return (f"utilization to {top('utilization'):.0%}, memory by {grown >> 20} MiB more, {top('power'):.0f} W, "
                f"{top('temperature')} °C, throttled: {', '.join(throttled) or 'never'}")
    finally:
        watch.close()


# A kernel that writes where nothing is: the driver reports XID 31, or 13.
PTX = b""".version 7.0
.target sm_75
.address_size 64
.visible .entry wrong() { .reg .b64 %a; .reg .b32 %v; mov.u64 %a, 16; mov.u32 %v, 1; st.global.u32 [%a], %v; ret; }
\0"""


def write_wrongly():
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, module, function = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    for name, *args in (
        ("cuInit", 0), ("cuDeviceGet", ctypes.byref(device), 0), ("cuDevicePrimaryCtxRetain", ctypes.byref(context), device),
        ("cuCtxSetCurrent", context), ("cuModuleLoadData", ctypes.byref(module), PTX), ("cuModuleGetFunction", ctypes.byref(function), module, b"wrong"),
        ("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, None, None),
    ):
        if status := getattr(cuda, name)(*args):
            sys.exit(f"{name} returned {status}")
    print(cuda.cuCtxSynchronize(), flush=True)


def check_xid(here, rehearse):
    """sluice-gpu watch reports the XID of a program that fails on the GPU"""
    inventory()
    if rehearse:
        raise NotRun("an XID needs a GPU")
    watch = Watch(here)
    try:
        until("readings", lambda: watch.readings(), watch.process, 20)
        done = subprocess.run([sys.executable, __file__, "--write-wrongly"], capture_output=True, text=True, timeout=30)
        want(done.returncode == 0 and done.stdout.strip() != "0", "a wrong kernel did not fail:", done.stdout, done.stderr)
        try:
            events = until("an XID", lambda: [r["event"] for r in watch.reports() if r.get("event")], watch.process, 10)
        except AssertionError:
            kernel = subprocess.run(["dmesg"], capture_output=True, text=True).stdout
            want("NVRM: Xid" not in kernel, "the driver has reported, and sluice-gpu has not:", kernel[-1000:])
            raise NotRun(f"an illegal write failed (CUDA error {done.stdout.strip()}), and the driver reported no XID to anybody") from None
        return f"an illegal write: {json.dumps(events[0])}"
    finally:
        watch.close()


IDLE = """
import json, os, signal, sys, time
def stop(*_):
    new = os.path.join(os.environ["SLUICE_CHECKPOINT_DIR"], "step-1")
    os.makedirs(new); open(os.path.join(new, "state"), "w").write("1"); sys.exit(143)
signal.signal(signal.SIGTERM, stop)
print(json.dumps({"step": 1, "of": 2, "loss": 1.0}), file=open(os.environ["SLUICE_METRICS"], "a"), flush=True)
while True: time.sleep(0.2)
"""


def check_idle(here, rehearse):
    """a training that leaves its GPU idle is stopped with a checkpoint, and gives it back"""
    inventory()
    project = Project(here, """steps:
  fit:
    train:
      command: [python3, idle.py]
      metrics: [loss]
      resources: {gpu: 1, idle: {below: 30%, for: 12s, action: release}}
""", "pools: {local: {local: {nodes: 1}}}\n")
    (project.here / "idle.py").write_text(IDLE)
    began = time.monotonic()
    run = project.run()
    run.wait()
    step = project.show()["steps"]["fit"]
    want(run.returncode not in (0, None) and "the GPUs were busy" in step.get("error", ""), "the run ended with", run.returncode, step.get("error"), project.said("run"))
    return f"after {time.monotonic() - began:.0f} s: {step['error'].splitlines()[0]}"


DDP = """  fit:
    train:
      command: [python3, train.py]
      outputs: {{model: {{type: model, path: model.pt}}}}
      metrics: [loss]
      total_steps: 300
{gpu}    cache: false
    gate: metrics.loss < 0.5
"""


def check_ddp(here, rehearse):
    """DistributedDataParallel with NCCL on one GPU resumes after a preemption notice, without losing a step"""
    if rehearse:
        if importlib.util.find_spec("torch") is None:
            raise NotRun(f"no PyTorch in {sys.executable}")
    else:
        torch = torch_on_gpu()
        want(torch.distributed.is_nccl_available(), "this PyTorch has no NCCL")
    project = Project(here, "steps:\n" + DDP.format(gpu="" if rehearse else "      resources: {gpu: 1}\n"), "pools: {local: {local: {nodes: 1}}}\n")
    script = (ROOT / "examples" / "ddp" / "train.py").read_text()
    backend = "gloo" if rehearse else "nccl"
    ready = "rank, world = dist.get_rank(), dist.get_world_size()\n"
    want(ready in script, "examples/ddp/train.py is no longer what this check knows")
    (project.here / "train.py").write_text(script.replace(ready, ready + '    print("backend", dist.get_backend(), flush=True)\n'))
    run = project.run()
    state = project.here / "state"
    until("a checkpoint", lambda: glob.glob(f"{state}/store/checkpoints/*/fit/g1/step-*.json"), run)
    node = until("the node's folder", lambda: glob.glob(f"{state}/pools/local/*/node0") or glob.glob(f"{state}/pools/local/**/node0", recursive=True), run)[0]
    limit = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 30))
    half = pathlib.Path(node, ".notice")
    half.write_text(json.dumps({"until": limit}))
    half.rename(pathlib.Path(node, "notice"))
    want(run.wait() == 0, "the run ended with", run.returncode, project.said("run"))
    out = project.show()["steps"]["fit"]["outputs"]
    made = [(g["end"], g["from_step"], g["to_step"], g["steps_lost"]) for g in out["generations"]]
    stopped = made[0][2]
    want(made == [("notice", 0, stopped, 0), ("finished", stopped, 300, 0)], "the generations (end, first and last step, steps lost) are", made)
    logs = subprocess.run([project.program, "logs", "gpu", "fit"], cwd=here, env=project.env, capture_output=True, text=True).stdout
    want(f"backend {backend}" in logs, "the ranks did not say that they use", backend, logs[-2000:])
    return f"{backend}, stopped by notice at step {stopped}, then to 300; loss {out['metrics']['loss']:.3f}, 0 steps lost"


# ---- models


def build_model():
    """A small network, its ONNX file, and inputs. The file is written by hand: torch.onnx needs a package that may not be there."""
    try:
        import numpy
        import onnx
        import torch
        from onnx import TensorProto, helper, numpy_helper
    except ImportError as e:
        raise NotRun(f"no {e.name} in {sys.executable}") from None
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Linear(16 * 14 * 14, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10),
    ).eval()
    weights = {f"w{i}": p.detach().numpy() for i, p in enumerate(net.parameters())}
    nodes = [
        helper.make_node("Conv", ["x", "w0", "w1"], ["a"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]), helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("Gemm", ["d", "w2", "w3"], ["e"], transB=1), helper.make_node("Relu", ["e"], ["f"]),
        helper.make_node("Gemm", ["f", "w4", "w5"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 28, 28])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])], [numpy_helper.from_array(w, name) for name, w in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.checker.check_model(model)
    inputs = numpy.random.default_rng(0).standard_normal((8, 1, 28, 28), dtype=numpy.float32)
    return torch, net, model.SerializeToString(), inputs


def reference(torch, net, inputs):
    """What PyTorch answers on the GPU, or else on the CPU, and the milliseconds that it takes."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    net, x = net.to(device), torch.from_numpy(inputs).to(device)
    with torch.no_grad():
        return net(x).cpu().numpy(), p50(lambda: net(x).cpu())


def p50(call):
    times = []
    for i in range(120):
        began = time.perf_counter()
        call()
        if i >= 20:
            times.append(1e3 * (time.perf_counter() - began))
    return statistics.median(times)


TOLERANCE = 0.02  # TensorFloat-32, with which providers compute, has 10 bits


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def check_provider(here, provider, library):
    import numpy

    torch, net, model, inputs = build_model()
    port, metrics = free_port(), free_port()
    project = Project(here, """steps:
  make:
    run: {script: 'cp model.onnx "$SLUICE_OUTPUT_DIR/model.onnx"', outputs: {model: {type: model, path: model.onnx}}}
  ship:
    rollout: {target: checked, model: "${steps.make.model}", stages: [{weight: 100%}], ungated: true}
""", f"targets: {{checked: {{embedded: {{port: {port}, metrics_port: {metrics}, provider: {provider}}}}}}}\n", {
        "SLUICE_ONNXRUNTIME": str(library), "LD_LIBRARY_PATH": ":".join(filter(None, [*cuda_libraries(), os.environ.get("LD_LIBRARY_PATH")])),
    })
    (project.here / "model.onnx").write_bytes(model)
    up = project.start("up")
    try:
        until("`sluice up` holds the folder", lambda: "127.0.0.1" in project.said("up"), up, 60)
        run = project.run()
        body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": list(inputs.shape), "data": inputs.ravel().tolist()}]}).encode()
        url = f"http://127.0.0.1:{port}/v2/models/checked/infer"
        ask = lambda: json.load(urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"}), timeout=30))
        while run.poll() is None:  # its last stage counts answers
            try:
                ask()
            except OSError:  # not served yet
                time.sleep(0.1)
        want(run.returncode == 0, "the rollout ended with", run.returncode, project.said("run"))
        got = numpy.array(ask()["outputs"][0]["data"], numpy.float32).reshape(len(inputs), -1)
        expected, torch_ms = reference(torch, net, inputs)
        difference = float(abs(got - expected).max())
        want(difference < TOLERANCE, "the answers differ from PyTorch's by", difference)
        said = urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=30).read().decode()
        want(f'sluice_provider{{provider="{provider}"' in said, "the metrics do not name the provider", said[-2000:])
        return f"differs from PyTorch by {difference:.1e}; p50 of 8 rows {p50(ask):.2f} ms over HTTP, PyTorch {torch_ms:.2f} ms"
    finally:
        up.terminate()
        up.wait(30)


def onnxruntime_library():
    if named := os.environ.get("SLUICE_ONNXRUNTIME"):
        return pathlib.Path(named)
    found = sorted((folder_of("onnxruntime") / "capi").glob("libonnxruntime.so*"))
    if not found:
        raise NotRun("the Python package onnxruntime has no libonnxruntime.so")
    return found[-1]


def check_cuda(here, rehearse):
    """an embedded target with `provider: cuda` answers as PyTorch does"""
    library = onnxruntime_library()
    if rehearse:
        return check_provider(here, "cpu", library)
    torch_on_gpu()
    if not (library.parent / "libonnxruntime_providers_cuda.so").exists():
        raise NotRun(f"no libonnxruntime_providers_cuda.so beside {library}: install onnxruntime-gpu")
    return check_provider(here, "cuda", library)


def check_tensorrt_rtx(here, rehearse):
    """an embedded target with `provider: tensorrt_rtx` answers as PyTorch does"""
    folder_of("onnxruntime_ep_nv_tensorrt_rtx")
    library = onnxruntime_library()
    if rehearse:
        raise NotRun("the provider needs a GPU")
    torch_on_gpu()
    return check_provider(here, "tensorrt_rtx", library)


# ---- engines of TensorRT for RTX


def tensorrt():
    """TensorRT for RTX: the bindings, and the libraries of the provider's package, which they ask for by other names."""
    folder_of("tensorrt_rtx_bindings")
    libraries = folder_of("onnxruntime_ep_nv_tensorrt_rtx")
    for name in ("libcudart.so.*", "libtensorrt_rtx.so.*", "libtensorrt_onnxparser_rtx.so.*"):
        found = sorted(libraries.glob(name))
        if not found:
            raise NotRun(f"no {name} in {libraries}")
        ctypes.CDLL(str(found[-1]), mode=ctypes.RTLD_GLOBAL)
    import tensorrt_rtx_bindings as trt

    return trt


def build_engine(trt, model, current):
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, logger)
    want(parser.parse(model), "the parser:", [parser.get_error(i).desc() for i in range(parser.num_errors)])
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, 1, 28, 28), (8, 1, 28, 28), (64, 1, 28, 28))
    config.add_optimization_profile(profile)
    config.num_compute_capabilities = 1
    if current:
        want(config.set_compute_capability(trt.ComputeCapability.CURRENT, 0), "the builder takes no CURRENT")
    else:
        want(config.set_compute_capability(trt.ComputeCapability.SM80, 0), "the builder takes no SM80")
        config.hardware_compatibility_level = trt.HardwareCompatibilityLevel.AMPERE_PLUS
    began = time.monotonic()
    engine = builder.build_serialized_network(network, config)
    want(engine is not None, "the builder made no engine")
    return logger, bytes(engine), time.monotonic() - began


def check_engine(here, rehearse, current):
    trt = tensorrt()
    torch, net, model, inputs = build_model()
    if rehearse and current:
        raise NotRun("an engine for CURRENT needs a GPU")
    if not rehearse:
        torch_on_gpu()
    logger, plan, seconds = build_engine(trt, model, current)
    runtime = trt.Runtime(logger)
    built = f"{len(plan)} bytes in {seconds:.1f} s"
    if rehearse:
        return f"built without a GPU, {built}"
    expected, torch_ms = reference(torch, net, inputs)
    engine = runtime.deserialize_cuda_engine(plan)
    want(engine is not None, f"an engine ({built}) that this GPU does not load")
    context, stream = engine.create_execution_context(), torch.cuda.Stream()
    x, y = torch.from_numpy(inputs).cuda(), torch.empty(expected.shape, device="cuda")
    want(context.set_input_shape("x", tuple(x.shape)), "the engine refuses the shape", x.shape)
    context.set_tensor_address("x", x.data_ptr())
    context.set_tensor_address("y", y.data_ptr())

    def call():
        want(context.execute_async_v3(stream.cuda_stream), "the engine did not run")
        stream.synchronize()

    ms = p50(call)
    difference = float(abs(y.cpu().numpy() - expected).max())
    want(difference < TOLERANCE, "the answers differ from PyTorch's by", difference)
    return f"{built}; differs from PyTorch by {difference:.1e}; p50 of 8 rows {ms:.3f} ms, PyTorch {torch_ms:.3f} ms"


def check_engine_sm80(here, rehearse):
    """an engine of TensorRT for RTX, for 8.0 and newer, runs here and answers as PyTorch does"""
    return check_engine(here, rehearse, current=False)


def check_engine_current(here, rehearse):
    """an engine of TensorRT for RTX that was built for this GPU answers as PyTorch does"""
    return check_engine(here, rehearse, current=True)


# Seconds that each may take, and what it is.
CHECKS = {
    "inventory": (30, check_inventory), "readings": (60, check_readings), "xid": (45, check_xid), "idle": (90, check_idle), "cuda": (90, check_cuda),
    "tensorrt_rtx": (90, check_tensorrt_rtx), "ddp": (120, check_ddp), "engine_sm80": (60, check_engine_sm80), "engine_current": (60, check_engine_current),
}


def one(name, rehearse):
    """Runs a check in this process, the last line of whose output is its outcome."""
    with tempfile.TemporaryDirectory(prefix="sluice-gpu-", ignore_cleanup_errors=True) as here:
        try:
            # Without a GPU nothing else is asked for, so that the reason is the first that a reader looks for.
            inventory() if not rehearse else None
            print(f"passed: {CHECKS[name][1](here, rehearse)}")
        except NotRun as e:
            print(f"not run: {e}")
            return NOT_RUN
        except Exception as e:  # noqa: BLE001: the table says it
            import traceback

            traceback.print_exc()
            for log in pathlib.Path(here).glob("*.log"):
                print(f"--- {log.name}\n{log.read_text()[-4000:]}", file=sys.stderr)
            print(f"FAILED: {type(e).__name__}: {' '.join(str(e).split())[:600]}")
            return 1
    return 0


def run_one(name, rehearse, limit):
    """Runs a check in a process group of its own, which ends with its limit."""
    args = [sys.executable, __file__, "--check", name] + (["--rehearse"] if rehearse else [])
    process = subprocess.Popen(args, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, _ = process.communicate(timeout=limit)
        lines = out.strip().splitlines()
        return process.returncode, lines[-1] if lines else f"FAILED: it ended with {process.returncode}"
    except subprocess.TimeoutExpired:
        return 1, f"FAILED: not done within {limit:.0f} s"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rehearse", action="store_true", help="run on the CPU what can be")
    parser.add_argument("--only", nargs="+", choices=CHECKS, default=list(CHECKS), help="only these checks")
    parser.add_argument("--check", choices=CHECKS, help=argparse.SUPPRESS)
    parser.add_argument("--write-wrongly", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.write_wrongly:
        return write_wrongly()
    if args.check:
        return one(args.check, args.rehearse)
    slow = 3 if args.rehearse else 1  # a CPU that others use, too
    end, rows = time.monotonic() + slow * TOTAL, []
    for name in args.only:
        limit, check = CHECKS[name]
        print(f"{name}: {check.__doc__}", flush=True)
        began = time.monotonic()
        if end - began < 5:
            rows.append((name, NOT_RUN, 0, f"not run: the {TOTAL // 60} minutes are over"))
            continue
        code, outcome = run_one(name, args.rehearse, min(slow * limit, end - began))
        rows.append((name, code, time.monotonic() - began, outcome))
        print(f"  {outcome}", flush=True)
    print(f"\n{'check':16} {'seconds':>7}  outcome")
    for name, _, seconds, outcome in rows:
        print(f"{name:16} {seconds:7.1f}  {outcome}")
    return int(any(code not in (0, NOT_RUN) for _, code, _, _ in rows))


if __name__ == "__main__":
    sys.exit(main())
