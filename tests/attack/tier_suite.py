"""The tier suite: tenants of the guarded tier attack each other in one process and one context.

A server of its own; ten neighbours (tier/neighbour.cu), whose addresses and handles the attackers know,
and each attack in a session of its own. A row is stopped when the attacker has brought home nothing of
a neighbour's, the neighbour that was attacked has made its checks again and found nothing wrong, and
the process that all share is still the same. The rows are

  - what an unmodified program does: kernels, graphs, stale addresses, calls and forged handles
    (tier/attack.h), and what former sessions left, looked for once a neighbour's has ended;
  - the kernels of tests/guard/escapes.txt;
  - rows of the wire suite, made in sessions of the tier with a neighbour's addresses.
"""
import concurrent.futures
import fnmatch
import json
import pathlib
import struct
import subprocess
import tempfile
import time

import local_server
from suite import NOT_HERE, NOT_STOPPED, STOPPED, Row, outcome_of, program_of
from wire_suite import environment

HERE = pathlib.Path(__file__).resolve().parent
WORKER = "warpline-worker"
MEMORY = "64MiB"  # Of a session.
# One process has them all, and whatever other one there is counts as its loss.
FLAGS = ["--tiers=isolated,guarded", "--guarded_memory=" + MEMORY, "--guarded_standby=false"]
READY_TIMEOUT_S = 400
ATTACK_TIMEOUT_S = 400
# Rounds of a neighbour: one may have begun before the attack was over.
ROUNDS = 2
# Between rounds. On the CPU device ten neighbours would keep all processors busy.
REST_MS = {"cpu": 60, "cuda": 1}
STATE = struct.Struct("<QQQQ")  # How NeighbourState begins (tier/neighbour_state.h).
# The upper halves of addresses in the arenas of the wire suite (wire_session.h, wire_others.cc).
WIRE_ARENAS = (0x3000, 0x3010)
ESCAPE, RESIDUE = "escape_", "residue_"
NOT_PREPARED = "; not prepared, so nothing is shown"
RAN = "; ran"  # Says an escape whose kernel was not refused.
WIRE_ROWS = """
    command_that_there_is_not command_of_size_0 command_larger_than_its_frame command_of_4_gigabytes
    command_that_is_cut read_back_of_others_memory
    copy_from_elsewhere copy_to_elsewhere copy_on_device_to_elsewhere copy_on_device_from_elsewhere
    memset_elsewhere memset_of_rows_elsewhere box_to_elsewhere box_from_elsewhere
    box_on_device_to_elsewhere box_on_device_from_elsewhere box_with_a_row_elsewhere
    sizes_that_overflow word_written_elsewhere second_word_written_elsewhere
    graph_that_sets_elsewhere graph_that_copies_from_elsewhere graph_that_copies_to_elsewhere
    graph_that_sets_rows_elsewhere graph_that_copies_a_box_to_elsewhere
    graph_that_copies_a_box_from_elsewhere graph_that_writes_a_word_elsewhere
    memory_outside_the_arena memory_where_it_has_some memory_beyond_the_quota
    return_of_what_it_does_not_have share_of_what_it_does_not_have
    share_of_a_handle_that_there_is_not handles_that_wrap_around handles_of_another_session
    first_memory_used_after_its_return random_commands
    module_of_half_an_image compressed_part_that_is_a_bomb modules_of_garbage
    variables_beyond_the_quota stack_of_a_terabyte
    graph_of_a_kernel_that_there_is_not graph_with_a_circle graph_of_other_commands graph_of_garbage
    graph_of_4_billion_bodies launch_that_overflows launch_without_its_parameters
    link_of_garbage link_with_a_name_beyond_its_command endless_kernel host_calls_that_never_end
    more_streams_than_a_session_may_have staging_kept_after_its_session
""".split()


