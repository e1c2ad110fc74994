"""A package index on this machine."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Index:
    """A package index on this machine, with faults on demand."""

    url: str
    folder: Path
    yanked: tuple[str, ...] = ()
    fault: str = ""
    asked: list[str] = field(default_factory=list)
    authorization: list[str | None] = field(default_factory=list)


@contextmanager
def serve(folder: Path) -> Iterator[Index]:
    """Serve the files of a folder until the block ends."""
    state = Index("", folder)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append(self.path)
            state.authorization.append(self.headers["Authorization"])
            if self.path.startswith("/files/"):
                content = (folder / Path(self.path).name).read_bytes()
                size = len(content)
                if state.fault == "cut":
                    content = content[: size // 2]
                if state.fault == "wrong":
                    content = b"x" * size
                kind = "application/octet-stream"
            else:
                project = self.path.strip("/").rpartition("/")[2]
                files = [
                    {
                        "filename": path.name,
                        "url": f"../../files/{path.name}",
                        "hashes": {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()},
                        "yanked": path.name in state.yanked,
                    }
                    for path in sorted(folder.iterdir())
                    if path.name.startswith(project.replace("-", "_") + "-")
                ]
                if state.fault == "no hashes":
                    for row in files:
                        row["hashes"] = {}
                if state.fault == "absent":
                    files = []
                content = json.dumps({"files": files}).encode()
                if state.fault == "html":
                    content = b"<html></html>"
                size, kind = len(content), "application/vnd.pypi.simple.v1+json"
            self.send_response(500 if state.fault == "500" else 200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    state.url = f"http://127.0.0.1:{server.server_port}/simple"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
