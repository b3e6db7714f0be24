"""playground.py: mistakes on the command line, the server, its connections."""

import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import litert_files
import page_models
import page_site
import pytest
import scripts
from paths import ROOT

from page import site, views

playground = scripts.load("playground")

needs_gradio = pytest.mark.skipif(
    importlib.util.find_spec("gradio") is None,
    reason="Gradio: pip install -r requirements-playground.txt",
)

LOCAL = ("127.0.0.1", "localhost", "::1", "0.0.0.0", "None")


@pytest.fixture(scope="module")
def model_of(tmp_path_factory):
    return page_models.made_once(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    return litert_files.write_model(folder / "model", "encoder")


# --- Mistakes ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"init_checkpoint": None}, "--init_checkpoint is required"),
        ({"init_checkpoint": "/proc/nowhere"}, "no such checkpoint"),
        ({"init_checkpoint": "a,,b"}, "item 2 of 3 is empty"),
        ({"init_checkpoint": "a,a"}, "names a twice"),
        ({"task": "classifier"}, "has no head for it"),
        ({"task": "masked_lm"}, "has no head for it"),
        ({"max_seq_length": 65}, "max_position_embeddings=64"),
        ({"vocab_file": "/proc/nowhere"}, "/proc/nowhere"),
        ({"neighbors_file": "/proc/nowhere"}, "/proc/nowhere"),
        ({"neighbors_file": "/proc"}, "cannot be read"),
        ({"neighbors_file": os.devnull}, "pipe or a device"),
        ({"host": "203.0.113.1"}, "--host=203.0.113.1"),
        ({"host": "no such host"}, "--host=no such host"),
    ],
)
def test_mistakes_end_in_one_line(encoder, values, message):
    values = {"init_checkpoint": encoder, "port": 0} | values
    assert message in scripts.error_of(playground, **values)


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_ports_that_do_not_exist(port):
    with pytest.raises(Exception, match="port"):
        scripts.run(playground, port=port)


def test_a_port_in_use(encoder):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        message = scripts.error_of(
            playground, init_checkpoint=encoder, port=port
        )
    assert f"--port={port}" in message and "--port=0" in message


def test_without_gradio_it_says_how_to_install_it(encoder, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    message = scripts.error_of(playground, init_checkpoint=encoder, port=0)
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
    assert playground.is_local(host) == is_local


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
@pytest.mark.slow
def test_nothing_but_this_machine_is_reached(model_of, monkeypatch):
    """From the import of Gradio to the last request; a proxy is not used."""
    monkeypatch.setenv("HTTP_PROXY", "http://203.0.113.1:3128")
    monkeypatch.setenv("GRADIO_ANALYTICS_ENABLED", "True")
    monkeypatch.setenv("NO_PROXY", "")
    models = [model_of("pairs"), model_of("token_classification")]
    with page_site.recorded_hosts() as hosts:
        with page_site.served(models, "good film\nbad film") as address:
            check_requests(address, models)
    assert hosts and set(hosts) <= set(LOCAL), sorted(set(hosts))


def check_requests(address: str, models) -> None:
    """Ask every function of the page, from two threads at once."""
    from gradio_client import Client

    client = Client(address, verbose=False, analytics_enabled=False)
    pairs, tagger = models
    found = client.predict("good film", "bad", api_name="/classes")
    assert found == views.classes(pairs, "good film", "bad")
    found = client.predict("ann in rome", api_name="/entities")
    assert found == views.entities(tagger, "ann in rome")
    # An error of a user is a result; the server goes on.
    assert "text_a is empty" in client.predict("", "a", api_name="/classes")
    texts = [f"good {'film ' * count}" for count in range(1, 7)]
    results = {}

    def ask(text: str) -> None:
        results[text] = client.predict(text, "a", api_name="/classes")

    threads = [threading.Thread(target=ask, args=[text]) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for text in texts:
        assert results[text] == views.classes(pairs, text, "a")
    near = client.predict("bad film", "mean", api_name="/neighbors")
    assert "bad film" in near[0]


def test_a_connection_to_another_machine_is_found():
    """The recorder of the test above sees what it should."""
    with page_site.recorded_hosts() as hosts:
        with pytest.raises(OSError):
            socket.getaddrinfo("nowhere.invalid", 80)
    assert hosts == ["nowhere.invalid"]


@needs_gradio
def test_a_bug_is_a_line_on_the_page_and_a_trace_in_the_log(model_of, caplog):
    def broken(model, text):
        raise RuntimeError("secret\ntrace")

    tab = site.Tab("Classes", "classes", [], broken, [], [])
    shown = site.shown_or_error(tab, model_of("pairs"), ["a"])
    assert "RuntimeError, see the log" in shown
    assert "secret" not in shown


@needs_gradio
@pytest.mark.slow
def test_the_script_serves_until_ctrl_c(encoder, tmp_path):
    """In a process, as a user runs it: status 0, and no file is left."""
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "playground.py")]
        + [f"--init_checkpoint={encoder}", "--port=0", "--nobrowser"],
        cwd=tmp_path,
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
        assert '"title":"model"' in page
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    assert process.returncode == 0, rest
    assert "Ended" in rest and "Traceback" not in rest
    assert "HTTP Request" not in "".join(lines)
    assert not list(Path(tmp_path).iterdir())
