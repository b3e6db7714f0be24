"""Sources: how often documents are used, and the same bytes from any worker."""

import collections
from pathlib import Path

from base import beam
from base.errors import UserError

import generator_runs
import pytest
from corpora import manual, write

from pretraining.data import documents, sources, words
from pretraining.data.sources import Mix
from tokenization import TokenizerSettings

BEAM = {"runner": "beam", "beam_options": "--runner=FnApiRunner"}


@pytest.fixture
def mix(tmp_path) -> Path:
    """Two sources, one with nine times the documents of the other."""
    pages = manual(60)
    write(tmp_path / "en-1.txt", pages[:30])
    write(tmp_path / "en-2.txt", pages[30:54])
    write(tmp_path / "ar.txt", pages[54:])
    return write_mix(
        tmp_path / "mix.toml", "smoothing = 0.5", en="en-*", ar="ar"
    )


def write_mix(path: Path, *lines: str, **files: str) -> Path:
    lines = [*lines]
    for name, pattern in files.items():
        lines += [f"[sources.{name}]", f'files = "{path.parent}/{pattern}.txt"']
    path.write_text("\n".join(lines))
    return path


def uses_of(path: Path) -> dict[str, float]:
    return sources.read(None, str(path))[1].uses


def test_smoothing_and_weights_by_hand(tmp_path):
    """Shares 0.9 and 0.1; 0.7 makes 0.9^0.7 and 0.1^0.7, normed."""
    (tmp_path / "en.txt").write_text("a" * 899 + "\n")
    (tmp_path / "ar.txt").write_text("a" * 99 + "\n")
    path, files = tmp_path / "mix.toml", {"en": "en", "ar": "ar"}
    # 0.9289 / 1.1284 / 0.9 and 0.1995 / 1.1284 / 0.1.
    found = uses_of(write_mix(path, "smoothing = 0.7", **files))
    assert found == pytest.approx({"en": 0.9147, "ar": 1.7682}, abs=1e-4)
    # Equal shares: 0.5 / 0.9 and 0.5 / 0.1; then the weight of the last.
    write_mix(path, "smoothing = 0", **files)
    with path.open("a") as file:
        file.write("\nweight = 2")
    wanted = {"en": 0.5 / 0.9, "ar": 2 * 0.5 / 0.1}
    assert uses_of(path) == pytest.approx(wanted)
    assert uses_of(write_mix(path, **files)) == {"en": 1.0, "ar": 1.0}


def test_a_fraction_is_a_share_of_the_documents():
    """2.3 uses: two of each, three of 30%; another seed, other documents."""
    found = [
        [Mix({"a": "x"}, {"x": 2.3}, seed).uses_of("a", n) for n in range(9999)]
        for seed in (1, 2)
    ]
    for uses in found:
        counts = collections.Counter(uses)
        assert counts.keys() == {2, 3}
        assert counts[3] / 9999 == pytest.approx(0.3, abs=0.015)
    assert found[0] != found[1]
    assert Mix({}, {}, 1).uses_of("a", 5) == 1


@pytest.mark.nightly
def test_bytes_do_not_depend_on_who_makes_them(mix, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "pretraining.data.documents.CHUNK_BYTES", 1000
    )  # several chunks
    made = []
    for number, how in enumerate([{}, {"num_workers": 2}, BEAM]):
        folder = tmp_path / f"out{number}"
        folder.mkdir()
        flags = {"sources": mix, "num_workers": 1} | how
        if how == BEAM:
            flags["num_workers"] = None
        assert generator_runs.run(None, folder / "data@2", **flags) == 0
        made.append(generator_runs.bytes_of(folder))
    assert made[0] == made[1] == made[2]


def test_a_weight_of_two_is_the_text_and_its_copy(mix, tmp_path, caplog):
    (tmp_path / "copy.txt").write_bytes((tmp_path / "en-1.txt").read_bytes())
    files = f"{tmp_path}/en-1.txt,{tmp_path}/copy.txt"
    generator_runs.run(files, tmp_path / "copied")
    path = write_mix(tmp_path / "two.toml", en="en-1")
    with path.open("a") as file:
        file.write("\nweight = 2")
    with caplog.at_level("INFO"):
        generator_runs.run(None, tmp_path / "twice", sources=path)
    wanted = (tmp_path / "copied").read_bytes()
    assert (tmp_path / "twice").read_bytes() == wanted
    assert "source en: 30 documents, used 60 times (2.00 each)" in caplog.text


def test_words_count_as_often_as_documents_are_used(mix, tmp_path):
    states, own = sources.read(None, str(mix))
    wanted, size = collections.Counter(), 1 << 30
    for path in own.names:
        for part in documents.read_parts(documents.Range(path), size, size):
            uses = own.uses_of(path, part.document)
            for word in part.text.decode().lower().split():
                wanted[word] += uses
    total = 0
    for workers in (1, 2):
        found = words.count_words(
            states,
            own,
            TokenizerSettings.of(True),
            str(tmp_path / "vocab.txt"),
            beam.Flags(workers),
        )
        total = total or found
        assert found == total
    # Words that punctuation does not touch.
    plain = {word for word in wanted if word.isalpha() and wanted[word]}
    assert len(plain) > 20
    assert sum(found[word] >= wanted[word] for word in plain) == len(plain)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("smoothing =", "mix.toml: not valid TOML"),
        ("smoothing = 0.7", "no source; wanted [sources.en]"),
        ("[sources]\na = 3", "sources.a.files is missing"),
        ("[sources.a]\nfiles = 'x*'", "mix.toml, a: no file matches 'x*'"),
        ("[sources.a]\nfiles = '{0}'\nwieght = 2", "sources.a.wieght is unk"),
        ("[sources.a]\nfiles = '{0}'\nweight = -1", "weight = -1.*: wanted a"),
        ("smoothing = 'x'\n[sources.a]\nfiles = '{0}'", "smoothing = 'x'"),
        ("smoothing = 70\n[sources.a]\nfiles = '{0}'", "smoothing = 70"),
        (
            "[sources.a]\nfiles = '{0}'\n[sources.b]\nfiles = '{0}'",
            "belongs to two sources, a and b",
        ),
        ("[sources.a]\nfiles = '{1}'", "the files of source a are empty"),
    ],
)
def test_mistakes(text, problem, tmp_path):
    one, empty = tmp_path / "one.txt", tmp_path / "empty.txt"
    one.write_text("a b\n")
    empty.write_text("")
    path = tmp_path / "mix.toml"
    path.write_text(text.replace("{0}", str(one)).replace("{1}", str(empty)))
    error = generator_runs.error_of(None, tmp_path / "out", sources=path)
    assert problem.split(".*")[0] in error
    assert "give --input_file or --sources" in generator_runs.error_of(
        str(one), tmp_path / "out", sources=path
    )


@pytest.mark.parametrize("begin", [b'{"text": "A b."}', b"PAR1\x15\x04"])
def test_syntax_of_other_formats_is_no_text(begin, tmp_path):
    (tmp_path / "a.txt").write_text("A sentence.\n")
    (tmp_path / "b").write_bytes(begin)
    with pytest.raises(UserError, match="b is not text but JSON or parquet"):
        sources.read(f"{tmp_path}/a.txt,{tmp_path}/b", None)
