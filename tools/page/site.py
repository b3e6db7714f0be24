"""Serve the tabs as a page. The only module that imports Gradio.

Gradio (Apache 2.0) has the forms, tabs and examples, the queue and the layout
for phones. It is slow to import and optional, so it is imported when the page
is made. Results are HTML of drawing.py: Gradio's tables clip long texts in
narrow columns, and its colored spans do not scroll. Nothing may use the
network:

- GRADIO_ANALYTICS_ENABLED and the variables below are set before the import:
  no telemetry and no look-up of new versions.
- Fonts are those of the system, and no link leaves the page.
- No proxy is used: Gradio asks its own server whether it runs.
"""

import ipaddress
import os
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from base import packages
from base.errors import UserError

from absl import logging

from tools.page import drawing
from tools.page.models import PageModel
from tools.page.tabs import Field, Tab

REQUIREMENTS = "requirements-playground.txt"

_ENVIRONMENT = {
    "GRADIO_ANALYTICS_ENABLED": "False",
    "GRADIO_CHECK_VERSION": "False",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "NO_PROXY": "*",
    "no_proxy": "*",
}

# All tabs wait for one another: a model uses all cores, and two requests at
# once would take as long as one after the other, and twice the memory.
_QUEUE = "model"

_STYLE = Path(__file__).with_name("style.css")

_FONTS = ("system-ui", "sans-serif")
_MONO_FONTS = ("ui-monospace", "monospace")


def load_gradio() -> ModuleType:
    """Return Gradio, with everything off that would use the network.

    Call it after models are loaded: hf:// names need the network.

    Raises:
        UserError: it is not installed; tells how to install it.
    """
    os.environ.update(_ENVIRONMENT)
    # A model with an hf:// name has imported it before, with its settings.
    hub = sys.modules.get("huggingface_hub.constants")
    if hub:
        hub.HF_HUB_OFFLINE = hub.HF_HUB_DISABLE_TELEMETRY = True
    return packages.load("gradio", "playground.py", "Gradio", REQUIREMENTS)


# --- Layout ------------------------------------------------------------------


def make_page(
    gr: ModuleType, models: Sequence[PageModel], tabs: Sequence[Tab]
) -> Any:
    """Return the page, a gr.Blocks.

    Args:
        gr: Gradio.
        models: all of the page.
        tabs: of these models.
    """
    title = ", ".join(model.name for model in models)
    with gr.Blocks(title=title, analytics_enabled=False) as page:
        gr.HTML(_about(models))
        with gr.Tabs():
            for tab in tabs:
                with gr.Tab(tab.title, id=tab.name):
                    _add_tab(gr, tab)
    return page


def _about(models: Sequence[PageModel]) -> str:
    """Return the head of the page: names and sizes of the models."""
    title = drawing.escape(", ".join(model.name for model in models))
    lines = [
        drawing.note(f"{model.name}: {model.summary()}") for model in models
    ]
    return f'<div class="bert-about"><h1>{title}</h1>{"".join(lines)}</div>'


def _add_tab(gr: ModuleType, tab: Tab) -> None:
    """Add fields, examples, a button and the columns of results."""
    texts = [_add_text(gr, field) for field in tab.fields if not field.choices]
    examples = texts[: len(tab.examples[0])]
    gr.Examples(tab.examples, examples, label="Examples, to click")
    choosers = []
    if any(field.choices for field in tab.fields):
        with gr.Row():
            choosers = [_add_chooser(gr, f) for f in tab.fields if f.choices]
    button = gr.Button("Run", variant="primary", elem_id=f"run-{tab.name}")
    with gr.Row():
        results = [_add_column(gr, tab, model) for model in tab.models]
    options = {
        "inputs": texts + choosers,
        "outputs": results,
        "concurrency_id": _QUEUE,
        "concurrency_limit": 1,
        "show_progress": "minimal",
    }
    show = _shower(tab)
    triggers = [button.click, *(text.submit for text in texts)]
    gr.on(triggers, show, api_name=tab.name, **options)
    # A new choice shows its result without a click, once there is a text.
    if choosers:
        changes = [chooser.change for chooser in choosers]
        gr.on(changes, show, api_visibility="private", **options)


