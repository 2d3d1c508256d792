"""Builds an engine with TensorRT for RTX from an ONNX model, on a machine with or without a GPU, and runs it on samples where it can.

Reads a job from stdin as JSON: {"graph", "engine", "compute", "workspace", "shapes", "samples", "outputs", "answer"}. Writes the engine to the file `engine` and, if
this machine has a GPU on which the engine runs, the engine's outputs for the rows of `samples` to the file `outputs`, one JSON list of tensors
a line. Both have tensors as the Open Inference Protocol writes them. Writes to the file `answer`, as JSON, {"version"} and either
{"unmeasured"}, the reason, or {"gpu", "driver", "seconds"}: how long each of several inferences of the first row took.

A fault of the model or the job ends it with code 3, and stderr with a line that says what is wrong.
"""

import ctypes
import importlib.util
import json
import pathlib
import re
import sys
import time

import numpy
import onnx

INSTALL = "install it in the step's Python: pip install tensorrt-rtx-cu13-bindings onnxruntime-ep-nv-tensorrt-rtx-cu13"

# The package with TensorRT's libraries, and those that the bindings need, each before those that need it.
LIBRARIES = "onnxruntime_ep_nv_tensorrt_rtx"
ORDER = ("libcudart.so.*", "libtensorrt_rtx.so.*", "libtensorrt_onnxparser_rtx.so.*")

# numpy's types of the elements of tensors.
ROW_TYPES = {
    "BOOL": numpy.bool_, "FP16": numpy.float16, "FP32": numpy.float32, "FP64": numpy.float64,
    "INT8": numpy.int8, "INT16": numpy.int16, "INT32": numpy.int32, "INT64": numpy.int64, "UINT8": numpy.uint8,
}
DATATYPES = {numpy.dtype(kind): name for name, kind in ROW_TYPES.items()}

# How many inferences of the first row are measured, and how many run before.
TIMED, WARM_UPS = 200, 20


class Fault(Exception):
    """What is wrong with the model or the job."""


def load():
    """TensorRT's bindings, and CUDA's runtime or None. The libraries are found by the names that they are loaded with here: their package has
    no links of the names by which the linker looks for them."""
    found = importlib.util.find_spec(LIBRARIES)
    libraries = {}
    for pattern in ORDER if found else ():
        for path in sorted(pathlib.Path(found.origin).parent.glob(pattern))[-1:]:
            libraries[pattern] = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    for name in ("tensorrt_rtx", "tensorrt_rtx_bindings"):
        if importlib.util.find_spec(name) is None:
            continue
        try:
            tensorrt = importlib.import_module(name)
        except ImportError as e:
            raise Fault(f"TensorRT for RTX cannot be loaded: {e}; {INSTALL}") from e
        try:
            return tensorrt, libraries.get(ORDER[0]) or ctypes.CDLL("libcudart.so.13")
        except OSError:
            return tensorrt, None
    raise Fault(f"TensorRT for RTX is not installed; {INSTALL}")


def logger_of(trt):
    """A logger of TensorRT that keeps errors."""

    class Logger(trt.ILogger):
        def __init__(self):
            trt.ILogger.__init__(self)
            self.errors = []

        def log(self, severity, message):
            if severity in (trt.ILogger.ERROR, trt.ILogger.INTERNAL_ERROR):
                self.errors.append(message)

    return Logger()


def plain(message):
    """A message of TensorRT without the places in its source."""
    message = re.sub(r"^\S+: Error Code \d+: ", "", " ".join(message.split()))
    message = re.sub(r"\[\w+\.cpp:\d+: \w+\] ", "", message)
    return re.sub(r"\.? In \w+ at \S+\.(cpp|h):\d+", "", message)


def unsupported(error):
    """What the parser says of one node."""
    said = plain(error.desc())
    if not error.node_operator():
        return said
    return f"operator {error.node_operator()} of node {error.node_name()!r} is not supported" + (f": {said}" if said not in ("", "false") else "")


def build(trt, logger, job):
    """The engine, as bytes."""
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(job["graph"]):
        found = [unsupported(parser.get_error(i)) for i in range(parser.num_errors)]
        raise Fault("TensorRT for RTX cannot read the model: " + "; ".join(dict.fromkeys(found[:10])))
    config = builder.create_builder_config()
    config.num_compute_capabilities = len(job["compute"])
    for i, capability in enumerate(job["compute"]):
        known = trt.ComputeCapability.__members__.get("SM" + capability.replace(".", ""))
        if known is None or not config.set_compute_capability(known, i):
            raise Fault(f"TensorRT for RTX {trt.__version__} does not build for compute capability {capability}")
    if job["workspace"]:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, job["workspace"])
    if shapes := job["shapes"]:
        profile = builder.create_optimization_profile()
        for name in shapes["opt"]:
            profile.set_shape(name, *(shapes[bound][name] for bound in ("min", "opt", "max")))
        config.add_optimization_profile(profile)
    logger.errors.clear()
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        operators = {node.name: node.op_type for node in onnx.load(job["graph"], load_external_data=False).graph.node}
        said = "; ".join(dict.fromkeys(map(plain, logger.errors)))
        names = [f"{name!r} is a {operators[name]}" for name in dict.fromkeys(re.findall(r"'([^']+)'", said)) if name in operators]
        raise Fault("TensorRT for RTX cannot build the engine: " + "; ".join([said or "it does not say why", *names]))
    return bytes(engine)


def reasons(trt, diagnostics):
    """The names of what TensorRT finds wrong with an engine."""
    return [name for name, value in trt.EngineInvalidityDiagnostics.__members__.items() if diagnostics & int(value)]


