"""Serves the model of fit.py as OpenAI's API does, as far as chats go: python3 serve.py FOLDER PORT"""

import http.server
import json
import pathlib
import random
import sys
import time

MAX_TOKENS = 64


class Model:
    def __init__(self, folder):
        stored = json.loads((pathlib.Path(folder) / "ngrams.json").read_text(encoding="utf-8"))
        self.order, self.think, self.counts = stored["order"], stored["think"], stored["counts"]

    def words(self, prompt, limit):
        """Goes on with a prompt, word by word."""
        said = prompt.split()
        time.sleep(self.think)
        for _ in range(limit):
            before = said[max(0, len(said) - self.order) :]
            while " ".join(before) not in self.counts:
                before = before[1:]
            following = self.counts[" ".join(before)]
            word = random.choices(list(following), list(following.values()))[0]
            said.append(word)
            yield word + " "


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model = None

    def do_GET(self):
        if self.path == "/health":
            self.answer({"status": "ok"})
        elif self.path == "/v1/models":
            self.answer({"object": "list", "data": [{"id": "ngram", "object": "model"}]})
        else:
            self.answer({"error": {"message": f"there is no {self.path}"}}, 404)

    def do_POST(self):
        try:
            asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            prompt, limit = asked["messages"][-1]["content"], min(int(asked.get("max_tokens", 16)), MAX_TOKENS)
        except (ValueError, KeyError, IndexError, TypeError) as e:
            self.answer({"error": {"message": f"not a chat: {e}"}}, 400)
            return
        if self.path != "/v1/chat/completions":
            self.answer({"error": {"message": f"there is no {self.path}"}}, 404)
        elif asked.get("stream"):
            self.stream(self.model.words(prompt, limit))
        else:
            text = "".join(self.model.words(prompt, limit))
            self.answer({"object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]})

    def stream(self, words):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.event({"role": "assistant", "content": ""})
        for word in words:
            self.event({"content": word})
        self.chunk("data: [DONE]\n\n")
        self.chunk("")

    def event(self, delta):
        chunk = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]}
        self.chunk(f"data: {json.dumps(chunk)}\n\n")

    def chunk(self, text):
        raw = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        self.wfile.flush()

    def answer(self, value, status=200):
        raw = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_request(self, code="-", size="-"):
        pass  # only errors are worth a line


def main():
    Handler.model = Model(sys.argv[1])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
    print(f"a model of order {Handler.model.order} listens on port {sys.argv[2]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
