"""Serve the tabs as a page. The only module that imports Gradio.

Gradio (Apache 2.0) has the components, the queue and the layout for phones. It
is slow to import and optional, so it is imported when the page is made. Nothing
may use the network:

- GRADIO_ANALYTICS_ENABLED and the variables below are set before the import:
  no telemetry and no look-up of new versions.
- Fonts are those of the system, and no link leaves the page.
- No proxy is used: Gradio asks its own server whether it runs.
"""

import functools
import ipaddress
import itertools
import json
import os
import re
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from base import file_system, packages, text_files
from base.errors import UserError

from absl import logging

from tools.page import limits
from tools.page.markup import error, escaped
from tools.page.models import PageModel
from tools.page.tabs import Tab

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

_STYLE, _PROGRAM = map(Path(__file__).with_name, ("style.css", "page.js"))

_ICON = Path(__file__).with_name("icon.svg")

_FONTS = ("system-ui", "sans-serif")
_MONO_FONTS = ("ui-monospace", "monospace")

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
    # Else it is "gradio" beside it, which fails if another user has made it.
    folder = os.path.join(file_system.private_folder(), "gradio")
    os.environ.setdefault("GRADIO_TEMP_DIR", folder)
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
    title = f"{', '.join(model.name for model in models)} - BERT playground"
    with gr.Blocks(title=title, analytics_enabled=False) as page:
        names = "".join(
            f"<p><b>{escaped(model.name)}</b> {escaped(model.summary())}</p>"
            for model in models
        )
        gr.HTML(
            f"<h1>BERT playground</h1>{names}",
            elem_classes="models",
            apply_default_css=False,
        )
        with gr.Tabs() as chooser:
            fields = [_add_tab(gr, tab) for tab in tabs]

        def restore(request: gr.Request) -> list[Any]:
            """Return the tab and the values of the page's address."""
            return restored(gr, tabs, request.query_params)

        outputs = [chooser, *itertools.chain(*fields)]
        page.load(restore, None, outputs, queue=False).then(js="bert.run")
    return page


def restored(
    gr: ModuleType, tabs: Sequence[Tab], query: Mapping[str, str]
) -> list[Any]:
    """Return what the address of a page says: its tab, and all fields.

    An address that was changed, or is of other models, changes nothing.
    """
    try:
        given = json.loads(query.get("values", ""))
    except ValueError:
        given = None
    tab = next((t for t in tabs if t.title == query.get("tab")), None)
    if not (tab and isinstance(given, list) and len(given) == len(tab.fields)):
        given = []
    updates = [gr.Tabs(selected=(tab or tabs[0]).title)]
    for one in tabs:
        for place, field in enumerate(one.fields):
            value = given[place] if one is tab and given else None
            is_valid = isinstance(value, str) and (
                not field.choices or value in field.choices
            )
            updates.append(gr.update(value=value) if is_valid else gr.skip())
    return updates


def _add_tab(gr: ModuleType, tab: Tab) -> list[Any]:
    """Add a tab: at the left what it reads, at the right what it shows.

    Returns:
        Its fields.
    """
    first = dict(zip(tab.fields, tab.examples[0], strict=False))
    html = functools.partial(gr.HTML, apply_default_css=False)
    with gr.Tab(tab.title, id=tab.title) as opened:
        gr.Markdown(tab.about)
        columns = gr.Row()
    with columns:
        with gr.Column(scale=2, min_width=320):
            fields = [
                gr.Textbox(first[f], label=f.label, lines=f.lines, max_lines=14)
                for f in tab.fields
                if not f.choices
            ]
            texts = [*fields]
            with gr.Row(visible=len(texts) < len(tab.fields)):
                fields += [
                    gr.Dropdown(
                        f.choices,
                        value=f.choices[0],
                        label=f.label,
                        min_width=90,
                    )
                    for f in tab.fields
                    if f.choices
                ]
            with gr.Row():
                run = gr.Button(
                    "Run", variant="primary", elem_classes="run", min_width=120
                )
                cancel = gr.Button("Cancel", interactive=False, min_width=120)
            # Screen readers say it when it changes.
            status = html(
                elem_classes="status",
                html_template='<p role="status">${value}</p>',
            )
            examples = gr.Examples(
                tab.examples,
                texts,
                label="Examples",
                example_labels=[
                    " / ".join(filter(None, e))[:80] for e in tab.examples
                ],
            )
        with gr.Column(scale=3, min_width=320, elem_classes="results"):
            outputs = []
            with gr.Row():
                for model in tab.models:
                    with gr.Column(min_width=300):
                        if len(tab.models) > 1:
                            html(f"<h2>{escaped(model.name)}</h2>")
                        if tab.has_figure:
                            outputs += _heads(gr, html, fields[-2:])
                        else:
                            outputs.append(html())

    stops: dict[str, threading.Event] = {}  # of the sessions that wait

    def show(request: gr.Request, *values: str) -> Any:
        stop = stops[request.session_hash] = threading.Event()
        try:
            shown = [shown_or_error(tab, m, values, stop) for m in tab.models]
        finally:
            stops.pop(request.session_hash, None)
        found: list[Any] = []
        for text, figure in shown:
            found.append(text)
            if tab.has_figure:
                plot = figure and gr.components.plot.PlotData(
                    type="plotly", plot=json.dumps(figure)
                )
                found.append(gr.Plot(plot, visible=bool(figure)))
        # Of a single component Gradio takes the value, not a list.
        return found if len(found) > 1 else found[0]

    def stop(request: gr.Request) -> None:
        if request.session_hash in stops:
            stops[request.session_hash].set()

    triggers = [
        run.click,
        *(text.submit for text in texts),
        *(field.input for field in fields[len(texts) :]),
    ]
    state = [status, run, cancel]
    gr.on(triggers, None, None, state, js="bert.started")
    shows = gr.on(
        triggers,
        show,
        fields,
        outputs,
        js=f"(...values) => bert.address({json.dumps(tab.title)}, values)",
        concurrency_id=_QUEUE,
        concurrency_limit=1,
        show_progress="full",
        show_progress_on=status,
    )
    shows.then(None, None, state, js="bert.ended")
    cancel.click(stop, cancels=[shows], queue=False)
    cancel.click(None, None, state, js="bert.cancelled")
    opened.select(js="bert.opened")
    examples.load_input_event.then(js="bert.run")
    return fields