class TierNeighbour:
    """A neighbour's process, under a lease: it is another tenant's than the attackers, who have none.
    `addresses` are those of its memory and of its variable."""

    def __init__(self, installation, server, state, number):
        env = dict(environment(), WARPLINE_ENDPOINT=server.endpoint)
        self.state = state
        state.unlink(missing_ok=True)
        self._output = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [str(installation.root / "bin/warpline"), "run", "--tier=guarded",
             "--memory=" + MEMORY, "--", str(installation.root / "bin/tier_neighbour"),
             "--state=%s" % state, "--number=%d" % number,
             "--rest_ms=%d" % REST_MS[TierSuite.device]],
            env=env, stdin=subprocess.PIPE, stdout=self._output, stderr=subprocess.STDOUT)

    def _read(self):
        data = self.state.read_bytes() if self.state.exists() else b""
        return STATE.unpack_from(data) if len(data) >= STATE.size else (0, 0, 0, 0)

    @property
    def rounds(self):
        return self._read()[0]

    @property
    def wrong(self):
        return self._read()[1]

    @property
    def addresses(self):
        return self._read()[2:]

    def makes_rounds(self, count):
        """Whether it goes on."""
        until, deadline = self.rounds + count, time.monotonic() + READY_TIMEOUT_S
        while self.rounds < until and self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        return self.rounds >= until

    def stop(self):
        """Lets it end. Returns what it says is wrong, empty if nothing is."""
        try:
            self._process.stdin.close()
            status = self._process.wait(READY_TIMEOUT_S)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            status = self._process.wait()
        self._output.seek(0)
        said = self._output.read()[-1000:]
        self._output.close()
        return "" if status == 0 else said or "ended with status %d" % status


