"""tools.playground: mistakes in flags, the server, its connections."""

import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from unittest import mock

from base.errors import UserError

import page_models
import page_site
import pytest
import scripts
from paths import HELPERS, ROOT

from tools.page import site, tabs

playground = scripts.load("tools.playground")

needs_gradio = pytest.mark.skipif(
    importlib.util.find_spec("gradio") is None,
    reason="Gradio: pip install -r requirements-playground.txt",
)

UPLOAD = (
    b'--x\r\nContent-Disposition: form-data; name="files"; '
    b'filename="a.txt"\r\n\r\nstored\r\n--x--\r\n'
)
# Gradio would fetch this address.
FILE = {"path": "http://203.0.113.1/a", "meta": {"_type": "gradio.FileData"}}
REFUSED = [
    ("gradio_api/upload", UPLOAD),
    ("upload", UPLOAD),
    ("gradio_api//upload?x=1", UPLOAD),
    ("gradio_api/process_recording", UPLOAD),
    ("gradio_api/component_server", b"{}"),
    ("gradio_api/queue/join", json.dumps({"data": [FILE, ""]}).encode()),
    ("gradio_api/run/predict", json.dumps({"data": [FILE]}).encode()),
    ("gradio_api/queue/join", b"[" * 100_000),
    ("gradio_api/run/show", b"{}"),
    ("gradio_api/file=/etc/hostname", None),
    ("gradio_api/file=http://127.0.0.1/", None),
    ("gradio_api/file/etc/hostname", None),
    ("gradio_api/proxy=http://127.0.0.1/", None),
    ("gradio_api/custom_component/x/client/component/index.js", None),
    ("assets/%2e%2e/%2e%2e/%2e%2e/routes.py", None),
]

LOCAL = ("127.0.0.1", "localhost", "::1", "0.0.0.0", "None")


@pytest.fixture(autouse=True)
def own_environment():
    """What is set for Gradio would keep other tests from the hub."""
    with mock.patch.dict(os.environ):
        yield


@pytest.fixture(scope="module")
def model_of(tmp_path_factory):
    return page_models.made_once(tmp_path_factory.mktemp("models"))


# --- Mistakes ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"init_checkpoint": None}, "--init_checkpoint is required"),
        ({"init_checkpoint": "/proc/nowhere"}, "no such checkpoint"),
        ({"init_checkpoint": ",a"}, "an item is empty"),
        ({"task": "classifier"}, "has no head for it"),
        ({"max_seq_length": 65}, "max_position_embeddings=64"),
        ({"vocab_file": "/proc/nowhere"}, "/proc/nowhere"),
        ({"index": "/proc/nowhere"}, "--index=/proc/nowhere holds no index"),
        ({"host": "203.0.113.1"}, "--host=203.0.113.1"),
        ({"host": "no such host"}, "--host=no such host"),
        ({"host": "::1"}, "--host=::1"),
    ],
)
def test_mistakes_end_in_one_line(encoder_dir, values, message):
    values = {"init_checkpoint": encoder_dir, "port": 0} | values
    assert message in scripts.error_of(playground, **values)


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_ports_that_do_not_exist(port):
    with pytest.raises(Exception, match="port"):
        scripts.run(playground, port=port)


def test_a_port_in_use(encoder_dir):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        message = scripts.error_of(
            playground, init_checkpoint=encoder_dir, port=port
        )
    assert f"--port={port}" in message and "--port=0" in message


def test_without_gradio_it_says_how_to_install_it(encoder_dir, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    message = scripts.error_of(playground, init_checkpoint=encoder_dir, port=0)
    assert "pip install -r requirements-playground.txt" in message


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("127.0.0.1", True),
        ("127.0.0.2", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("192.168.1.5", False),
        ("example.org", False),
    ],
)
def test_other_addresses_are_warned_of(host, is_local):
    assert site.is_local(host) == is_local


@pytest.mark.parametrize(
    ("flag", "display", "wanted"),
    [(None, "", False), (None, ":0", True), (True, "", True)],
)
def test_a_browser_opens_where_there_is_a_display(
    flag, display, wanted, monkeypatch
):
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(playground.FLAGS["browser"], "value", flag)
    playground.FLAGS.mark_as_parsed()
    assert playground.wants_browser() == wanted