def _add_text(gr: ModuleType, field: Field) -> Any:
    """Return the box of a text."""
    return gr.Textbox(
        value=field.value, label=field.label, lines=field.lines, max_lines=14
    )


def _add_chooser(gr: ModuleType, field: Field) -> Any:
    """Return the list to choose a value from."""
    return gr.Dropdown(
        list(field.choices), value=field.value, label=field.label, min_width=90
    )


def _add_column(gr: ModuleType, tab: Tab, model: PageModel) -> Any:
    """Return the component for the results of a model."""
    with gr.Column(min_width=300):
        return gr.HTML(_name_of(tab, model))


def _name_of(tab: Tab, model: PageModel) -> str:
    """Return the heading of a column, if the tab has several."""
    if len(tab.models) == 1:
        return ""
    return f'<div class="bert-name">{drawing.escape(model.name)}</div>'


# --- Requests ----------------------------------------------------------------


def _shower(tab: Tab) -> Callable[..., Any]:
    """Return the function of a request: values of the fields -> results."""

    def show(*values: Any) -> Any:
        results = [
            _name_of(tab, model) + shown_or_error(tab, model, values)
            for model in tab.models
        ]
        # Gradio takes a list of one component as the value of that component.
        return results if len(results) > 1 else results[0]

    return show


def shown_or_error(tab: Tab, model: PageModel, values: Sequence[Any]) -> str:
    """Return what a tab shows of a model: its view, or a line why not.

    Whatever fails, the other models and users get their results: a mistake of
    the user is named on the page; a bug is, with its trace, in the log too.
    """
    try:
        return tab.view(model, *(v if v is not None else "" for v in values))
    except UserError as error:
        return drawing.error(str(error))
    except Exception as error:
        logging.exception("%s of %s failed", tab.title, model.name)
        kind = type(error).__name__
        return drawing.error(f"{kind}, see the log of playground.py")


# --- Server ------------------------------------------------------------------


def start(gr: ModuleType, page: Any, host: str, port: int) -> str:
    """Serve the page in threads; return its address.

    Args:
        gr: Gradio.
        page: of `make_page`.
        host: address to listen at.
        port: of `free_port`.

    Raises:
        UserError: the address cannot be used.
    """
    try:
        _, address, _ = page.launch(
            server_name=host,
            server_port=port,
            share=False,
            inbrowser=False,
            prevent_thread_lock=True,
            quiet=True,
            ssr_mode=False,
            pwa=False,
            mcp_server=False,
            enable_monitoring=False,
            run_history=False,
            footer_links=[],
            max_file_size="1kb",  # there is nothing to upload
            app_kwargs={"middleware": _middleware(host)},
            css_paths=[_STYLE],
            theme=gr.themes.Default(
                primary_hue="blue", font=_FONTS, font_mono=_MONO_FONTS
            ),
        )
    except OSError as error:
        raise UserError(
            f"--host={host} --port={port} cannot be used: {error}"
        ) from error
    return address


def is_local(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _middleware(host: str) -> list[Any]:
    """Return what a page that only this machine reaches refuses.

    A page of the web may give its own name the address 127.0.0.1, and would
    then read what this page shows. Its requests have that name.

    Args:
        host: address that the page listens at.
    """
    from starlette import middleware
    from starlette.middleware import trustedhost

    if not is_local(host):
        return []
    return [
        middleware.Middleware(
            trustedhost.TrustedHostMiddleware,
            allowed_hosts=["localhost", "127.0.0.1", host],
        )
    ]


def free_port(host: str, port: int) -> int:
    """Return a port that nobody listens at: `port`, for 0 any.

    Raises:
        UserError: the port is taken, or the machine has no such address.
    """
    if ":" in host:
        raise UserError(
            f"--host={host} is an address of IPv6, which the page's server "
            "does not take: use 127.0.0.1, or 0.0.0.0 for all of this machine"
        )
    try:
        kind = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(kind, socket.SOCK_STREAM) as found:
            # As servers do: a port whose last user has just ended is free.
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind((host, port))
            return found.getsockname()[1]
    except OSError as error:
        raise UserError(
            f"--host={host} --port={port} cannot be used "
            f"({error.strerror or error}); --port=0 takes a free port"
        ) from error
