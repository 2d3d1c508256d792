"""Builds an engine of an ONNX model by TensorRT for RTX alone: python3 floor.py MODEL CAPABILITY INPUT MIN OPT MAX, a shape as 1x3."""

import ctypes
import importlib.util
import pathlib
import sys

folder = pathlib.Path(importlib.util.find_spec("onnxruntime_ep_nv_tensorrt_rtx").origin).parent
for name in ("libtensorrt_rtx.so.*", "libtensorrt_onnxparser_rtx.so.*"):
    ctypes.CDLL(str(next(folder.glob(name))), mode=ctypes.RTLD_GLOBAL)

import tensorrt_rtx_bindings as trt  # noqa: E402

logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
network = builder.create_network(0)
assert trt.OnnxParser(network, logger).parse_from_file(sys.argv[1])
config = builder.create_builder_config()
config.num_compute_capabilities = 1
config.set_compute_capability(trt.ComputeCapability.__members__[sys.argv[2]], 0)
profile = builder.create_optimization_profile()
profile.set_shape(sys.argv[3], *(tuple(map(int, shape.split("x"))) for shape in sys.argv[4:]))
config.add_optimization_profile(profile)
assert builder.build_serialized_network(network, config)
