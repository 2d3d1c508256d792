"""A stand-in for TensorRT for RTX on a machine with a GPU, where none is. It has what rtx.py calls, by the names and types of version 1.7.1.
Its engine is the ONNX model behind a header, which ONNX Runtime computes.

$FAKE_VALIDITY is what it finds wrong with an engine on this GPU.
"""

import ctypes
import enum
import os
import types

import numpy
import onnxruntime

__version__ = "1.7.1.116"

HEADER = b"ftrt" + bytes(60)


class ILogger:
    ERROR, INTERNAL_ERROR = "error", "internal error"

    def __init__(self):
        pass


ComputeCapability = enum.IntEnum("ComputeCapability", {"SM80": 80, "SM86": 86, "SM89": 89})
EngineValidity = enum.IntEnum("EngineValidity", {"VALID": 0, "SUBOPTIMAL": 1, "INVALID": 2})
EngineInvalidityDiagnostics = enum.IntEnum("EngineInvalidityDiagnostics", {"VERSION_MISMATCH": 1, "UNSUPPORTED_CC": 2, "MALFORMED_ENGINE": 32})
TensorIOMode = enum.IntEnum("TensorIOMode", {"INPUT": 1, "OUTPUT": 2})
MemoryPoolType = enum.IntEnum("MemoryPoolType", {"WORKSPACE": 0})


class Builder:
    def __init__(self, logger):
        pass

    def create_network(self, flags):
        return types.SimpleNamespace()

    def create_builder_config(self):
        return types.SimpleNamespace(
            set_compute_capability=lambda capability, index: True, add_optimization_profile=lambda profile: 0, set_memory_pool_limit=lambda pool, size: None,
        )

    def create_optimization_profile(self):
        return types.SimpleNamespace(set_shape=lambda name, least, best, most: None)

    def build_serialized_network(self, network, config):
        return HEADER + network.model


class OnnxParser:
    num_errors = 0

    def __init__(self, network, logger):
        self.network = network

    def parse_from_file(self, path):
        with open(path, "rb") as file:
            self.network.model = file.read()
        return True


class Runtime:
    def __init__(self, logger):
        self.logger = logger

    def get_engine_validity(self, engine):
        if bad := os.environ.get("FAKE_VALIDITY"):
            return EngineValidity.INVALID, int(EngineInvalidityDiagnostics[bad])
        return EngineValidity.VALID, 0

    def deserialize_cuda_engine(self, engine):
        return Engine(engine[len(HEADER):])


class Engine:
    def __init__(self, model):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.inputs = [i.name for i in self.session.get_inputs()]
        self.outputs = [o.name for o in reversed(self.session.get_outputs())]
        self.num_io_tensors = len(self.inputs) + len(self.outputs)

    def get_tensor_name(self, i):
        return (self.inputs + self.outputs)[i]

    def get_tensor_mode(self, name):
        return TensorIOMode.INPUT if name in self.inputs else TensorIOMode.OUTPUT

    def get_tensor_dtype(self, name):
        return "FLOAT"

    def create_execution_context(self):
        return Context(self)


class Context:
    def __init__(self, engine):
        self.engine, self.shapes, self.addresses = engine, {}, {}

    def set_input_shape(self, name, shape):
        self.shapes[name] = shape
        return True

    def set_tensor_address(self, name, address):
        assert isinstance(address, int) and address
        self.addresses[name] = address
        return True

    def infer(self):
        values = {}
        for name, shape in self.shapes.items():
            at = ctypes.cast(self.addresses[name], ctypes.POINTER(ctypes.c_float))
            values[name] = numpy.ctypeslib.as_array(at, shape=shape).copy()
        return dict(zip(self.engine.outputs, self.engine.session.run(self.engine.outputs, values), strict=True))

    def get_tensor_shape(self, name):
        return self.infer()[name].shape

    def execute_async_v3(self, stream_handle):
        for name, value in self.infer().items():
            ctypes.memmove(self.addresses[name], value.ctypes.data, value.nbytes)
        return True


def nptype(dtype):
    return numpy.float32
