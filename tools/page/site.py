"""Serve the tabs as a page. The only module that imports Gradio.

Gradio (Apache 2.0) has the components, the queue and the layout for phones. It
is slow to import and optional, so it is imported when the page is made. Nothing
may use the network:

- _ENVIRONMENT is set before the import: no telemetry, no look-up of new
  versions, and no proxy, as Gradio asks its own server whether it runs.
- Fonts are those of the system, and no link leaves the page.
"""

import ipaddress
import itertools
import json
import os
import re
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from base import file_system, packages, text_files
from base.errors import UserError

from absl import logging

from tools.page import limits, markup
from tools.page.models import PageModel
from tools.page.tabs import Tab
from tools.page.views import Shown

_ENVIRONMENT = {
    "GRADIO_ANALYTICS_ENABLED": "False",
    "GRADIO_CHECK_VERSION": "False",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "NO_PROXY": "*",
    "no_proxy": "*",
}

_FOLDER = Path(__file__).parent

# The requests of the page in a browser; run/predict is a click on an example.
_ROUTES = re.compile(
    r"/(config/?|favicon.ico|manifest.json|robots.txt|theme.css"
    r"|(assets|static|svelte)/.*"
    r"|gradio_api/(queue/(join|data)|run/predict|heartbeat/\w+"
    r"|(app_id|cancel|info|login_check|reset|startup-events|token|user)/?"
    r"|theme.css))?"
)
_MAX_REQUEST = 10_000_000  # bytes of a request, for the texts of its fields


def load_gradio() -> ModuleType:
    """Return Gradio, with everything off that would use the network.

    Call it after models are loaded: hf:// names need the network.

    Raises:
        UserError: it is not installed; tells how to install it.
    """
    os.environ.update(_ENVIRONMENT)
    # By default it is a folder of all users, which only the first can write to.
    folder = os.path.join(file_system.private_folder(), "gradio")
    os.environ.setdefault("GRADIO_TEMP_DIR", folder)
    # A model with an hf:// name has imported the hub, with its settings.
    hub = sys.modules.get("huggingface_hub.constants")
    if hub:
        hub.HF_HUB_OFFLINE = hub.HF_HUB_DISABLE_TELEMETRY = True
    return packages.load(
        "gradio", "tools.playground", "Gradio", "requirements-playground.txt"
    )


# --- Layout ------------------------------------------------------------------


def make_page(
    gr: ModuleType, models: Sequence[PageModel], tabs: Sequence[Tab]
) -> Any:
    """Return the page, a gr.Blocks.

    Args:
        gr: Gradio.
        models: all models of the page.
        tabs: the tabs of these models.
    """
    names = ", ".join(model.name for model in models)
    with gr.Blocks(title=f"{names} - BERT playground") as page:
        gr.Markdown(f"# BERT playground\n\n{markup.facts(models)}")
        with gr.Tabs() as chooser:
            fields = [_add_tab(gr, tab) for tab in tabs]

        def restore(request: gr.Request) -> list[Any]:
            return restored(gr, tabs, request.query_params)

        outputs = [chooser, *itertools.chain(*fields)]
        page.load(restore, None, outputs, queue=False).then(js="bert.loaded")
    return page


def restored(
    gr: ModuleType, tabs: Sequence[Tab], query: Mapping[str, str]
) -> list[Any]:
    """Return the tab that an address names, and updates of all fields.

    In the address, the values of that tab are named 0, 1, ... (page.js).
    """
    chosen = next((t for t in tabs if t.title == query.get("tab")), tabs[0])
    return [
        gr.Tabs(selected=chosen.title),
        *(
            gr.update(value=query[str(place)])
            if tab is chosen and str(place) in query
            else gr.skip()
            for tab in tabs
            for place in range(len(tab.boxes) + len(tab.lists))
        ),
    ]


def _add_tab(gr: ModuleType, tab: Tab) -> list[Any]:
    """Add a tab: at the left what it reads, at the right what it shows.

    Returns:
        Its fields.
    """
    with gr.Tab(tab.title, id=tab.title) as opened:
        gr.Markdown(tab.about)
        columns = gr.Row(elem_classes="sides")
    with columns:
        with gr.Column(scale=2, min_width=320):
            texts = [
                gr.Textbox(text, label=label, lines=3, max_lines=14)
                for label, text in zip(tab.boxes, tab.examples[0], strict=True)
            ]
            with gr.Row(visible=bool(tab.lists)):
                lists = [
                    gr.Dropdown(values, label=label, min_width=100)
                    for label, values in tab.lists.items()
                ]
            with gr.Row(equal_height=True):
                run = gr.Button(
                    "Run", variant="primary", min_width=100, elem_classes="run"
                )
                cancel = gr.Button(
                    "Cancel",
                    size="sm",
                    scale=0,
                    min_width=80,
                    elem_classes="cancel",
                )
        results = gr.Column(scale=3, min_width=320, elem_classes="results")
        with results, gr.Row():
            outputs = list(
                itertools.chain(*(_add_results(gr, tab, m) for m in tab.models))
            )
        with gr.Column(scale=2, min_width=320):
            labels = [" / ".join(filter(None, e))[:80] for e in tab.examples]
            examples = gr.Examples(tab.examples, texts, example_labels=labels)

    def show(request: gr.Request, *values: str) -> list[Any]:
        limits.start(request.session_hash)
        shown = [shown_or_error(tab, model, values) for model in tab.models]
        return [update for found in shown for update in _updates(gr, found)]

    def stop(request: gr.Request) -> None:
        limits.cancel(request.session_hash)

    shows = gr.on(
        [
            run.click,
            *(text.submit for text in texts),
            *(chooser.input for chooser in lists),
        ],
        show,
        texts + lists,
        outputs,
        js=f"(...values) => bert.address({json.dumps(tab.title)}, values)",
        # All tabs wait for one another: a model uses all cores, so two requests
        # at once would take as long as one after the other, and more memory.
        concurrency_id="model",
        concurrency_limit=1,
        trigger_mode="always_last",
    )
    cancel.click(stop, cancels=[shows], queue=False)
    opened.select(js="bert.opened")
    examples.load_input_event.then(js="bert.run")
    return texts + lists


