"""Which machines count as failed, and the line that names them."""

import json

import pytest
import tensorflow as tf

from training import agreement, cluster_watch

WORKERS = ["a:1", "b:2", "c:3"]

REFUSED = tf.errors.UnavailableError(
    None,
    None,
    "failed to connect to all addresses; last error: UNKNOWN: ipv4:b:2: "
    "Failed to connect to remote host: Connection refused\nAdditional GRPC "
    "error information from remote target /job:worker/replica:0/task:1",
)
LATE = tf.errors.DeadlineExceededError(None, None, "Deadline Exceeded")
OTHER = tf.errors.FailedPreconditionError(None, None, "another incarnation")


class Clock:
    def __init__(self):
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Answers:
    """Stands in for TensorFlow: what each machine answers to a check."""

    def __init__(self):
        self.errors = {}

    def check_collective_ops_peer_health(self, task, timeout_in_ms):
        assert timeout_in_ms > 0
        if error := self.errors.get(task[-1]):
            raise error


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(cluster_watch, "time", clock)
    return clock


@pytest.fixture
def answers(monkeypatch) -> Answers:
    answers = Answers()
    monkeypatch.setattr(cluster_watch.context, "context", lambda: answers)
    return answers


@pytest.fixture
def watch(monkeypatch, clock, answers) -> cluster_watch.Watch:
    """The watch of worker 0, after both others have answered."""
    config = {"worker": WORKERS}
    task = {"type": "worker", "index": 0}
    monkeypatch.setenv(
        "TF_CONFIG", json.dumps({"cluster": config, "task": task})
    )
    watch = cluster_watch.Watch(
        agreement.Machines(tf.distribute.get_strategy())
    )
    check(watch)
    watch.wait_for_all()
    return watch


def check(watch: cluster_watch.Watch) -> None:
    for peer in watch.peers:
        peer.check()


@pytest.mark.parametrize(
    ("error", "seconds", "words"),
    [
        (REFUSED, 3, "worker 1 (b:2) has ended (Connection refused)"),
        (LATE, 30, "worker 1 (b:2) has stopped answering"),
        (OTHER, 3, "worker 1 (b:2) was started again while this process"),
    ],
)
def test_a_failure_counts_when_it_lasts(
    watch, clock, answers, error, seconds, words
):
    assert watch.failure() is None
    answers.errors["1"] = error
    check(watch)
    clock.now += seconds - 0.1
    check(watch)
    assert watch.failure() is None
    clock.now += 0.2
    assert watch.failure().startswith(words)
    assert "c:3" not in watch.failure() and "\n" not in watch.failure()


def test_one_answer_in_between_begins_anew(watch, clock, answers):
    for _ in range(5):
        answers.errors["1"] = LATE
        check(watch)
        clock.now += 29
        answers.errors.clear()
        check(watch)
        assert watch.failure() is None


def test_a_machine_that_hangs_and_is_then_killed(watch, clock, answers):
    answers.errors["1"] = LATE
    check(watch)
    clock.now += 10
    answers.errors["1"] = REFUSED
    check(watch)
    assert "worker 1 (b:2) has ended" in watch.failure()


def test_the_line_tells_step_and_checkpoint(watch, clock, answers, tmp_path):
    watch.machines.done, watch.machines.output_dir = 37, str(tmp_path)
    answers.errors = {"1": REFUSED, "2": REFUSED}
    check(watch)
    clock.now += 4
    line = watch.failure()
    assert "worker 1 (b:2) has ended (Connection refused), worker 2" in line
    assert " after step 37; no step is saved" in line
    (tmp_path / "model.ckpt-30.index").touch()
    (tmp_path / "checkpoint").write_text(
        'model_checkpoint_path: "model.ckpt-30"\n'
    )
    assert " after step 37; step 30 is saved" in watch.failure()
    assert "again with the same command" in watch.failure()


def test_errors_of_this_machine_are_not_explained(watch, clock, answers):
    answers.errors["1"] = REFUSED
    check(watch)
    clock.now += 4
    assert watch.explain(ValueError("Collective ops is aborted")) is None
    own = tf.errors.InvalidArgumentError(None, None, "input_ids holds 99")
    assert watch.explain(own) is None


def test_an_error_comes_before_the_check_that_explains_it(
    watch, clock, answers, monkeypatch
):
    """The failed sum is seen at once, the machine a second later."""
    error = tf.errors.UnavailableError(
        None, None, "Collective ops is aborted by: Socket closed"
    )
    answers.errors["1"] = REFUSED
    sleep = clock.sleep

    def sleep_and_check(seconds):
        sleep(seconds)
        check(watch)

    monkeypatch.setattr(clock, "sleep", sleep_and_check)
    assert watch.explain(error).startswith("worker 1 (b:2) has ended")
    # An error that no machine's failure explains stays what it is.
    answers.errors.clear()
    check(watch)
    assert watch.explain(error) is None


def test_machines_that_do_not_come_up_are_named(watch, clock, monkeypatch):
    lines = []
    monkeypatch.setattr(
        cluster_watch.logs, "say", lambda *words: lines.append(words)
    )
    watch.peers[1].has_answered = False
    with pytest.raises(cluster_watch.UserError) as error:
        watch.wait_for_all()
    assert str(error.value).startswith(
        "worker 2 (c:3) did not come up within 10 minutes"
    )
    assert 55 <= len(lines) <= 60  # one in 10 seconds
    assert lines[0][1] == "worker 2 (c:3)"
