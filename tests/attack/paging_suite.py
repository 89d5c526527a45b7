"""The paging suite: what tenants and taken-over workers get by device memory that moves to the host.

Each row has a server of its own, whose device is small. Programs do what the row says, line by line
(paging_program.cu); one of them is honest, and whatever it finds wrong counts as harm. In some rows a
worker was taken over: it keeps memory that it says it has unmapped, or forges its answers
(paging_worker.cc). A row is stopped when no session has seen a word of another's, each honest session
has all its words and goes on, and the server runs. That rows get through without what stops them is
shown by --prove (prove_rows.py). No row is judged by how long something took.
"""
import json
import os
import pathlib
import re
import selectors
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import typing

from suite import NOT_HERE, NOT_STOPPED, STOPPED, Row, program_of

import local_server

MIB = 1 << 20
DEVICE_BYTES = 24 * MIB
OWN_BYTES = 16 * MIB  # Two sessions with so much do not fit on the device.
SECRET, OTHER, THIRD = 0x5ec2e751, 0x5ec2e752, 0x5ec2e753
SEED = 7
# When whatever does not come is given up.
GIVE_UP_S = 240
HOST_MEMORY = "warpline-swap"  # The file of SwapSpace, in /proc.
# A session's turn lasts at least so long (ResidencyOptions::least_turn).
LEAST_TURN_MS = 100
STORMS = 3
# The storms go on until the honest session has been moved so often, or has done so much.
MOVES, PORTION, MOST_PORTIONS = 3, 20, 5000
SETTLE_S = 0.02
# In a flag: the row's folder for files.
IN_FOLDER = "{swap}"


class GotThrough(Exception):
    """An attack has had its effect; the message says which."""


class Unprepared(Exception):
    """A row that says nothing, since what it needs did not come about; the message says what."""


class NotHere(Exception):
    """The device does not have what the row is about."""


class Silence(Exception):
    """A program has ended, or does not answer."""


class Lines:
    """Lines that are written to `descriptors`, and answers that are read from them."""

    def __init__(self, to, out, give_up_s):
        self._to, self._out, self._give_up_s = to, out, give_up_s
        self._read = b""

    def hear(self):
        deadline = time.monotonic() + self._give_up_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._out, selectors.EVENT_READ)
            while b"\n" not in self._read:
                if not selector.select(max(0, deadline - time.monotonic())):
                    raise Silence("no answer within %d s" % self._give_up_s)
                more = os.read(self._out, 4096)
                if not more:
                    raise Silence("it has ended")
                self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line.decode(errors="replace")

    def ask(self, line):
        try:
            os.write(self._to, line.encode() + b"\n")
        except OSError as error:
            raise Silence("it has ended") from error
        return self.hear()


class Program:
    """One paging_program, which has a session once this is made."""

    def __init__(self, command, env, give_up_s):
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=self._errors, bufsize=0)
        self._lines = Lines(self._process.stdin.fileno(), self._process.stdout.fileno(), give_up_s)
        self._give_up_s = give_up_s

    @property
    def pid(self):
        return self._process.pid

    def _said(self):
        self._errors.seek(0)
        return self._errors.read()[-300:].replace("\n", " ")

    def ask(self, line):
        try:
            return self._lines.ask(line)
        except Silence as silence:
            raise Silence("%s at `%s`: %s" % (silence, line, self._said())) from silence

    def numbers(self, line):
        """The numbers in an answer."""
        answer = self.ask(line)
        found = [int(number) for number in re.findall(r"\d+", answer)]
        if not found:
            raise Silence("%s at `%s`: %s" % (answer, line, self._said()))
        return found

    def hear_of_another_word(self, pattern):
        """Words that are this one, words that were looked at, words that are not zero."""
        return self.numbers("search %#x" % pattern)

    def kill(self):
        self._process.kill()
        self._process.wait()

    def end(self):
        try:
            self._process.stdin.close()
            self._process.wait(self._give_up_s)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.kill()

    def close(self):
        self.kill()
        self._process.stdin.close()
        self._process.stdout.close()
        self._errors.close()


