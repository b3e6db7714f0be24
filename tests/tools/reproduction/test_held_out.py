"""Training text and held-out text: whole files, documents, shares, limits."""

import gzip
import shutil

from base.errors import UserError

import pytest

from tools.reproduction import held_out


def write_files(folder, count, documents=3):
    """Write files of different documents; return their paths."""
    paths = []
    for number in range(count):
        path = folder / f"book{number}.txt"
        path.write_text(
            "\n\n".join(f"Book {number}, {n}.\nEnd." for n in range(documents))
        )
        paths.append(str(path))
    return paths


def prepare(tmp_path, files, share=0.1, chosen=(), max_mb=0.0, name="work"):
    """Divide files; return the text and the documents of both parts."""
    folder = tmp_path / name
    how = held_out.prepare(
        files, list(chosen), share, max_mb, None, str(folder)
    )
    parts = []
    for part in held_out.FOLDERS:
        paths = sorted((folder / "corpus" / part).iterdir())
        parts.append([d for p in paths for d in held_out.documents(str(p))])
    return how, *parts


def test_few_files_are_divided_by_documents(tmp_path):
    files = write_files(tmp_path, 3, documents=20)
    how, train, held = prepare(tmp_path, files)
    every = [d for path in files for d in held_out.documents(path)]
    assert sorted(train + held) == sorted(every)
    assert len(held) == 7 and how.startswith("7 of 60 documents are held")
    # Neither the order of the files nor their number decides.
    other = prepare(tmp_path, files[::-1], name="reversed")
    assert sorted(other[2]) == sorted(held)


def test_many_files_are_held_out_whole(tmp_path):
    files = write_files(tmp_path, 12)
    how, train, held = prepare(tmp_path, files)
    assert len(held) == 3 and len({d[:7] for d in held}) == 1
    assert len(train) == 33
    assert how.startswith("1 of 12 files are held out (book")
    links = list((tmp_path / "work" / "corpus" / "train").iterdir())
    assert all(link.is_symlink() for link in links)
    # The share is met as nearly as files allow.
    assert len(held_out.choose_files(files, 0.25)) == 3
    assert len(held_out.choose_files(files, 0.001)) == 1


def test_the_choice_among_files_of_one_name_is_by_their_folders(tmp_path):
    """As wikiextractor names them; nor does their order decide."""
    for number in range(20):
        (tmp_path / f"{number:02}").mkdir()
        (tmp_path / f"{number:02}" / "wiki_00").write_text("some text\n")
    files = sorted(map(str, tmp_path.glob("*/*")))
    found = held_out.choose_files(files, 0.25)
    assert len(found) == 5 and found != files[:5]
    assert held_out.choose_files(files[::-1], 0.25) == found


def test_files_of_the_user_are_held_out_and_not_trained_on(tmp_path):
    files = write_files(tmp_path, 4)
    _, train, held = prepare(tmp_path, files, chosen=files[1:2])
    assert {d[:6] for d in held} == {b"Book 1"}
    assert {d[:6] for d in train} == {b"Book 0", b"Book 2", b"Book 3"}


def test_only_the_first_megabytes_are_taken(tmp_path):
    files = write_files(tmp_path, 12, documents=10)
    _, train, held = prepare(tmp_path, files, max_mb=0.001)
    total = sum(map(len, train + held))
    assert 1000 <= total < 1030
    # Files of the user are no larger than their share of it.
    own = {"chosen": files[:1], "share": 0.5, "max_mb": 0.0002}
    _, train, held = prepare(tmp_path, files, **own, name="chosen")
    assert 200 <= sum(map(len, train)) < 230
    assert {d[:7] for d in held} == {b"Book 0,"}
    assert 100 <= sum(map(len, held)) < 130


def test_a_second_call_reads_what_the_first_one_did(tmp_path):
    """And fills a folder again that was removed."""
    files = write_files(tmp_path, 3)
    first = prepare(tmp_path, files)
    assert prepare(tmp_path, files) == first
    shutil.rmtree(tmp_path / "work" / "corpus" / "train")
    assert prepare(tmp_path, files) == first
    with pytest.raises(UserError, match="book0.txt of --input_file was "):
        prepare(tmp_path, files[1:])
    with pytest.raises(UserError, match="held_out_share was 0.1, is 0.2"):
        prepare(tmp_path, files, share=0.2)