def check(trt, runtime, engine):
    """Whether this machine runs the engine, and if not, why. A header that is not one is a fault."""
    validity, diagnostics = runtime.get_engine_validity(engine)
    found = reasons(trt, int(diagnostics))
    if "MALFORMED_ENGINE" in found or "VERSION_MISMATCH" in found:
        raise Fault(f"TensorRT for RTX does not accept the engine: {', '.join(found)}")
    return validity != trt.EngineValidity.INVALID, ", ".join(found)


class Cuda:
    """As much of CUDA's runtime as it takes to run an engine."""

    TO_DEVICE, TO_HOST = 1, 2

    def __init__(self, library):
        self.library = library

    def call(self, name, *args):
        if code := getattr(self.library, name)(*args):
            raise Fault(f"{name} failed with error {code}")

    def gpu(self):
        """The name of the GPU and the version of CUDA that its driver has; None without a GPU."""
        count, version, properties = ctypes.c_int(0), ctypes.c_int(0), ctypes.create_string_buffer(1 << 14)
        if self.library is None or self.library.cudaGetDeviceCount(ctypes.byref(count)) or count.value == 0:
            return None
        self.call("cudaDriverGetVersion", ctypes.byref(version))
        self.call("cudaGetDeviceProperties", properties, 0)  # begins with the name
        return properties.value.decode(), f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"

    def allocate(self, size):
        pointer = ctypes.c_void_p()
        self.call("cudaMalloc", ctypes.byref(pointer), ctypes.c_size_t(max(size, 1)))
        return pointer

    def free(self, pointer):
        self.call("cudaFree", pointer)

    def copy(self, target, source, size, kind):
        self.call("cudaMemcpy", target, source, ctypes.c_size_t(size), kind)

    def wait(self):
        self.call("cudaDeviceSynchronize")


def infer(trt, cuda, context, inputs):
    """Runs the engine once. The result is as OIP's tensors, in order."""
    engine, buffers, outputs = context.engine, [], {}
    try:
        for name, value in inputs.items():
            buffers.append(cuda.allocate(value.nbytes))
            cuda.copy(buffers[-1], value.ctypes.data_as(ctypes.c_void_p), value.nbytes, cuda.TO_DEVICE)
            context.set_input_shape(name, value.shape)
            context.set_tensor_address(name, buffers[-1].value)
        for name in map(engine.get_tensor_name, range(engine.num_io_tensors)):
            if engine.get_tensor_mode(name) != trt.TensorIOMode.OUTPUT:
                continue
            shape = tuple(context.get_tensor_shape(name))
            if min(shape, default=0) < 0:
                raise Fault(f"the shape of output {name!r} depends on what is in the inputs, which Sluice cannot measure")
            outputs[name] = numpy.empty(shape, trt.nptype(engine.get_tensor_dtype(name)))
            buffers.append(cuda.allocate(outputs[name].nbytes))
            context.set_tensor_address(name, buffers[-1].value)
        if not context.execute_async_v3(0):
            raise Fault("the engine does not run on a sample")
        cuda.wait()
        for (name, value), buffer in zip(outputs.items(), buffers[len(inputs):], strict=True):
            cuda.copy(value.ctypes.data_as(ctypes.c_void_p), buffer, value.nbytes, cuda.TO_HOST)
    finally:
        for buffer in buffers:
            cuda.free(buffer)
    return outputs


def rows_of(path):
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            yield {t["name"]: numpy.ascontiguousarray(numpy.array(t["data"], ROW_TYPES[t["datatype"]]).reshape(t["shape"])) for t in json.loads(line)}


def measure(trt, cuda, runtime, engine, job):
    """Runs the engine on the samples, and returns the seconds that the first one took, many times."""
    loaded = runtime.deserialize_cuda_engine(engine)
    if loaded is None:
        raise Fault("TensorRT for RTX cannot load the engine: " + "; ".join(map(plain, runtime.logger.errors)))
    context, seconds = loaded.create_execution_context(), []
    with open(job["outputs"], "x", encoding="utf-8") as file:
        for i, inputs in enumerate(rows_of(job["samples"])):
            outputs = infer(trt, cuda, context, inputs)
            for name, value in outputs.items():
                if value.dtype.kind == "f" and not numpy.isfinite(value).all():
                    raise Fault(f"sample {i + 1}: output {name!r} of the engine is not finite")
            tensors = [
                {"name": name, "datatype": DATATYPES[value.dtype], "shape": list(value.shape), "data": value.ravel().tolist()}
                for name, value in outputs.items()
            ]
            file.write(json.dumps(tensors) + "\n")
            for run in range(WARM_UPS + TIMED if i == 0 else 0):
                began = time.perf_counter()
                infer(trt, cuda, context, inputs)
                if run >= WARM_UPS:
                    seconds.append(time.perf_counter() - began)
    return seconds


def main():
    job = json.load(sys.stdin)
    trt, library = load()
    logger, cuda = logger_of(trt), Cuda(library)
    engine = build(trt, logger, job)
    pathlib.Path(job["engine"]).write_bytes(engine)
    runtime = trt.Runtime(logger)
    runs, why = check(trt, runtime, engine)
    gpu = cuda.gpu()
    answer = {"version": trt.__version__}
    if gpu is None:
        answer["unmeasured"] = "this machine has no GPU with a driver"
    elif not runs:
        answer["unmeasured"] = f"the engine does not run on {gpu[0]}: {why}"
    else:
        answer["gpu"], answer["driver"] = gpu
        answer["seconds"] = measure(trt, cuda, runtime, engine, job)
    pathlib.Path(job["answer"]).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except Fault as fault:
        print(fault, file=sys.stderr)
        sys.exit(3)
