"""Files that appear only complete, links, pipes, globs, locks, checksums."""

import concurrent.futures
import os
import subprocess
import time
from collections.abc import Callable

from base import file_system
from base.errors import UserError

import pytest


def test_atomic_file_leaves_all_or_nothing(tmp_path):
    path = tmp_path / "x"
    with (
        pytest.raises(RuntimeError),
        file_system.atomic_file(str(path)) as file,
    ):
        file.write(b"half")
        assert not path.exists()
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with file_system.atomic_file(str(path)) as file:
        file.write(b"whole")
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_atomic_file_replaces_neither_links_nor_pipes(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for text in (b"one", b"two"):  # the link is broken at first
        with file_system.atomic_file(str(tmp_path / "link")) as file:
            file.write(text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "file").read_bytes() == text
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with file_system.atomic_file(str(tmp_path / "pipe")) as file:
        file.write(b"through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()
    assert len(list(tmp_path.iterdir())) == 3


def test_find_files_keeps_the_order_of_patterns(tmp_path, caplog):
    for name in ("b.txt", "a.txt", "c.text"):
        (tmp_path / name).write_text("x", "utf-8")
    patterns = f"{tmp_path}/*.text, {tmp_path}/a.txt,{tmp_path}/*.txt"
    found = [
        os.path.basename(path) for path in file_system.find_files(patterns)
    ]
    assert found == ["c.text", "a.txt", "b.txt"]
    assert "a.txt matches twice" in caplog.text
    with pytest.raises(UserError, match="--eval: no file matches 'x\\*'"):
        file_system.find_files("x*", "eval")
    with pytest.raises(UserError, match="is a directory; use"):
        file_system.find_files(str(tmp_path))
    with pytest.raises(UserError, match="--input_file is empty"):
        file_system.find_files(",")


def test_find_files_knows_a_file_by_any_spelling(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a[1].txt").write_text("x")  # no file matches it as a pattern
    (tmp_path / "b.txt").write_text("x")
    (tmp_path / "link.txt").symlink_to(tmp_path / "b.txt")
    patterns = f"b.txt,./b.txt,{tmp_path}/b.txt,link.txt,a[1].txt"
    assert file_system.find_files(patterns) == ["b.txt", "a[1].txt"]


def test_find_files_refuses_names_that_are_not_utf_8(tmp_path):
    """JSON and TensorFlow cannot write them, at the end of the work."""
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).touch()
    with pytest.raises(UserError, match=r"caf\\udce9.txt' is not UTF-8: ren"):
        file_system.find_files(f"{tmp_path}/*")


def test_find_files_names_a_broken_link(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "b.txt").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match="b.txt is a link to .*nowhere, which"):
        file_system.find_files(f"{tmp_path}/*.txt")


def test_remove_leftovers_removes_the_files_of_killed_runs_alone(tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    kept = {
        f".xy.{ended.pid}-4f.tmp",
        "x",
        ".x.tmp",
        f".x.{os.getppid()}-4f.tmp",
    }
    kept.add(f".x.y.{ended.pid}-4f.tmp")  # of a file "x.y"
    for name in (f".x.{ended.pid}-4f.tmp", f".x.{os.getpid()}-4f.tmp", *kept):
        (tmp_path / name).touch()
    file_system.remove_leftovers(str(tmp_path / "x"))
    assert {path.name for path in tmp_path.iterdir()} == kept
    file_system.remove_leftovers(str(tmp_path))
    kept -= {f".xy.{ended.pid}-4f.tmp", f".x.y.{ended.pid}-4f.tmp"}
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_a_process_that_has_ended_is_not_running():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        assert file_system.is_running(process.pid)
        process.stdin.close()
        # Its end is awaited, but it stays listed.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        os.kill(process.pid, 0)
        assert not file_system.is_running(process.pid)


def test_files_below_have_sizes_unless_their_link_is_broken(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(b"123")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    found = sorted(file_system.files_below(str(tmp_path)))
    assert found == [("a/b", 3), ("broken", None)]
    assert list(file_system.files_below(str(tmp_path / "none"))) == []


def test_make_directory_needs_a_directory_it_can_write_to(tmp_path):
    path = tmp_path / "a" / "b"
    for _ in range(2):  # one that exists is as good
        file_system.make_directory(str(path))
    assert list(path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(
        UserError, match="^--model_dir=.*/file is a file, wanted a dir"
    ):
        file_system.make_directory(str(tmp_path / "file"), "model_dir")


def test_what_cannot_be_written_is_found_at_once(tmp_path, monkeypatch):
    """And nothing is made."""
    file_system.check_writable(str(tmp_path / "a" / "b"), "output_dir")
    file_system.check_writable("-", "output_file")
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError, match="^--output_dir=/proc/a/b cannot be wr"):
        file_system.check_writable("/proc/a/b", "output_dir")
    if os.path.exists("/dev/full"):
        monkeypatch.setattr(
            "tempfile.TemporaryFile", lambda dir: open("/dev/full", "wb")
        )
        with pytest.raises(UserError, match=f"in {tmp_path}: No space left"):
            file_system.check_writable(str(tmp_path / "a"), "output_file")


def test_text_is_written_as_utf_8_and_its_checksum_read(tmp_path):
    path = str(tmp_path / "x")
    file_system.write_text(path, "é\n")
    assert (tmp_path / "x").read_bytes() == b"\xc3\xa9\n"
    assert file_system.sha256(path) == (
        "edd3a863872a04239eb29ad4bc12fc892b3d4ae57cc7e786a3697816f8e141c2"
    )
    none, words = str(tmp_path / "none"), "cannot be read: "
    for digest in (file_system.sha256, file_system.content_digest):
        with pytest.raises(UserError, match=f"none: {words}No such file"):
            digest(none)
        with pytest.raises(UserError, match=f"{words}Is a directory"):
            digest(str(tmp_path))


def test_state_of_a_file(tmp_path):
    path = tmp_path / "x"
    assert file_system.file_state(str(path)) is None
    path.write_bytes(b"abc")
    os.utime(path, ns=(5, 7_000_000_001))
    assert file_system.file_state(str(path)) == [3, 7_000_000_001]


def test_absolute_paths(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    assert file_system.absolute_path("a/../b") == f"{tmp_path}/b"
    assert file_system.absolute_path("~/a") == "/home/me/a"
    assert file_system.absolute_path("gs://a/b") == "gs://a/b"


def test_a_folder_is_locked_and_removed_if_empty(tmp_path):
    folder = str(tmp_path / "a" / "b")
    with file_system.locked_folder(folder, "the text"):
        with pytest.raises(UserError, match="another run is writing the text"):
            with file_system.locked_folder(folder, "the text"):
                pass
        assert os.path.isdir(folder)
    assert not os.path.exists(folder)
    with file_system.locked_folder(folder, "the text"):
        open(f"{folder}/x", "w").close()
    assert os.listdir(folder) == ["x"]


def test_a_lock_that_is_waited_for_has_one_owner(tmp_path, monkeypatch):
    """Also if the folder is removed while two others want it."""
    monkeypatch.setattr(file_system, "_LOCK_POLL_SECONDS", 0.001)
    folder, inside, most = str(tmp_path / "a"), [], []
    remove, make = os.rmdir, os.mkdir

    def slowly(function: Callable) -> Callable:
        def call(path: str, *args) -> None:
            time.sleep(0.005)
            function(path, *args)
            time.sleep(0.005)

        return call

    monkeypatch.setattr(os, "rmdir", slowly(remove))
    monkeypatch.setattr(os, "mkdir", slowly(make))

    def own(name: int) -> None:
        for _ in range(10):
            with file_system.locked_folder(folder, "text", 60.0):
                inside.append(name)
                most.append(len(inside))
                time.sleep(0.002)
                inside.remove(name)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        for done in [pool.submit(own, number) for number in range(4)]:
            done.result()
    assert most == [1] * 40
    assert not os.path.exists(folder)
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        file_system.make_directories(str(tmp_path / "file"))


def test_streams_are_not_files(tmp_path):
    assert file_system.is_stream("-")
    assert file_system.is_stream("/dev/null")
    assert not file_system.is_stream(str(tmp_path))
    assert not file_system.is_stream(str(tmp_path / "none"))
    assert not file_system.is_stream("gs://bucket/file")


@pytest.mark.parametrize("folder", ["/data", "data", "gs://bucket/data"])
def test_names_in_the_folder_that_files_share(folder):
    paths = [f"{folder}/{name}" for name in ("a/x", "b/x", "b/c/y")]
    names = file_system.names_in_shared_folder
    assert names(paths) == ["a/x", "b/x", "b/c/y"]
    assert names(paths[1:]) == ["x", "c/y"]
    assert names(paths[:1]) == ["x"] and names([]) == []


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A folder for temporary files that everybody may write to."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_the_private_folder_is_found_again(temporary):
    path = file_system.private_folder()
    assert os.stat(path).st_mode & 0o777 == 0o700
    with open(os.path.join(path, "left"), "w"):
        pass
    assert file_system.private_folder() == path
    assert os.listdir(temporary) == [os.path.basename(path)]
    assert os.listdir(path) == ["left"]


@pytest.mark.parametrize("what", ["link", "file", "open", "other", "nowhere"])
def test_a_private_folder_of_somebody_else_is_refused(
    temporary, monkeypatch, what
):
    path = temporary / f"bert-{os.getuid()}"
    if what == "link":
        (temporary / "theirs").mkdir(mode=0o700)
        path.symlink_to("theirs")
    elif what == "file":
        path.write_text("")
    elif what == "open":
        path.mkdir()
        path.chmod(0o770)
    elif what == "other":  # the folder is made by the real user
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    else:
        monkeypatch.setattr("tempfile.tempdir", str(temporary / "nowhere"))
    with pytest.raises(UserError, match="set TMPDIR to a directory of your ow"):
        file_system.private_folder()
