"""The served graph must answer what the trained network answers: same tokens, same probabilities, whatever else is in the batch."""

import pathlib
import tempfile
import unittest

import numpy
import onnxruntime
import torch

import model as spam

MAILS = [
    "Re: [Spambayes] patch\nOn Thu, 22 Aug 2002, Skip wrote:\n> don't you get 100% of it?",
    "FREE!!! Make $$$ fast\nClick   here\tNOW, it's 100% free free FREE",
    "caf\u00e9 na\u00efve \u20ac100 \u4e2d\u6587 mail \ufffd\ufffd broken",
    "",
    " \n\t ... --- ___ ",
    "x",
    "winner " * (spam.LENGTH - 1) + "last dropped",
    "one\x00two\x7fthree\r\nfour\u2028five\u00a0six",
    "snake_case 3com mp3 U2 3.14 a1b2 \uff26\uff32\uff25\uff25",
]


class ExportedModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(1)
        cls.vocabulary = spam.build_vocabulary(MAILS * 2)
        cls.model = spam.SpamFilter(len(cls.vocabulary)).eval()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "export", "model.onnx")
            spam.export(cls.model, cls.vocabulary, path)
            cls.exported = path.read_bytes()
            spam.export(cls.model, cls.vocabulary, path)
            cls.again = path.read_bytes()
        cls.session = onnxruntime.InferenceSession(cls.exported, providers=["CPUExecutionProvider"])

    def served(self, texts):
        return self.session.run(["probabilities"], {"text": numpy.array(texts, dtype=object)})[0]

    def trained(self, texts):
        encoder = spam.Encoder(self.vocabulary)
        with torch.no_grad():
            return torch.softmax(self.model(spam.pad([encoder.encode(text) for text in texts])), dim=1).numpy()

    def test_vocabulary_is_not_trivial(self):
        self.assertGreater(len(self.vocabulary), 30)
        self.assertEqual(len(self.vocabulary), len(set(self.vocabulary)))

    def test_tokens_agree(self):
        tokenizer = onnxruntime.InferenceSession(tokenizer_of(self.exported), providers=["CPUExecutionProvider"])
        for text in MAILS:
            with self.subTest(text[:40]):
                (tokens,) = tokenizer.run(["tokens"], {"text": numpy.array([text], dtype=object)})
                self.assertEqual(tokens.flatten().tolist(), spam.find_tokens(text))

    def test_probabilities_agree(self):
        numpy.testing.assert_allclose(self.served(MAILS), self.trained(MAILS), atol=1e-5)

    def test_answer_does_not_depend_on_the_batch(self):
        together = self.served(MAILS)
        for text, row in zip(MAILS, together):
            with self.subTest(text[:40]):
                numpy.testing.assert_allclose(self.served([text])[0], row, atol=1e-6)

    def test_only_the_first_tokens_count(self):
        words = "FREE " * spam.LENGTH
        numpy.testing.assert_array_equal(self.served([words + "x winner"]), self.served([words]))

    def test_export_is_deterministic(self):
        self.assertEqual(self.exported, self.again)


def tokenizer_of(exported: bytes) -> bytes:
    """The exported graph, cut after its first node."""
    proto = spam.onnx.load_from_string(exported)
    del proto.graph.node[1:], proto.graph.initializer[:], proto.graph.output[:]
    proto.graph.output.append(spam.helper.make_tensor_value_info("tokens", spam.TensorProto.STRING, None))
    return proto.SerializeToString()


if __name__ == "__main__":
    unittest.main()
