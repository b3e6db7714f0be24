r"""Open a page in the browser that shows what a model does with your text.

    python playground.py --init_checkpoint=mrpc

serves http://127.0.0.1:7860 until Ctrl-C. The page has tabs for the heads of
the model: masked words or sentence score, next sentence, classes and the words
that decided, questions, entities, choices or similarities; and three for every
model: word pieces, attention, nearest sentences.
Several checkpoints, separated by commas, are compared side by side.

Needs Gradio: pip install -r requirements-playground.txt. Nothing leaves the
machine: the page works without network. No file is written.
"""

import os
import threading
import webbrowser

from base import errors
from base.errors import UserError

from absl import flags, logging

from serving import flags as prediction_flags
from serving.search import build
from serving.search.index import Index
from tools.page import models as page_models
from tools.page import neighbors, site, tabs, views
from tools.page.models import PageModel
from training import flags as training_flags

FLAGS = flags.FLAGS

# Model
training_flags.define_model_flags()
prediction_flags.define_model_options()
flags.DEFINE_string(
    "neighbors_file",
    None,
    "UTF-8 text, a sentence per line, to find nearest sentences in; default: "
    "sentences that are pasted into the page.",
)

flags.DEFINE_string(
    "index",
    None,
    "Folder that search.py has made with one of the models, to search in.",
)

# Server
flags.DEFINE_string(
    "host",
    "127.0.0.1",
    "Address to listen at; 0.0.0.0 lets everybody in the network use the page.",
)
flags.DEFINE_integer(
    "port",
    7860,
    "Port to listen at; 0: a free one.",
    lower_bound=0,
    upper_bound=65535,
)
flags.DEFINE_bool(
    "browser",
    None,
    "Open the page in a browser; default: if there is a display.",
)


def main(_: list[str]) -> int:
    """Serve the page until Ctrl-C; return the exit status."""
    check_flags()
    sentences = None
    if FLAGS.neighbors_file:
        sentences = neighbors.read_sentences(FLAGS.neighbors_file)
    port = site.free_port(FLAGS.host, FLAGS.port)
    models = load_models()
    collections = open_indexes(models)
    if sentences:
        collections = {
            model.name: neighbors.Collection(model, sentences)
            for model in models
        }
    found = tabs.make_tabs(models, collections)
    gradio = site.load_gradio()
    page = site.make_page(gradio, models, found)
    address = site.start(gradio, page, FLAGS.host, port)
    try:
        logging.info("The page: %s (Ctrl-C ends it)", address)
        if wants_browser():
            webbrowser.open(address)
        threading.Event().wait()
    except KeyboardInterrupt:
        logging.info("Ended")
    finally:
        page.close(verbose=False)
    return 0


# --- Steps -------------------------------------------------------------------


def load_models() -> list[PageModel]:
    """Return the models of --init_checkpoint."""
    models = page_models.load_models(
        page_models.split_paths(FLAGS.init_checkpoint),
        FLAGS.task,
        FLAGS.bert_config_file,
        FLAGS.vocab_file,
        FLAGS.do_lower_case,
        prediction_flags.model_options(FLAGS)
        | {"num_answers": views.NUM_ANSWERS, "token_scores": True},
    )
    tasks = {model.settings.task for model in models}
    if len(tasks) == 1:
        prediction_flags.warn_of_ignored(FLAGS, tasks.pop())
    return models


def open_indexes(models: list[PageModel]) -> dict[str, Index]:
    """Return --index by the name of each model that it is of.

    Raises:
        UserError: it is of none of them, or not complete.
    """
    found, problem = {}, None
    for model in models if FLAGS.index else []:
        settings, _ = model.of_vectors()
        wanted = build.fingerprint_of(build.task_for(settings, "document"))
        try:
            found[model.name] = build.open_index(FLAGS.index, "exact", wanted)
        except UserError as error:
            problem = error
    if problem and not found:
        raise problem
    return found


def wants_browser() -> bool:
    """Return --browser; without the flag, whether there is a display."""
    if FLAGS.browser is not None:
        return FLAGS.browser
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def check_flags() -> None:
    """Raise an error for flags that cannot work; warn of an open address."""
    training_flags.require(FLAGS, "init_checkpoint")
    if FLAGS.neighbors_file and FLAGS.index:
        raise UserError(
            f"--neighbors_file={FLAGS.neighbors_file} and --index="
            f"{FLAGS.index} are both searched for neighbors: give one of them"
        )
    if not site.is_local(FLAGS.host):
        logging.warning(
            "--host=%s: everybody who reaches this address can use the page "
            "and read its sentences; there is no password",
            FLAGS.host,
        )


if __name__ == "__main__":
    errors.run(main)
