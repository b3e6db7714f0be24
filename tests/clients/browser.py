"""MediaPipe and LiteRT in a browser: python browser.py FILE CHROMIUM."""

import http.server
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

HERE = Path(__file__).parent
request_file, chromium = sys.argv[1:]
request = json.loads(Path(request_file).read_text())
served = {
    "packages": HERE / "node_modules",
    "models": Path(request["folder"]),
}
answered = threading.Event()
found = {}


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the page, the packages and the models; takes what was found."""

    def translate_path(self, path: str) -> str:
        """Return the file of a path of the page."""
        first, _, rest = path.strip("/").partition("/")
        if first == "request":
            return request_file
        return str(served.get(first, HERE / "browser.html") / rest)

    def do_POST(self) -> None:
        """Keep what the page measured."""
        size = int(self.headers["Content-Length"])
        found.update(json.loads(self.rfile.read(size)))
        self.send_response(204)
        self.end_headers()
        answered.set()

    def log_message(self, *_) -> None:
        """Say nothing of each request."""


Handler.extensions_map |= {".wasm": "application/wasm", "": "text/html"}
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
    page = subprocess.Popen(
        [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={profile}",
            f"http://127.0.0.1:{server.server_port}/page.html",
        ],
        stderr=subprocess.DEVNULL,
    )
    is_done = answered.wait(300)
    page.terminate()
    page.wait()
if not is_done or "error" in found:
    sys.exit(found.get("error", "no answer in 300 seconds"))
print(json.dumps(found))
