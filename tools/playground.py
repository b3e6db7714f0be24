r"""Open a page in the browser that shows what a model does with your text.

    python -m tools.playground --init_checkpoint=mrpc

serves http://127.0.0.1:7860 until Ctrl-C. The page has tabs for the heads of
the model: masked words or sentence score, next sentence, classes and the words
that decided, questions, entities or choices. Three tabs are there for every
model: word pieces, attention, nearest sentences.
Several checkpoints, separated by commas, are compared side by side.

Needs Gradio: pip install -r requirements-playground.txt. Nothing leaves the
machine: the page works without network. No file is written.
"""

import dataclasses
import os
import threading
import webbrowser
from typing import TYPE_CHECKING

from base import logs, script, startup
from base.errors import UserError
from base.flags import define, flag, read

from absl import flags, logging

from serving import flags as prediction_flags
from tasks.embeddings.task import Prompts, with_prompts
from training.flags import ModelFlags

if TYPE_CHECKING:
    from tools.page.models import PageModel

FLAGS = flags.FLAGS

# Model
define(ModelFlags, required=["init_checkpoint"])
prediction_flags.define_model_options()
define(Prompts)


@dataclasses.dataclass(frozen=True)
class Flags:
    """What is searched, and where the page is."""

    index: str | None = flag()
    """Folder that search.py has made with one of the models, to search in;
    default: sentences that are pasted into the page."""

    # Server
    host: str = flag("127.0.0.1")
    """Address to listen at; 0.0.0.0 lets everybody in the network use the
    page."""

    port: int = flag(7860, 0, 65535)
    """Port to listen at; 0: a free one."""

    browser: bool | None = flag()
    """Open the page in a browser; default: if there is a display."""


define(Flags)


def main(_: list[str]) -> None:
    """Serve the page until Ctrl-C."""
    with startup.importing():
        from tools.page import site, tabs
    if not site.is_local(FLAGS.host):
        logging.warning(
            "--host=%s: everybody who reaches this address can use the page "
            "and read its sentences; there is no password",
            FLAGS.host,
        )
    port = site.free_port(FLAGS.host, FLAGS.port)
    models = load_models()
    if FLAGS.index:
        open_index(models)
    gradio = site.load_gradio()  # from here on without the network
    page = site.make_page(gradio, models, tabs.make_tabs(models))
    address = site.start(gradio, page, FLAGS.host, port)
    try:
        logs.say("The page: %s (Ctrl-C ends it)", address)
        if wants_browser():
            webbrowser.open(address)
        threading.Event().wait()
    except KeyboardInterrupt:
        logs.say("Ended")
    finally:
        page.close(verbose=False)


# --- Steps -------------------------------------------------------------------


def load_models() -> "list[PageModel]":
    """Return the models of --init_checkpoint."""
    from checkpoints.checkpoint import open_checkpoint
    from tasks import loading
    from tools.page.models import PageModel

    options = prediction_flags.model_options(FLAGS)
    models = []
    for path in map(str.strip, FLAGS.init_checkpoint.split(",")):
        if not path:
            raise UserError(
                f"--init_checkpoint={FLAGS.init_checkpoint}: an item is empty; "
                "wanted checkpoints, separated by one comma"
            )
        checkpoint = open_checkpoint(
            path, FLAGS.bert_config_file, FLAGS.vocab_file, FLAGS.do_lower_case
        )
        checkpoint = with_prompts(checkpoint, read(Prompts, FLAGS))
        settings = loading.describe(checkpoint, FLAGS.task, options)
        models.append(PageModel(path, settings))
    tasks = {model.settings.task for model in models}
    if len(tasks) == 1:
        prediction_flags.warn_of_ignored(FLAGS, tasks.pop())
    return models


def open_index(models: "list[PageModel]") -> None:
    """Let each model that --index was built with search in it.

    Raises:
        UserError: it was built with none of them, or is not complete.
    """
    from serving.search import build
    from tasks import loading

    problems = []
    for model in models:
        task = build.task_for(model.vector_settings, "document")
        files = loading.fingerprint(task.settings)
        wanted = build.fingerprint_of(task, files)
        try:
            model.searched = build.open_index(
                FLAGS.index, "exact", wanted, model.name
            )
        except UserError as error:
            problems.append(error)
    if len(problems) == len(models):
        raise problems[0]


def wants_browser() -> bool:
    """Return --browser; without the flag, whether there is a display."""
    if FLAGS.browser is not None:
        return FLAGS.browser
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


if __name__ == "__main__":
    script.run(main)