@pytest.mark.parametrize(
    "content", ["5", "[1]", '{"how": "a"}', '{"how": 1, "source": {}}']
)
def test_a_note_of_another_shape_is_one_line(tmp_path, content):
    files = write_files(tmp_path, 3)
    prepare(tmp_path, files)
    (tmp_path / "work" / "corpus" / "corpus.json").write_text(content)
    with pytest.raises(UserError, match=r"corpus.json is damaged: .* another"):
        prepare(tmp_path, files)


def test_files_that_it_did_not_write_are_not_removed(tmp_path):
    """Those of the user stay; what a failure leaves may go."""
    own = tmp_path / "work" / "corpus" / "train"
    own.mkdir(parents=True)
    files = write_files(own, 3)
    with pytest.raises(UserError, match="corpus holds train, which this scrip"):
        prepare(tmp_path, files)
    assert len(list(own.iterdir())) == 3
    one = write_files(tmp_path, 1, documents=1)
    with pytest.raises(UserError, match="too few documents"):
        prepare(tmp_path, one, name="2")
    (tmp_path / "2" / "corpus" / "train" / "half").write_text("killed")
    assert prepare(tmp_path, files, name="2")[1]


def test_documents_end_at_blank_lines_and_at_the_end_of_a_file(tmp_path):
    path = tmp_path / "a.txt"
    text = "\n\na\nb\n \n\t\nc\n\u00a0\nd\n\u3000 \ne"
    path.write_text(text, encoding="utf-8")
    wanted = [b"a\nb\n", b"c\n", b"d\n", b"e\n"]
    assert list(held_out.documents(str(path))) == wanted


@pytest.mark.parametrize("count", [1, 12])
def test_equal_documents_count_once(count, tmp_path):
    """Held out and trained on, a copy would be known to the model."""
    path = tmp_path / "a.txt"
    path.write_text("Same.\n\n" * count)
    with pytest.raises(UserError, match="too few documents, 1 of the 4 that"):
        prepare(tmp_path, [str(path)])


def test_both_parts_need_two_documents(tmp_path):
    files = write_files(tmp_path, 2)
    (tmp_path / "one.txt").write_text("Only this.")
    with pytest.raises(UserError, match="held-out files have too few .*, 1 of"):
        prepare(tmp_path, files, chosen=[str(tmp_path / "one.txt")])
    with pytest.raises(UserError, match="training files have too few .*, 0 of"):
        prepare(tmp_path, files, chosen=files, name="other")


@pytest.mark.parametrize(
    "data, words",
    [
        (b"a\n\nb\n\nc \xe4\n", "line 5 is not UTF-8: byte 0xe4 at column 3"),
        (gzip.compress(b"a\n\nb\n" * 99, mtime=0), "compressed"),
    ],
)
def test_the_file_of_the_user_is_named(tmp_path, data, words):
    """Not the copy that would be made of it."""
    path = tmp_path / "in.txt"
    path.write_bytes(data)
    with pytest.raises(UserError, match=words) as error:
        prepare(tmp_path, [str(path)])
    assert str(error.value).startswith(f"{path}: line ")


def test_shuffled_documents_have_the_same_sentences(tmp_path):
    files = write_files(tmp_path, 2, documents=20)
    _, train, _ = prepare(tmp_path, files)
    work = str(tmp_path / "work")
    held_out.shuffle(work)
    path = tmp_path / "work" / "corpus" / "shuffled" / "shuffled.txt"
    found = [d.splitlines() for d in held_out.documents(str(path))]
    wanted = [d.splitlines() for d in train]
    assert found != wanted
    assert list(map(len, found)) == list(map(len, wanted))
    assert sorted(sum(found, [])) == sorted(sum(wanted, []))
    before = path.stat().st_mtime_ns
    held_out.shuffle(work)
    assert path.stat().st_mtime_ns == before
