"""Watch the other machines of a cluster; end in one line when one fails.

A machine that trains with others waits for them in every step, for ever if
one is gone. So each machine asks all others once a second whether they are
there, from threads of its own. Two kinds of failure are told apart:

    ended   nobody listens at the address: the process was killed or ended, or
            it was started again and has no state of this run
    silent  the machine was switched off, cut off or stopped: no answer comes

The sums over machines that are under way are aborted then, which raises an
error where this process waits. `explain` replaces the error by one line that
names the machine. A process that is still there GRACE_SECONDS later, since it
waits for something else, is ended with the same line.

TensorFlow's coordination service, which would do the watching, is turned off:
it waits without a word for a machine that does not come up, names a machine
that is gone by its number alone, and treats a machine that ends first as
failed.
"""

import pathlib
import sys
import threading
import time

from base import cluster, file_system, interrupts, logs, script, startup
from base.errors import UserError

import tensorflow as tf
from absl import logging
from tensorflow.python.distribute import collective_all_reduce_strategy
from tensorflow.python.eager import context

from checkpoints.run_folder import RunFolder
from training import agreement

# How long machines may take to come up, from the start of this one.
START_SECONDS = 600.0

# How long machines that have all come up may take to agree on the cluster.
MEETING_SECONDS = 60.0

# A machine counts as ended when nobody listens for so long, and as silent
# when no answer came for so long. A loaded machine answers late: TensorFlow's
# threads answer, also while Python compiles or saves.
ENDED_SECONDS = 3.0
SILENT_SECONDS = 30.0

# How long this process may take to end itself after a failure. A checkpoint
# that is being written is always finished.
GRACE_SECONDS = 15.0

# How long a process that ends because of another one stays, so that the others
# find out about the first failure before they see this one end.
LINGER_SECONDS = 5.0

_SECONDS_BETWEEN_CHECKS = 1.0
_ANSWER_SECONDS = 10.0  # one question waits so long
_SECONDS_BETWEEN_REPORTS = 10.0
_SECONDS_TO_LEAVE = 0.5


class Peer:
    """Another machine of the cluster, as its last checks found it."""

    def __init__(self, machine: cluster.Machine):
        self.machine = machine
        self.has_answered = False
        self._problem = "has not been asked yet"
        self._since = time.monotonic()  # of the first failed check in a row
        self._allowed = SILENT_SECONDS

    def check(self) -> None:
        """Ask the machine once whether it is there."""
        task = f"/job:{self.machine.type}/replica:0/task:{self.machine.index}"
        asked = time.monotonic()
        try:
            context.context().check_collective_ops_peer_health(
                task, timeout_in_ms=int(_ANSWER_SECONDS * 1000)
            )
        except tf.errors.OpError as error:
            if not self._problem:
                self._since = asked
            self._allowed = ENDED_SECONDS
            if isinstance(error, tf.errors.FailedPreconditionError):
                self._problem = (
                    "was started again while this process was running"
                )
            elif isinstance(error, tf.errors.UnavailableError):
                # Why the connection failed, as far as gRPC tells.
                reason = (
                    error.message.splitlines()[0].rsplit(":", 1)[-1].strip()
                )
                self._problem = f"has ended ({reason or 'no reason'})"
            else:
                self._problem = "has stopped answering"
                self._allowed = SILENT_SECONDS
        else:
            self._problem, self.has_answered = "", True

    def problem(self) -> str | None:
        """Return what is wrong with the machine; None if it answers.

        After its first answer, failed checks count only when they last for
        ENDED_SECONDS or SILENT_SECONDS.
        """
        is_over = time.monotonic() - self._since >= self._allowed
        if not self._problem or (self.has_answered and not is_over):
            return None
        return f"{self.machine} {self._problem}"


