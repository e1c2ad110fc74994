"""Stands for `vllm serve`: streams chunks at a pace, every request alike. --broken: it ends."""

from __future__ import annotations

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CHUNKS, PACE = 8, 0.02


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self.answer("application/json", json.dumps({"data": [{"id": "model"}]}).encode())
        else:
            self.answer("text/plain", b"")

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for n in range(CHUNKS):
            time.sleep(PACE)
            self.event({"choices": [{"text": f" {n}", "finish_reason": None}]})
        # A server that may end early gives fewer tokens.
        tokens = request["max_tokens"] if request.get("ignore_eos") else 1
        self.event({"choices": [], "usage": {"completion_tokens": tokens, "prompt_tokens": 32}})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def event(self, data: dict[str, object]) -> None:
        self.wfile.write(b"data: " + json.dumps(data).encode() + b"\n\n")
        self.wfile.flush()


class Server(ThreadingHTTPServer):
    request_queue_size = 64


if __name__ == "__main__":
    with Path(os.environ["FAKE_TRACE"]).open("a") as stream:
        mode = "window" if "--use-replayssm" in sys.argv else "other"
        stream.write(f"{mode} {os.environ.get('VLLM_USE_BREAKABLE_CUDAGRAPH')}\n")
    if "--use-replayssm" in sys.argv and os.environ.get("FAKE_BROKEN"):
        sys.exit(5)
    Server(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
