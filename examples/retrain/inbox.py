"""Plays the team's chat: prints the notifications that it gets at http://127.0.0.1:8095. Not a part of the pipeline."""

import http.server
import json
import sys


class Inbox(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print(" · ".join(filter(None, [message["event"].upper(), message["title"], message.get("text")])), flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    http.server.HTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8095), Inbox).serve_forever()