# --- The server --------------------------------------------------------------


@needs_gradio
@pytest.mark.nightly
def test_nothing_but_this_machine_is_reached(tmp_path):
    """From the import of Gradio to the last request; a proxy is not used."""
    run = subprocess.run(
        [sys.executable, str(HELPERS / "page_network_main.py")]
        + [str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    hosts = re.findall(r"^host: (.*)$", run.stdout, re.M)
    assert hosts and set(hosts) <= set(LOCAL), hosts


def test_a_connection_to_another_machine_is_found():
    """The recorder of the test above sees what it should."""
    with page_site.recorded_hosts() as hosts:
        with pytest.raises(OSError):
            socket.getaddrinfo("nowhere.invalid", 80)
    assert hosts == ["nowhere.invalid"]


def test_its_temporary_files_are_the_users_own(tmp_path, monkeypatch):
    """In a folder that all users share the second one could start no page."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("GRADIO_TEMP_DIR", "")  # restored after the test
    monkeypatch.delenv("GRADIO_TEMP_DIR")
    monkeypatch.setattr(site.packages, "load", lambda *names: None)
    site.load_gradio()
    folder = os.path.dirname(os.environ["GRADIO_TEMP_DIR"])
    assert os.stat(folder).st_mode & 0o777 == 0o700


def note_of(model, error: Exception) -> str:
    """Return what a tab shows whose view raises an error."""

    def view(model, text):
        raise error

    tab = tabs.Tab("Classes", "", view, ["Text"], [])
    (note,) = site.shown_or_error(tab, model, ["a"]).notes
    return note


def test_a_bug_is_a_line_on_the_page_and_a_trace_in_the_log(model_of, caplog):
    found = note_of(model_of("pairs"), RuntimeError("secret\ntrace"))
    assert found == "RuntimeError, see the log of tools.playground"
    assert "secret" in caplog.text


def test_a_mistake_is_a_sentence_without_flags(model_of):
    found = note_of(model_of("pairs"), UserError("no <b> (--task): x"))
    assert found == "no <b>: x"


@pytest.mark.nightly
@needs_gradio
@pytest.mark.parametrize(
    ("query", "selected", "values"),
    [
        ({}, "Word pieces", {}),
        ({"tab": "Neighbors"}, "Neighbors", {}),
        ({"tab": "Attention"} | {str(n): v for n, v in enumerate("ab12")},)
        + ("Attention", {2: "a", 3: "b", 4: "1", 5: "2"}),
        ({"tab": "Attention", "2": "1", "9": "1"}, "Attention", {4: "1"}),
        ({"tab": "<b>", "0": "a"}, "Word pieces", {0: "a"}),
    ],
)
def test_an_address_has_tab_and_texts(model_of, query, selected, values):
    """What it should not have is left out."""
    made = tabs.make_tabs([model_of("encoder")])
    chosen, *updates = site.restored(site.load_gradio(), made, query)
    assert chosen.selected == selected
    found = {n: u["value"] for n, u in enumerate(updates) if "value" in u}
    assert found == values


@needs_gradio
@pytest.mark.nightly
def test_the_script_serves_until_ctrl_c(encoder_dir, tmp_path):
    """In a process, as a user runs it: status 0, and no file is left."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.playground"]
        + [f"--init_checkpoint={encoder_dir}", "--port=0", "--nobrowser"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if found := re.search(r"The page: (\S+)", line):
                break
        else:
            raise AssertionError("".join(lines))
        address = found[1]
        assert address.startswith("http://127.0.0.1:")
        page = urllib.request.urlopen(address, timeout=60).read().decode()
        assert f'"title":"{encoder_dir} - BERT playground"' in page
        # A page of the web that gives its name the address of this machine.
        foreign = urllib.request.Request(address, headers={"Host": "evil.org"})
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(foreign, timeout=60)
        for path, body in REFUSED:
            kind = {"Content-Type": "application/json"}
            if body and not body.startswith(b"{"):
                kind = {"Content-Type": "multipart/form-data; boundary=x"}
            request = urllib.request.Request(address + path, body, kind)
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(request, timeout=60)
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    assert process.returncode == 0, rest
    assert "Ended" in rest and "Traceback" not in rest
    assert "HTTP Request" not in "".join(lines)
    assert not list(Path(tmp_path).iterdir())