class Watch:
    """Watches all other machines of the cluster until `leave`."""

    def __init__(self, machines: agreement.Machines) -> None:
        self.machines = machines
        self.peers = [
            Peer(machine)
            for other, machine in enumerate(cluster.machines())
            if other != machines.number
        ]
        self._has_met = False
        self._has_left = False
        self._lock = threading.Lock()  # its holder writes the last line

    def start(self) -> None:
        """Begin to ask the other machines, a thread for each."""
        for peer in self.peers:
            threading.Thread(
                target=self._watch, args=(peer,), daemon=True
            ).start()

    def wait_for_all(self) -> None:
        """Wait until every machine has answered, at most START_SECONDS."""
        began = reported = time.monotonic()
        while missing := [p for p in self.peers if not p.has_answered]:
            now = time.monotonic()
            names = ", ".join(str(peer.machine) for peer in missing)
            if now - began > START_SECONDS:
                raise UserError(
                    f"{names} did not come up within "
                    f"{START_SECONDS / 60:.0f} minutes; start the same "
                    "command on all machines of TF_CONFIG, and check that "
                    "this one reaches the addresses"
                )
            if now - reported >= _SECONDS_BETWEEN_REPORTS:
                reported = now
                logs.say("Waiting for %s, for %.0f s", names, now - began)
            time.sleep(0.1)
        self._has_met = True

    def failure(self) -> str | None:
        """Return a line that names the failed machines; None without one."""
        problems = [problem for p in self.peers if (problem := p.problem())]
        if not problems or not self._has_met:
            return None
        progress = ""
        if self.machines.output_dir is not None:
            # Looked up in the directory, since only the chief has saved it.
            latest = RunFolder.read(self.machines.output_dir).latest
            saved = f"step {latest.rsplit('-', 1)[-1]}" if latest else "no step"
            progress = f" after step {self.machines.done}; {saved} is saved"
        return (
            f"{', '.join(problems)}{progress}; its own log may have the "
            "reason. Start all machines again with the same command"
        )

    def explain(self, error: Exception) -> str | None:
        """Return a line for an error that another machine's failure caused.

        None for any other error.
        """
        if not isinstance(error, tf.errors.OpError) or not any(
            words in str(error)
            for words in ("Collective ops is aborted", "remote target")
        ):
            return None
        end = time.monotonic() + ENDED_SECONDS + SILENT_SECONDS
        # The error comes within milliseconds, before a check has failed.
        while not (line := self.failure()) and time.monotonic() < end:
            time.sleep(0.1)
        return line

    def end_process(self, line: str) -> None:
        """Write the last line and end this process with status 1."""
        if not self._lock.acquire(blocking=False):
            threading.Event().wait()  # another thread ends the process
        interrupts.end_process(line, LINGER_SECONDS)

    def leave(self) -> None:
        """Wait until all machines are done; then stop watching them."""
        self.machines.gather([0])
        self._has_left = True
        # The answer that another machine waits for may still be on its way.
        time.sleep(_SECONDS_TO_LEAVE)

    def _watch(self, peer: Peer) -> None:
        """Ask one machine again and again; if it fails, end this process."""
        while not self._has_left:
            peer.check()
            if self._has_met and peer.problem():
                break
            time.sleep(_SECONDS_BETWEEN_CHECKS)
        if self._has_left:
            return
        line = self.failure()
        # Wakes this process where it waits for the others.
        abort_sums("another machine has failed")
        time.sleep(GRACE_SECONDS)
        while self.machines.is_saving:
            time.sleep(0.1)
        if line and not self._has_left:
            self.end_process(line)


def abort_sums(reason: str) -> None:
    """Raise an error in all sums over machines, now and from now on."""
    context.context().abort_collective_ops(tf.errors.UNAVAILABLE, reason)


# --- The watch of this process -----------------------------------------------


def create_strategy() -> tf.distribute.Strategy:
    """Connect to all machines of TF_CONFIG; return their strategy.

    From here on the other machines are watched.

    Raises:
        UserError: an address cannot be used, a machine did not come up, or
            the machines have different clusters.
    """
    if warning := cluster.check_own_address():
        logging.warning("%s", warning)
    # TensorFlow's information lines describe each sum over the machines twice.
    tf.get_logger().setLevel("WARNING")
    # TensorFlow's two ways to watch machines have no public switch. A
    # configuration without a type of service is taken as a decision of the
    # user, and starts none.
    context.context().configure_coordination_service(service_type="")
    # The strategy's health check waits for all machines without a word, and
    # looks every 30 s.
    extended = collective_all_reduce_strategy.CollectiveAllReduceExtended
    extended._enable_check_health = False
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    except tf.errors.OpError as error:
        reason = error.message.splitlines()[0]
        raise UserError(
            f"TF_CONFIG: no server could be started: {reason}"
        ) from error
    script.ending = watch = Watch(agreement.machines_of(strategy))
    watch.start()
    watch.wait_for_all()
    _check_same_cluster(watch)
    return strategy


def _check_same_cluster(watch: Watch) -> None:
    """Check that all machines have the same cluster and the same program.

    Other flags are warned of, since files may have other paths.
    """
    names = [str(machine) for machine in cluster.machines()]
    mend = "; TF_CONFIG needs the same cluster, in one order, on all machines"
    described = names, _program(), sorted(sys.argv[1:])
    row = [agreement.checksum(value) for value in described]
    # Machines with different lists may wait for each other for ever.
    timer = threading.Timer(MEETING_SECONDS, abort_sums, ["no agreement"])
    timer.daemon = True
    timer.start()
    try:
        rows = watch.machines.gather(row)
        timer.cancel()
    except tf.errors.OpError as error:
        if watch.explain(error):
            raise  # a machine is gone
        # Clusters of different sizes, or two machines with one number.
        raise UserError(f"the machines do not fit together{mend}") from error
    for name, theirs in zip(names, rows, strict=True):
        if theirs[0] != rows[0][0]:
            raise UserError(f"{name} has another cluster than {names[0]}{mend}")
        if theirs[1] != rows[0][1]:
            raise UserError(
                f"{name} has another version of this project, or of "
                f"TensorFlow, than {names[0]} (here: TensorFlow "
                f"{tf.__version__}); install the same on all machines"
            )
        if theirs[2] != rows[0][2]:
            logging.warning(
                "%s was started with other flags than %s", name, names[0]
            )


def _program() -> dict[str, str]:
    """Return TensorFlow's version and a digest of each file of this project.

    What else lies in its folder, such as a program of the user, is no part.
    """
    root = pathlib.Path(startup.ROOT)
    files = [path for path in root.glob("*.py") if path.stem in sys.modules]
    for package in root.glob("*/__init__.py"):
        files += package.parent.rglob("*.py")
    digests = {
        str(path.relative_to(root)): file_system.sha256(str(path))
        for path in files
    }
    return {"tensorflow": tf.__version__, **digests}