class TierSuite:
    name = "tier"
    device = "cpu"
    neighbours, every, jobs = 10, 1, 4

    def __init__(self, installation, flags):
        self._installation, self._flags = installation, [*flags, *FLAGS]
        self._program = str(installation.root / "bin/tier_attack")
        self._escapes = "--escapes=%s" % (HERE.parent / "guard/escapes.txt")
        self.rounds = 0
        self.failures = []  # What disturbed neighbours said.
        self._server = self._folder = self._workers = None
        self._neighbours = []

    def library_attacks(self):
        """Rows of the wire suite that only sessions of this tier have."""
        listed = subprocess.run([str(self._installation.root / "bin/wire_client"), "--list",
                                 "--tier=guarded"], check=True, stdout=subprocess.PIPE,
                                text=True).stdout
        return [line.split()[0] for line in listed.splitlines()]

    def attacks(self):
        listed = subprocess.run([self._program, "--list", self._escapes], check=True,
                                stdout=subprocess.PIPE, text=True).stdout.split()
        escapes = [name for name in listed if name.startswith(ESCAPE)]
        return [name for name in listed if not name.startswith(ESCAPE)], escapes[::self.every]

    def _start(self, number):
        """A neighbour that has made a round. Programs get their addresses at random, and what the rows
        of the wire suite ask for has to be free."""
        while True:
            neighbour = TierNeighbour(self._installation, self._server,
                                      self._folder / ("neighbour-%d" % number), number)
            if not neighbour.makes_rounds(1):
                raise local_server.Error("a neighbour does not start: %s\n%s" % (
                    neighbour.stop(), self._server.log_tail()))
            if not any(at >> 32 in WIRE_ARENAS for at in neighbour.addresses):
                return neighbour
            neighbour.stop()

    def _find_workers(self):
        return {pid for pid in local_server.descendants(self._server.pid)
                if program_of(pid) == WORKER}

    def _attack(self, name, neighbour):
        env = self._installation.client_environment(self._server.endpoint)
        env["WARPLINE_TIER"] = "guarded"
        return outcome_of([self._program, "--attack=" + name, "--state=%s" % neighbour.state,
                           "--endpoint=" + self._server.endpoint, self._escapes,
                           "--successor=%s" % (self._installation.root / "bin/tier_successor")],
                          env, ATTACK_TIMEOUT_S)

    def _attack_on_wire(self, name, neighbour):
        return outcome_of([str(self._installation.root / "bin/wire_client"), "--tier=guarded",
                           "--endpoint=" + self._server.endpoint, "--pid=%d" % self._server.pid,
                           "--log=%s" % self._server.log_path, "--attack=" + name,
                           "--foreign=%s" % ",".join("%x" % at for at in neighbour.addresses)],
                          environment(), ATTACK_TIMEOUT_S)

    def _attack_after_another(self, name, neighbour):
        """Once the session of one more neighbour has ended."""
        said = self._start(self.neighbours).stop()
        return ("unprepared", said) if said else self._attack(name, neighbour)

    def _row(self, play, name, neighbour):
        wrong = neighbour.wrong
        outcome, detail = play(name, neighbour)
        verdict = STOPPED if outcome == "stopped" else NOT_STOPPED
        if outcome == "not_here":
            verdict = NOT_HERE
        if outcome == "unprepared":
            detail += NOT_PREPARED
        harm = self._harm_to(neighbour, wrong)
        if harm:
            verdict, detail = NOT_STOPPED, "%s; %s" % (detail, harm)
        return Row(self.name, name, verdict, detail)

    def _harm_to(self, neighbour, wrong):
        if not neighbour.makes_rounds(ROUNDS):
            return "the neighbour does not go on"
        if neighbour.wrong != wrong:
            return "%d rounds of the neighbour were wrong" % (neighbour.wrong - wrong)
        if not self._workers <= self._find_workers():
            self._workers = self._find_workers()
            return "the process of all has ended"
        return ""

    def _rows(self, play, names, jobs):
        victims = [self._neighbours[i % len(self._neighbours)] for i in range(len(names))]
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(lambda name, victim: self._row(play, name, victim), names, victims)

    def _sessions(self):
        listed = subprocess.run(
            [str(self._installation.root / "bin/warpline"), "stat", "--json"], check=True,
            env=dict(environment(), WARPLINE_ENDPOINT=self._server.endpoint),
            stdout=subprocess.PIPE, text=True).stdout
        return len(json.loads(listed).get("sessions", []))

    def _last_row(self):
        """Whether all hostile sessions have ended in order."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline:
            left = self._sessions() - len(self._neighbours)
            if left <= 0:
                break
            time.sleep(0.2)
        same = self._workers == self._find_workers() and len(self._workers) == 1
        return Row(self.name, "one_process_for_all", STOPPED if same and left <= 0 else NOT_STOPPED,
                   "processes: %d, sessions of attackers that are left: %d" % (
                       len(self._find_workers()), left))

    def rows(self, only=None):
        """All rows, or those whose names match one of `only`, without the list of escapes."""
        with (tempfile.TemporaryDirectory(prefix="warpline-tier-") as folder,
              local_server.Server(self._installation, self._flags) as self._server):
            self._folder = pathlib.Path(folder)
            try:
                for number in range(self.neighbours):
                    self._neighbours.append(self._start(number))
                self._workers = self._find_workers()
                yield from self._all_rows(only)
            finally:
                for neighbour in self._neighbours:
                    self.rounds += neighbour.rounds
                    self.failures += filter(None, [neighbour.stop()])
                self._neighbours = []

    def _all_rows(self, only):
        attacks, escapes = self.attacks()
        wire = WIRE_ROWS + self.library_attacks()
        if only is not None:
            attacks, wire = ([name for name in names
                              if any(fnmatch.fnmatch(name, wanted) for wanted in only)]
                             for names in (attacks, wire))
        residue = [name for name in attacks if name.startswith(RESIDUE)]
        others = [name for name in attacks if not name.startswith(RESIDUE)]
        yield from self._rows(self._attack_after_another, residue, 1)
        yield from self._rows(self._attack, others, self.jobs)
        if only is None:
            yield from self._escape_rows(escapes)
        # All of these ask for the same addresses.
        yield from self._rows(self._attack_on_wire, wire, 1)
        if only is None:
            yield self._last_row()

    def _escape_rows(self, escapes):
        ran = 0
        for row in self._rows(self._attack, escapes, self.jobs):
            ran += RAN in row.detail
            yield row
        # If most were refused for another reason than the guard's, nothing would be shown.
        yield Row(self.name, "escapes_that_ran", STOPPED if 3 * ran >= len(escapes) else NOT_STOPPED,
                  "of %d kernels %d ran, the others were refused" % (len(escapes), ran))
