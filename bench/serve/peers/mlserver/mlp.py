"""A model of ONNX Runtime in MLServer."""

import os

import numpy as np
import onnxruntime as ort
from mlserver import MLModel
from mlserver.codecs import NumpyCodec, NumpyRequestCodec
from mlserver.types import InferenceRequest, InferenceResponse


class MLP(MLModel):
    async def load(self) -> bool:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = ort.InferenceSession(os.environ["MLP_FILE"], options)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        x = NumpyCodec.decode_input(payload.inputs[0]).astype(np.float32)
        (y,) = self.session.run(None, {"x": x})
        return NumpyRequestCodec.encode_response(model_name=self.name, payload=y)