def _add_results(gr: ModuleType, tab: Tab, model: PageModel) -> list[Any]:
    """Add what shows a model's results; return it as `_updates` has it."""
    with gr.Column(min_width=300):
        if len(tab.models) > 1:
            gr.Markdown(f"`{model.name}`")
        return [
            gr.HTML(container=True, min_height=120, js_on_load=None),
            gr.Plot(visible=False, show_label=False),
        ]


def _updates(gr: ModuleType, found: Shown) -> list[Any]:
    """Return what a result changes in the components of `_add_results`."""
    plot = found.figure and gr.components.plot.PlotData(
        type="plotly", plot=json.dumps(found.figure)
    )
    parts = [markup.result(found), plot]
    return [gr.update(value=part, visible=bool(part)) for part in parts]


def shown_or_error(tab: Tab, model: PageModel, values: Sequence[str]) -> Shown:
    """Return what a tab shows of a model.

    Whatever fails, the other models and users get their results: a mistake of
    the user is a sentence on the page; a bug is, with its trace, in the log
    too.
    """
    try:
        return tab.view(model, *values)
    except UserError as problem:
        # Hints for the command line are in brackets.
        return Shown(notes=[re.sub(r" \([^()]*--[^()]*\)", "", str(problem))])
    except Exception as problem:
        logging.exception("%s of %s failed", tab.title, model.name)
        kind = type(problem).__name__
        return Shown(notes=[f"{kind}, see the log of tools.playground"])


# --- Server ------------------------------------------------------------------


def start(gr: ModuleType, page: Any, host: str, port: int) -> str:
    """Serve the page in threads; return its address.

    Args:
        gr: Gradio.
        page: what `make_page` returns.
        host: address to listen at.
        port: a port that is free.
    """
    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    middleware = [Middleware(BaseHTTPMiddleware, dispatch=_page_alone)]
    if is_local(host):
        # A page of the web may give its own name the address 127.0.0.1. It
        # would then read what a page shows that only this machine reaches, but
        # its requests have that name.
        own = ["localhost", "127.0.0.1", host]
        middleware.append(Middleware(TrustedHostMiddleware, allowed_hosts=own))
    _, address, _ = page.launch(
        server_name=host,
        server_port=port,
        share=False,
        ssr_mode=False,
        run_history=False,
        prevent_thread_lock=True,
        quiet=True,
        footer_links=[],
        app_kwargs={"middleware": middleware},
        css_paths=_FOLDER / "page.css",
        head=f"<script>{(_FOLDER / 'page.js').read_text()}</script>",
        favicon_path=_FOLDER / "icon.svg",
        theme=gr.themes.Default(
            primary_hue="blue",
            font=("system-ui", "sans-serif"),
            font_mono=("ui-monospace", "monospace"),
        ).set(button_primary_background_fill="*primary_700"),
    )
    return address


def is_local(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _page_alone(request: Any, call_next: Any) -> Any:
    """Refuse the requests that the page itself does not make.

    Gradio has routes that store files, serve files and fetch addresses. It also
    fetches the address in a value that looks like the data of a file; the
    values of the page are texts and numbers.
    """
    from starlette.responses import PlainTextResponse

    is_allowed = _ROUTES.fullmatch(request.scope["path"])
    if is_allowed and request.method == "POST":
        size = int(request.headers.get("content-length", _MAX_REQUEST + 1))
        try:
            body = await request.body() if size <= _MAX_REQUEST else b"too long"
            found = text_files.json_object("request", body or b"{}").get("data")
            is_allowed = not any(
                isinstance(v, dict | list) for v in found or ()
            )
        except UserError:
            is_allowed = False
    if is_allowed:
        return await call_next(request)
    return PlainTextResponse("not part of the page", 403)


def free_port(host: str, port: int) -> int:
    """Return a port that nobody listens at: `port`, for 0 any.

    Raises:
        UserError: the port is taken, or the machine has no such address.
    """
    try:
        with socket.create_server((host, port)) as found:
            return found.getsockname()[1]
    except OSError as error:
        raise UserError(
            f"--host={host} --port={port} cannot be used "
            f"({error.strerror}): --port=0 takes a free port, --host=0.0.0.0 "
            "all addresses of this machine"
        ) from error