class Liar:
    """A program whose session has a worker that obeys (paging_worker.cc)."""

    def __init__(self, stage):
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path = stage.folder / "liar"
        path.unlink(missing_ok=True)
        self._listener.bind(str(path))
        path.chmod(0o777)
        self._listener.listen(1)
        self._listener.settimeout(stage.give_up_s)
        orders = stage.root / "bin/orders"
        orders.write_text("%s\n" % path, encoding="ascii")
        try:
            self.program = stage.start()
            self.program.numbers("take %d" % (2 * MIB))
            self._worker, _ = self._listener.accept()
        except OSError as error:
            raise Unprepared("the worker does not ask for orders: %s" % error) from error
        finally:
            orders.unlink()
        self._lines = Lines(self._worker.fileno(), self._worker.fileno(), stage.give_up_s)

    def ask(self, line):
        """May be answered by Silence, since what a worker says can end it at once."""
        return self._lines.ask(line)

    def order(self, line):
        try:
            return self.ask(line)
        except Silence as silence:
            raise Unprepared("the worker does not obey: %s" % silence) from silence

    def close(self):
        self._worker.close()
        self._listener.close()


class Stage:
    """A server with a small device, and what a row does with it. `root` is the installation."""

    def __init__(self, root, environment, flags, give_up_s):
        self.root, self.give_up_s = root, give_up_s
        self._environment = environment
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="warpline-paging-"))
        self.folder.chmod(0o755)
        (self.folder / "swap").mkdir()
        self._flags = [flag.replace(IN_FOLDER, str(self.folder / "swap")) for flag in flags]
        self._programs, self._liars = [], []
        self.server = None

    def __enter__(self):
        installation = local_server.Installation(self.root)
        self.server = local_server.Server(installation, [
            *self._flags, "--listen=127.0.0.1:0,unix:%s" % (self.folder / "server")])
        try:
            self.server.__enter__()
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        return self

    def __exit__(self, *_):
        for program in self._programs:
            program.close()
        for liar in self._liars:
            liar.close()
        self.server.__exit__(None, None, None)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, apart=False, tier="isolated"):
        """A program with a session. One that is `apart` comes over TCP, and so as another peer than
        those that go on over the server's unix socket."""
        env = self._environment(self.server.endpoint)
        env["WARPLINE_TIER"] = tier
        if apart:
            env["WARPLINE_TRANSFER"] = "0"
        program = Program([str(self.root / "bin/paging_program")], env, self.give_up_s)
        self._programs.append(program)
        return program

    def start_liar(self):
        self._liars.append(Liar(self))
        return self._liars[-1]

    def _operate(self, *arguments):
        return subprocess.run(
            [str(self.root / "bin/warpline"), arguments[0], "--endpoint=" + self.server.endpoint,
             *arguments[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=GIVE_UP_S, check=False)

    def sessions(self):
        listed = self._operate("ps", "--json")
        if listed.returncode != 0:
            raise GotThrough("the operator is not answered: " + listed.stdout[-300:])
        return json.loads(listed.stdout).get("sessions", [])

    def session_of(self, program):
        """What `warpline ps` says of its session."""
        for session in self.sessions():
            if int(session.get("client_pid", 0)) == program.pid:
                return session
        raise Unprepared("the program has no session")

    def page_out(self, program):
        moved = self._operate("page-out", str(self.session_of(program)["id"]))
        if moved.returncode != 0 or "its memory is away" not in moved.stdout:
            raise Unprepared("its memory does not leave: " + moved.stdout[-300:])

    def suspend(self, program):
        """Returns once its memory is in a file."""
        session = str(self.session_of(program)["id"])
        # Others' memory may go to files meanwhile.
        said = "memory is in a file session=%s " % session
        before = self.server.log().count(said)
        suspended = self._operate("suspend", session)
        if suspended.returncode != 0:
            raise Unprepared("it is not suspended: " + suspended.stdout[-300:])
        self.wait_until(lambda: self.server.log().count(said) > before,
                        "its memory is in no file")

    def page_out_all(self):
        """Returns what the operator is told, of sessions that did not leave as well."""
        return self._operate("page-out").stdout

    def wait_until(self, condition, trouble):
        deadline = time.monotonic() + self.give_up_s
        while not condition():
            if time.monotonic() > deadline:
                raise GotThrough(trouble)
            time.sleep(SETTLE_S)

    def await_end(self, program):
        """Waits until the program's session is gone, with its memory."""
        self.wait_until(lambda: all(int(session.get("client_pid", 0)) != program.pid
                                    for session in self.sessions()), "a session does not end")

    def moves_of(self, program):
        """(reason, the turn in ms) for each line of the log about a move of the program's session."""
        number = self.session_of(program)["id"]
        return [(reason, int(after)) for reason, after in re.findall(
            r"moved to the host session=%s .* reason=(\w+) .* after_ms=(-?\d+) .* error=$" % number,
            self.server.log(), re.MULTILINE)]

    def judge(self):
        if not self.server.running():
            raise GotThrough("the server has ended")


def keeps_all(program, pattern, who):
    found, words, _ = program.hear_of_another_word(pattern)
    if found != words:
        raise GotThrough("%s has %d of its %d words" % (who, found, words))


def finds_nothing(program, pattern, who):
    """Of memory that nobody has written to since it was taken. Returns the words."""
    found, words, others = program.hear_of_another_word(pattern)
    if found or others:
        raise GotThrough("%s finds %d words of another's secret, and %d that are not zero, in %d"
                         % (who, found, others, words))
    return words


def has_right(program, seed, who):
    wrong, words = program.numbers("check %d" % seed)
    if wrong:
        raise GotThrough("%d of the %d words of %s are wrong" % (wrong, words, who))
    return words


def residue_in_chunks(stage):
    """Chunks that were moved from hold what a session had there."""
    owner = stage.start()
    owner.numbers("take %d" % OWN_BYTES)
    owner.numbers("fill %#x" % SECRET)
    stage.page_out(owner)
    other = stage.start()
    if other.numbers("take all")[0] < OWN_BYTES:
        raise Unprepared("the memory that left is not to be had")
    looked = finds_nothing(other, SECRET, "the next session")
    other.numbers("fill %#x" % OTHER)
    stage.page_out(other)
    keeps_all(owner, SECRET, "the session that came back")
    stage.page_out(owner)
    keeps_all(other, OTHER, "the next session")
    other.end()
    stage.await_end(other)
    third = stage.start()
    third.numbers("take all")
    looked += finds_nothing(third, OTHER, "a third session")
    third.end()
    stage.await_end(third)
    keeps_all(owner, SECRET, "the session that came back again")
    return "%d words of memory that was moved from, all of them zero" % looked


def readers_of_host_memory(stage):
    """The processes of the server that have its host memory: (how many are the server and its
    pagers, the names of the others, how many could not be looked at)."""
    pagers = {int(pid) for pid in re.findall(r"pager started gpu=\d+ pid=(\d+)", stage.server.log())}
    trusted, others, hidden = 0, [], 0
    for pid in [stage.server.pid, *local_server.descendants(stage.server.pid)]:
        folder = pathlib.Path("/proc/%d" % pid)
        try:
            files = {os.readlink(each) for each in (folder / "fd").iterdir()}
            has = HOST_MEMORY in (folder / "maps").read_text() or any(
                HOST_MEMORY in name for name in files)
        except OSError:
            hidden += 1
            continue
        if has and (pid == stage.server.pid or pid in pagers):
            trusted += 1
        elif has:
            others.append(program_of(pid))
    return trusted, others, hidden


def residue_in_host_memory(stage):
    """Host memory that an ended session had is another's next, whose blocks are zeros in part."""
    owner = stage.start()
    owner.numbers("take %d" % OWN_BYTES)
    owner.numbers("fill %#x" % SECRET)
    stage.page_out(owner)
    owner.kill()
    stage.await_end(owner)
    other = stage.start()
    other.numbers("take %d" % OWN_BYTES)
    other.numbers("sparse %d" % SEED)
    stage.page_out(other)
    trusted, strangers, hidden = readers_of_host_memory(stage)
    if strangers:
        raise GotThrough("host memory is open in " + ", ".join(map(str, strangers)))
    found, words, _ = other.hear_of_another_word(SECRET)
    if found:
        raise GotThrough("%d of %d words are of a session that ended while away" % (found, words))
    has_right(other, SEED, "the next session")
    return ("%d words as they were, none of the ended session's; host memory is open in %d trusted "
            "processes and in no other%s" % (words, trusted, " (%d hidden)" % hidden if hidden else ""))


def worker_that_keeps_its_memory(stage):
    """A worker says that it has unmapped what was moved, and has it still."""
    liar = stage.start_liar()
    liar.program.numbers("take %d" % (OWN_BYTES - 2 * MIB))
    liar.program.numbers("fill %#x" % SECRET)
    if liar.order("keep") != "ok":
        raise Unprepared("the worker does not obey")
    stage.page_out(liar.program)
    other = stage.start()
    if other.numbers("take all")[0] < OWN_BYTES:
        raise Unprepared("the memory that left is not to be had")
    other.numbers("fill %#x" % OTHER)

    def seen(pattern):
        return [int(number) for number in re.findall(r"\d+", liar.order("search %x" % pattern))]

    found, words = seen(OTHER)
    if found:
        raise GotThrough("the worker reads %d words of the next session in what it kept" % found)
    if not seen(SECRET)[0]:
        if PagingSuite.device != "cpu":
            raise NotHere("what a worker keeps is mapped as a file, which a GPU's memory is not")
        raise Unprepared("the worker has kept nothing")
    liar.order("write %x" % THIRD)
    keeps_all(other, OTHER, "the next session")
    other.end()
    stage.await_end(other)
    try:
        told = "has %d of its words back" % liar.program.hear_of_another_word(SECRET)[0]
    except Silence:
        told = "has ended"
    honest = stage.start()
    honest.numbers("take %d" % (2 * MIB))
    finds_nothing(honest, THIRD, "a third session")
    return ("the worker kept %d words, and %d of them are the next session's; its session %s"
            % (words, found, told))


def forged_answers(stage):
    """A worker answers about requests that are not there, others' or done, while memory moves."""
    forgeries = subprocess.run([str(stage.root / "bin/paging_worker"), "--list"], check=True,
                               stdout=subprocess.PIPE, text=True).stdout.split()
    other = stage.start(apart=True)
    other.numbers("take %d" % (8 * MIB))
    other.numbers("sparse %d" % SEED)
    restless = stage.start(apart=True)
    restless.numbers("take %d" % (4 * MIB))
    restless.numbers("sparse %d" % SEED)
    ended = went_on = 0
    for forgery in forgeries:
        for verb in ("say", "forge"):
            liar = stage.start_liar()
            liar.program.numbers("fill %#x" % SECRET)
            try:
                if liar.ask("%s %s" % (verb, forgery)) != "ok":
                    raise Unprepared("the worker does not obey")
                stage.page_out_all()
                liar.program.hear_of_another_word(SECRET)
                went_on += 1
            except Silence:
                ended += 1
            stage.page_out_all()
            stage.judge()
            liar.program.kill()
            stage.await_end(liar.program)
            has_right(other, SEED, "the neighbour after `%s %s`" % (verb, forgery))
            has_right(restless, SEED, "another neighbour after `%s %s`" % (verb, forgery))
    return ("%d forgeries, each while its memory moved and before: %d sessions were ended, %d went on"
            % (len(forgeries), ended, went_on))


def work(program, who):
    try:
        _, wrong = program.numbers("work %d" % PORTION)
    except Silence as silence:
        raise GotThrough("%s does not go on: %s" % (who, silence)) from silence
    if wrong:
        raise GotThrough("%d sums of %s are wrong" % (wrong, who))


def moves_without_end(stage):
    """Sessions that take, touch and give back memory without end make others leave."""
    honest = stage.start(apart=True)
    honest.numbers("take %d" % (14 * MIB))
    honest.numbers("fill 0x1")
    work(honest, "the honest session")
    storms = [stage.start() for _ in range(STORMS)]
    for number, storm in enumerate(storms):
        if storm.ask("storm %d" % number) != "storms":
            raise Unprepared("a storm does not begin")
    portions = 0
    while len(stage.moves_of(honest)) < MOVES and portions < MOST_PORTIONS:
        work(honest, "the honest session")
        portions += 1
    moves = stage.moves_of(honest)
    if not moves:
        raise Unprepared("the honest session was never moved")
    for reason, turn_ms in moves:
        # A session without work may leave at any time.
        if reason == "used_up" and turn_ms < LEAST_TURN_MS:
            raise GotThrough("the honest session was moved after %d ms of its turn" % turn_ms)
    done = [storm.numbers("calm 0") for storm in storms]
    stage.judge()
    work(honest, "the honest session")
    return ("the honest session made %d rounds and was moved %d times or more, after %s ms; the "
            "storms made %d rounds and were refused %d times"
            % (PORTION * (portions + 2), len(moves), ", ".join(str(turn) for _, turn in moves),
               sum(rounds for rounds, _ in done), sum(refused for _, refused in done)))


def memory_that_the_host_cannot_hold(stage):
    """A session takes so much that a former one, once it is away, cannot come back."""
    honest = stage.start(apart=True)
    honest.numbers("take %d" % (14 * MIB))
    honest.numbers("fill 0x1")
    work(honest, "the honest session")
    greedy = stage.start()
    taken = 0
    while greedy.ask("take %d" % (2 * MIB)).startswith("took"):
        greedy.numbers("fill %#x" % SECRET)
        taken += 2
    why = stage.session_of(greedy).get("memory_refusal", "")
    work(honest, "the honest session")
    if "the device's sessions may have" not in why:
        raise GotThrough("the refusal does not say why: " + why)
    keeps_all(greedy, SECRET, "the greedy session")
    work(honest, "the honest session")
    return "refused beyond %d MiB by name; the honest session goes on" % taken


def memory_that_stays(stage):
    """Memory that a session offers to others cannot be moved, and takes the room of one that is away."""
    honest = stage.start(apart=True)
    honest.numbers("take %d" % (14 * MIB))
    honest.numbers("fill 0x1")
    work(honest, "the honest session")
    stage.page_out(honest)
    greedy = stage.start()
    took, = greedy.numbers("take %d" % (28 * MIB))
    if took != 28 * MIB:
        raise Unprepared("it does not get what it is to offer: %d" % took)
    offered, _ = greedy.numbers("offer 0")
    work(honest, "the honest session")
    return "it offers %d pieces, and the honest session goes on" % offered


def swap_files(stage):
    """The files without a name in the server's folder for them, each open for reading and writing."""
    folder = str(stage.folder / "swap")
    return [open("/proc/%d/fd/%s" % (stage.server.pid, each), "r+b", buffering=0)
            for each in os.listdir("/proc/%d/fd" % stage.server.pid)
            if os.readlink("/proc/%d/fd/%s" % (stage.server.pid, each)).startswith(folder)]


def residue_in_files(stage):
    """The file of a suspended session is read, and then changed, by a thief of the disk."""
    owner = stage.start()
    owner.numbers("take %d" % OWN_BYTES)
    owner.numbers("fill %#x" % SECRET)
    looked = 0
    for changed in (False, True):
        stage.suspend(owner)
        files = swap_files(stage)
        if not files:
            raise Unprepared("the session's memory is in no file")
        for file in files:
            with file:
                content = file.read()
                looked += len(content)
                if struct.pack("<I", SECRET) * 2 in content:
                    raise GotThrough("the session's words are in the file")
                if changed:
                    os.pwrite(file.fileno(), bytes([content[4096] ^ 1]), 4096)
        if not changed:
            keeps_all(owner, SECRET, "the session that came back from a file")
    try:
        found, words, _ = owner.hear_of_another_word(SECRET)
    except Silence:
        return "%d bytes of files, none of them plain; a session whose file was changed ends" % looked
    if found == words:
        raise Unprepared("the change was nowhere")
    raise GotThrough("the session goes on with %d wrong words" % (words - found))


class Plan(typing.NamedTuple):
    """A row: what it does, and the server that it needs."""

    act: typing.Callable
    flags: list
    device_bytes: int = DEVICE_BYTES
    hostile: bool = False  # A worker in it is taken over.


ROWS = {
    "residue_in_chunks": Plan(residue_in_chunks, ["--swap_host=64MiB"]),
    "residue_in_host_memory": Plan(residue_in_host_memory, ["--swap_host=64MiB"]),
    "worker_that_keeps_its_memory": Plan(worker_that_keeps_its_memory, ["--swap_host=64MiB"],
                                         hostile=True),
    "forged_answers": Plan(forged_answers, ["--swap_host=256MiB"], 256 * MIB, hostile=True),
    "moves_without_end": Plan(moves_without_end, ["--swap_host=128MiB", "--memory_overcommit=4"]),
    # Less than a session that has the whole device and one that is away.
    "memory_that_the_host_cannot_hold": Plan(memory_that_the_host_cannot_hold,
                                             ["--swap_host=32MiB", "--memory_overcommit=4"]),
    "memory_that_stays": Plan(memory_that_stays, ["--swap_host=128MiB", "--memory_overcommit=4"],
                              40 * MIB),
    "residue_in_files": Plan(residue_in_files, ["--swap_host=64MiB", "--swap_dir=" + IN_FOLDER]),
}


class PagingSuite:
    name = "paging"
    device = "cpu"

    def __init__(self, installation, flags, give_up_s=GIVE_UP_S):
        self._installation, self._flags, self._give_up_s = installation, flags, give_up_s
        self._hostile = None

    def close(self):
        if self._hostile is not None:
            shutil.rmtree(self._hostile, ignore_errors=True)

    def _hostile_root(self):
        """An installation whose workers obey those that find orders."""
        if self._hostile is None:
            self._hostile = pathlib.Path(tempfile.mkdtemp(prefix="warpline-paging-installation-"))
            shutil.copytree(self._installation.root, self._hostile, dirs_exist_ok=True)
            self._hostile.chmod(0o755)
            (self._hostile / "bin/warpline-worker").unlink()
            shutil.copy2(self._hostile / "bin/paging_worker", self._hostile / "bin/warpline-worker")
        return self._hostile

    def _device_of(self, size_bytes):
        """The flag that leaves a server so much of its device."""
        with local_server.Server(self._installation, self._flags) as server:
            have = int(re.search(r"device gpu=0 .* memory_bytes=(\d+)", server.log())[1])
        return "--device_reserve=%d" % (have - size_bytes)

    def play(self, name):
        plan = ROWS[name]
        root = self._hostile_root() if plan.hostile else self._installation.root
        try:
            with Stage(root, self._installation.client_environment,
                       [*self._flags, self._device_of(plan.device_bytes), *plan.flags],
                       self._give_up_s) as stage:
                try:
                    did = plan.act(stage)
                    stage.judge()
                except (GotThrough, Unprepared, Silence) as trouble:
                    if not stage.server.running():
                        raise GotThrough("the server has ended") from trouble
                    raise
            return Row(self.name, name, STOPPED, did)
        except NotHere as reason:
            return Row(self.name, name, NOT_HERE, str(reason))
        except (GotThrough, Silence) as effect:
            return Row(self.name, name, NOT_STOPPED, str(effect))
        except Unprepared as trouble:
            return Row(self.name, name, NOT_STOPPED, "not prepared: %s" % trouble, unprepared=True)

    def rows(self, only=()):
        for name in ROWS:
            if not only or name in only:
                yield self.play(name)
