"""A small server that answers the client huggingface_hub as the hub does.

It has models in memory, listens on 127.0.0.1 and answers what the client asks
for: revisions, the commit of a revision, the files of a commit, a file. It
notes every request. HF_ENDPOINT leads the client to it.
"""

import hashlib
import http.server
import json
import threading
import urllib.parse
from pathlib import Path
from typing import NamedTuple


class Repository(NamedTuple):
    """A model of the server.

    Attributes:
        commits: of each revision, 40 hexadecimal digits.
        files: of each commit, {name: content}.
        is_gated: whether nobody may read it.
    """

    commits: dict[str, str]
    files: dict[str, dict[str, bytes]]
    is_gated: bool = False


def read_folder(folder: Path) -> dict[str, bytes]:
    """Return {name: content} of a folder, for `HubServer.add`."""
    files = filter(Path.is_file, folder.iterdir())
    return {path.name: path.read_bytes() for path in files}


class HubServer:
    """Serves models until `close`.

    Attributes:
        url: for HF_ENDPOINT.
        requests: "METHOD /path" of all requests.
        status: answered to every request instead, if it is not 0.
    """

    def __init__(self):
        self.repositories: dict[str, Repository] = {}
        self.requests: list[str] = []
        self.status = 0
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), handler
        )
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def add(
        self, name: str, is_gated: bool = False, **revisions: dict[str, bytes]
    ) -> None:
        """Add or replace a model.

        Args:
            name: owner/name.
            is_gated: whether nobody may read it.
            **revisions: main or refs_pr_1 -> {file name: content}.
        """
        commits, contents = {}, {}
        for revision, files in revisions.items():
            text = repr((name, sorted(files.items())))
            commit = hashlib.sha1(text.encode()).hexdigest()
            commits[revision.replace("_", "/")] = commit
            contents[commit] = files
        self.repositories[name] = Repository(commits, contents, is_gated)

    def close(self) -> None:
        """Stop serving: from now on connections are refused."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        """Answer without a body."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answer a request of the client."""
        path = urllib.parse.urlsplit(self.path).path
        self.hub.requests.append(f"{self.command} {path}")
        if self.hub.status:
            return self._fail(self.hub.status, "", "out of order")
        parts = [urllib.parse.unquote(part) for part in path.split("/")[1:]]
        if parts[:2] == ["api", "models"] and len(parts) >= 5:
            return self._api("/".join(parts[2:4]), parts[4:])
        if len(parts) >= 5 and parts[2] == "resolve":
            return self._file(
                "/".join(parts[:2]), parts[3], "/".join(parts[4:])
            )
        return self._fail(404, "", "unknown address")

    def _api(self, name: str, what: list[str]) -> None:
        repository = self._repository(name)
        if not repository:
            return None
        if what == ["refs"]:
            refs = [
                {"name": r.split("/")[-1], "ref": r, "targetCommit": commit}
                for r, commit in repository.commits.items()
            ]
            pulls = [ref for ref in refs if ref["ref"] != "main"]
            main = [ref for ref in refs if ref["ref"] == "main"]
            return self._json(
                {
                    "branches": main,
                    "tags": [],
                    "converts": [],
                    "pullRequests": pulls,
                }
            )
        commit = self._commit(repository, what[1])
        if not commit:
            return None
        files = repository.files[commit]
        if what[0] == "revision":
            names = [{"rfilename": file} for file in files]
            return self._json({"id": name, "sha": commit, "siblings": names})
        return self._json(
            [
                {
                    "type": "file",
                    "path": file,
                    "size": len(data),
                    "oid": hashlib.sha1(data).hexdigest(),
                    "lfs": {
                        "oid": hashlib.sha256(data).hexdigest(),
                        "size": len(data),
                        "pointerSize": 100,
                    },
                }
                for file, data in files.items()
            ]
        )

    def _file(self, name: str, revision: str, file: str) -> None:
        repository = self._repository(name)
        commit = repository and self._commit(repository, revision)
        if not commit:
            return
        data = repository.files[commit].get(file)
        if data is None:
            self._fail(404, "EntryNotFound", "no such file")
            return
        tag = hashlib.sha256(data).hexdigest()
        self._send(200, data, {"ETag": f'"{tag}"', "X-Repo-Commit": commit})

    def _repository(self, name: str) -> Repository | None:
        """Return a model; None if the answer is that there is none."""
        found = self.hub.repositories.get(name)
        if not found:
            self._fail(404, "RepoNotFound", "Repository not found")
        elif found.is_gated:
            self._fail(403, "GatedRepo", "Access is restricted")
        return found if found and not found.is_gated else None

    def _commit(self, repository: Repository, revision: str) -> str | None:
        """Return a commit; None if the answer is that there is none."""
        commit = repository.commits.get(revision, revision)
        if commit in repository.files:
            return commit
        self._fail(404, "RevisionNotFound", "Invalid rev id")
        return None

    def _json(self, value: object) -> None:
        kind = {"Content-Type": "application/json"}
        self._send(200, json.dumps(value).encode(), kind)

    def _fail(self, status: int, code: str, message: str) -> None:
        headers = {"X-Error-Message": message}
        if code:
            headers["X-Error-Code"] = code
        self._send(status, message.encode(), headers)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""
