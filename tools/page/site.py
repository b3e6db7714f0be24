"""Serve the tabs as a page. The only module that imports Gradio.

Gradio (Apache 2.0) has the components, the queue and the layout for phones. It
is slow to import and optional, so it is imported when the page is made. Nothing
may use the network:

- GRADIO_ANALYTICS_ENABLED and the variables below are set before the import:
  no telemetry and no look-up of new versions.
- Fonts are those of the system, and no link leaves the page.
- No proxy is used: Gradio asks its own server whether it runs.
"""

import ipaddress
import itertools
import json
import os
import re
import socket
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from base import file_system, packages, text_files
from base.errors import UserError

from absl import logging

from tools.page.models import PageModel
from tools.page.results import (
    Bars,
    Drawing,
    Error,
    Note,
    Number,
    Plot,
    Result,
    Table,
    Text,
    share,
)
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

_STYLE = Path(__file__).with_name("style.css")

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

# Of the kinds of a text, in their order.
_COLORS = ("blue", "orange", "green", "purple", "red", "yellow", "teal")


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
    title = ", ".join(model.name for model in models)
    with gr.Blocks(title=title, analytics_enabled=False) as page:
        # Nothing in a name between ` is Markdown.
        names = [f"`{model.name}`: {model.summary()}" for model in models]
        gr.Markdown("\n\n".join(names))
        with gr.Tabs():
            for tab in tabs:
                with gr.Tab(tab.title):
                    _add_tab(gr, tab)
    return page


def _add_tab(gr: ModuleType, tab: Tab) -> None:
    """Add fields, examples, a button and the columns of results."""
    texts = [
        gr.Textbox(f.value, label=f.label, lines=f.lines, max_lines=14)
        for f in tab.fields
        if not f.choices
    ]
    examples = texts[: len(tab.examples[0])]
    gr.Examples(tab.examples, examples, label="Examples, to click")
    with gr.Row(visible=any(f.choices for f in tab.fields)):
        choosers = [
            gr.Dropdown(list(f.choices), value=f.value, label=f.label)
            for f in tab.fields
            if f.choices
        ]
    button = gr.Button("Run", variant="primary")
    # A new choice shows its result without a click.
    changes = [chooser.change for chooser in choosers]

    @gr.render(
        [*texts, *choosers],
        [button.click, *(text.submit for text in texts), *changes],
        concurrency_id=_QUEUE,
        concurrency_limit=1,
        show_progress="minimal",
    )
    def show(*values: Any) -> None:
        columns = [shown_or_error(tab, model, values) for model in tab.models]
        with gr.Row():
            for model, results in zip(tab.models, columns, strict=True):
                with gr.Column(min_width=300):
                    if len(tab.models) > 1:
                        gr.Markdown(f"### `{model.name}`")
                    for result in results:
                        draw(gr, result)


def shown_or_error(
    tab: Tab, model: PageModel, values: Sequence[Any]
) -> list[Result]:
    """Return what a tab shows of a model: its view, or a line why not.

    Whatever fails, the other models and users get their results: a mistake of
    the user is named on the page; a bug is, with its trace, in the log too.
    """
    try:
        return tab.view(model, *(v if v is not None else "" for v in values))
    except UserError as error:
        return [Error(str(error))]
    except Exception as error:
        logging.exception("%s of %s failed", tab.title, model.name)
        kind = type(error).__name__
        return [Error(f"{kind}, see the log of playground.py")]


def draw(gr: ModuleType, result: Result) -> None:
    """Add the component of Gradio that shows a result."""
    match result:
        case Note(text):
            gr.Markdown(text)
        case Error(text):
            line = visible(" ".join(text.split()))
            gr.Textbox(line, label="No result", elem_classes="bert-error")
        case Bars(label, shares):
            # Its own numbers are whole percents.
            named = {f"{visible(n)} {share(s)}": s for n, s in shares.items()}
            gr.Label(
                named, label=label, show_heading=False, elem_classes="bert-bars"
            )
        case Number(label, value):
            gr.Label(f"{value:.4g}", label=label)
        case Text(label, parts, kinds, is_legend):
            gr.HighlightedText(
                [(visible(text), kind) for text, kind in parts if text],
                label=label,
                color_map=dict(zip(kinds, itertools.cycle(_COLORS))),
                show_legend=is_legend,
                show_inline_category=not is_legend,
                elem_classes="bert-text",
            )
        case Table(headers, rows, wide):
            narrow = 80 // len(headers)  # percent; the wide one has the rest
            widths = [f"{narrow}%"] * len(headers)
            widths[wide] = f"{100 - narrow * (len(headers) - 1)}%"
            gr.Dataframe(
                [[visible(cell) for cell in row] for row in rows],
                headers=[*map(visible, headers)],
                datatype="str",
                column_widths=widths,
                wrap=True,
                buttons=[],
            )
        case Plot(figure):
            data = gr.components.plot.PlotData(
                type="plotly", plot=json.dumps(figure)
            )
            gr.Plot(data, show_label=False, elem_classes="bert-plot")
        case Drawing(svg):
            gr.HTML(svg, elem_classes="bert-lines")


def visible(text: str) -> str:
    """Return a text with signs in place of control characters.

    U+0007 is shown as the sign U+2407; a character that has no sign, such as
    one that reverses the direction of writing, as its code: <U+202E>.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible_char, text))


def _visible_char(char: str) -> str:
    code = ord(char)
    if char in "\n\t":
        return char
    if code < 32:
        return chr(0x2400 + code)
    if unicodedata.category(char) in ("Cc", "Cf", "Cs"):
        return f"<U+{code:04X}>"
    return char


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