def _heads(gr: ModuleType, html: Any, fields: Sequence[Any]) -> list[Any]:
    """Add the pictures of all heads, and the figure of one; return both.

    A click on a picture chooses its layer and head in two fields.
    """
    pictures = html(
        js_on_load="""element.addEventListener("click", (event) => {
            const head = event.target.closest("[data-head]")?.dataset.head;
            if (head) trigger("click", { head });
        });"""
    )

    def choose(event: gr.EventData) -> list[str]:
        return event.head.split()

    pictures.click(choose, None, fields, queue=False).then(js="bert.run")
    return [pictures, gr.Plot(show_label=False, container=False, visible=False)]


def shown_or_error(
    tab: Tab, model: PageModel, values: Sequence[str], stop: threading.Event
) -> tuple[str, dict[str, Any] | None]:
    """Return what a tab shows of a model: its view, or a line why not.

    Whatever fails, the other models and users get their results: a mistake of
    the user is named on the page; a bug is, with its trace, in the log too.

    Returns:
        HTML, and a figure or None.
    """
    try:
        check(tab, values)
        with limits.limited(stop):
            found = tab.view(model, *values)
    except UserError as problem:
        # Hints for the command line are in brackets.
        found = error(re.sub(r" \([^()]*--[^()]*\)", "", str(problem)))
    except Exception as problem:
        logging.exception("%s of %s failed", tab.title, model.name)
        kind = type(problem).__name__
        found = error(f"{kind}, see the log of playground.py")
    return found if isinstance(found, tuple) else (found, None)


def check(tab: Tab, values: Sequence[str]) -> None:
    """Raise a UserError for texts that are missing, or too long."""
    for field, value in zip(tab.fields, values, strict=True):
        if not (field.is_optional or value.strip()):
            raise UserError(f"write something into “{field.label}”")
    size = sum(map(len, values))
    if size > limits.MAX_CHARS:
        raise UserError(
            f"{size:,} characters are too long for the page, which takes "
            f"{limits.MAX_CHARS:,}: batch_predict.py reads files of any size"
        )


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
            app_kwargs={"middleware": _middleware(host)},
            css_paths=[_STYLE],
            head=f"<script>{_PROGRAM.read_text()}</script>",
            favicon_path=_ICON,
            theme=gr.themes.Default(
                primary_hue="blue", font=_FONTS, font_mono=_MONO_FONTS
            ).set(
                # White on it has a contrast of 6.7.
                button_primary_background_fill="*primary_700",
                button_primary_background_fill_dark="*primary_700",
                button_primary_background_fill_hover="*primary_800",
                button_primary_background_fill_hover_dark="*primary_800",
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


class _PageAlone:
    """Refuses the requests that the page itself does not make.

    Gradio has routes that store files, serve files and fetch addresses; and it
    fetches the address in a value that looks like the data of a file. The
    fields of the page are texts.
    """

    def __init__(self, app: Any):
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from starlette import responses

        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        is_allowed = _ROUTES.fullmatch(scope["path"])
        if is_allowed and scope.get("method") == "POST":
            parts, size, is_last = [], 0, False
            while not is_last and size <= _MAX_REQUEST:
                message = await receive()
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                is_last = not message.get("more_body")
            body = b"".join(parts)
            is_allowed = is_last and _has_texts_alone(body)
            rest, receive = receive, None
            messages = iter([{"type": "http.request", "body": body}])

            async def receive() -> Any:
                return next(messages, None) or await rest()

        answer = self.app
        if not is_allowed:
            answer = responses.PlainTextResponse("not part of the page", 403)
        await answer(scope, receive, send)


def _has_texts_alone(body: bytes) -> bool:
    """Whether the values of a request are texts and numbers."""
    try:
        values = text_files.json_object("request", body or b"{}").get("data")
    except UserError:
        return False
    return not any(isinstance(value, dict | list) for value in values or ())


def _middleware(host: str) -> list[Any]:
    """Return what a page that listens at a host refuses.

    A page of the web may give its own name the address 127.0.0.1, and would
    then read what a page shows that only this machine reaches. Its requests
    have that name.
    """
    from starlette import middleware
    from starlette.middleware import trustedhost

    refused = [middleware.Middleware(_PageAlone)]
    if is_local(host):
        refused.append(
            middleware.Middleware(
                trustedhost.TrustedHostMiddleware,
                allowed_hosts=["localhost", "127.0.0.1", host],
            )
        )
    return refused


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
