#!/usr/bin/env python3
"""Kills workers at random times while long programs run, and says what became of each session.

  kills.py --bundle=FOLDER --kills=500 [--device=auto] [--parallel=4]

FOLDER is an installation (lib/, bin/) with long_program in bin/ or beside this script. A killed
worker's session either had nothing in flight: then it goes on, and the program's results are right
to the end. Or it had: then the program gets CUDA's sticky error and reads its memory back intact.
With --page the sessions' memory is moved to the host and back all the time, or they are suspended
with their memory in files, and keepers, pagers, relays and clients are killed, too: nobody else may
notice.
Anything else is a failure, and with --error_within_s an error that comes later than that. The last lines are the counts, and what is left of it all:
processes, descriptors, memory in the server's books. Exit status 0 only without failures and leaks.
"""
import argparse
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

_HERE = pathlib.Path(__file__).resolve().parent
for _folder in (_HERE, _HERE.parent.parent / "deploy/local", _HERE.parent / "deploy/local"):
    if (_folder / "local_server.py").is_file():
        sys.path.insert(0, str(_folder))
        break

import local_server  # noqa: E402  (found by the path above)

# A session as from another host, whose client goes on over a relay.
OVER_UCX = {"WARPLINE_SHARE_MEMORY": "0", "WARPLINE_TRANSFER": "relay"}
OUTCOME_TIMEOUT_S = 240
CALL_TIMEOUT_S = 240
SETTLE_TIMEOUT_S = 240


def sessions(installation, endpoint):
    """{client pid: session} of `warpline ps`."""
    run = subprocess.run([str(installation.root / "bin/warpline"), "ps", "--json",
                          "--endpoint=" + endpoint], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, timeout=CALL_TIMEOUT_S, check=False)
    if run.returncode != 0:
        return {}
    return {session["client_pid"]: session for session in json.loads(run.stdout)["sessions"]}


def stat(installation, endpoint):
    return subprocess.run(
        [str(installation.root / "bin/warpline"), "stat", "--endpoint=" + endpoint],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=CALL_TIMEOUT_S,
        check=False).stdout


class Program:
    """One run of long_program."""

    def __init__(self, path, installation, endpoint, options, seed, extra=(), tier="isolated"):
        env = installation.client_environment(endpoint)
        env["WARPLINE_TIER"] = tier
        if options.ucx:
            env.update(OVER_UCX)
        self.process = subprocess.Popen(
            [str(path), "--seconds=%g" % options.seconds, "--words=%d" % options.words,
             "--seed=%d" % seed, *extra],
            env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, start_new_session=True)
        self.tier = tier
        self.kills = []       # Times of kills whose outcome is not known.
        # The latest kill of a guarded worker that may have been this program's: `warpline ps` may be
        # older than the program's session, or than its latest worker.
        self.perhaps = 0.0
        self.restarts = 0     # Before the latest of them.
        self.started = time.time()

    def verdict(self):
        """The last line, once the program has ended; None before."""
        if self.process.poll() is None:
            return None
        stdout, stderr = self.process.communicate()
        lines = [line for line in stdout.splitlines() if line.startswith("long_program: ")]
        self.stderr = stderr
        return lines[-1] if lines else "long_program: FAILED status=%s %s" % (
            self.process.returncode, (stdout + stderr)[-800:])


class Chaos:
    def __init__(self, options, installation, server):
        self.options = options
        self.installation = installation
        self.server = server
        self.random = random.Random(options.seed)
        self.programs = []
        self.resumed = self.errors = self.late = self.failed = self.unanswered = 0
        self.kills = self.other_kills = self.relay_kills = 0
        self.hits = 0  # Sessions whose worker was killed.
        self.unforeseen = 0  # Losses for which `perhaps` stands.
        self.moved = 0
        self.suspended = 0
        self.over = threading.Event()
        self.started = 0
        self.finished = 0
        self.latest = 0.0
        path = _HERE / "long_program"
        self.path = path if path.is_file() else installation.root / "bin/long_program"

    def start_missing(self):
        while len(self.programs) < self.options.parallel:
            busy = self.started % 2 == 1 and self.options.compute_ms > 0
            self.started += 1
            self.programs.append(Program(
                self.path, self.installation, self.server.endpoint, self.options,
                self.random.randrange(1 << 30),
                ["--compute_ms=%d" % self.options.compute_ms] if busy else [],
                "guarded" if self.options.guarded and self.started % 2 == 1 else "isolated"))

    def fail(self, text):
        self.failed += 1
        print("FAILURE", text, flush=True)

    def collect(self):
        """Programs that have ended."""
        for program in list(self.programs):
            verdict = program.verdict()
            if verdict is None:
                continue
            self.programs.remove(program)
            self.finished += 1
            if verdict.startswith("long_program: LOST"):
                at = float(re.search(r" at=([0-9.]+)", verdict)[1])
                if not program.kills and program.perhaps:
                    self.unforeseen += 1
                    continue
                if not program.kills:
                    self.fail("without a kill: %s\n%s" % (verdict, program.stderr[-2000:]))
                    continue
                after = at - program.kills[-1]
                self.latest = max(self.latest, after)
                self.errors += 1
                if self.options.error_within_s and after > self.options.error_within_s:
                    self.late += 1
                    self.fail("error %.3f s after the kill: %s" % (after, verdict))
            elif verdict.startswith("long_program: ok"):
                self.resumed += len(program.kills)  # It did not need to notice.
            else:
                self.fail("%s\n%s" % (verdict, program.stderr[-2000:]))

    def look(self):
        """Sessions that another worker has taken over."""
        if not any(program.kills for program in self.programs):
            return sessions(self.installation, self.server.endpoint)
        rows = sessions(self.installation, self.server.endpoint)
        for program in self.programs:
            row = rows.get(program.process.pid)
            if not program.kills:
                continue
            if row is not None and int(row.get("restarts", 0)) > program.restarts:
                program.kills.clear()
                self.resumed += 1
            elif time.time() - program.kills[-1] > OUTCOME_TIMEOUT_S:
                program.kills.clear()
                self.unanswered += 1
                self.fail("neither an error nor another worker: %s" % row)
        return rows

    def page(self):
        """Moves all sessions' memory away, or suspends them all, again and again. They go on when
        they need it."""
        choices = random.Random(self.options.seed)
        while not self.over.wait(choices.uniform(0, 0.1)):
            run = subprocess.run(
                [str(self.installation.root / "bin/warpline"), choices.choice(["page-out", "suspend"]),
                 "--endpoint=" + self.server.endpoint], stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, timeout=CALL_TIMEOUT_S, check=False)
            self.moved += run.stdout.count("its memory is away")
            self.suspended += run.stdout.count(": suspended")

    def kill_another(self):
        """Kills a client, or a process that has no session's. These would otherwise be killed faster
        than they start, while the workers of all programs are being replaced."""
        time.sleep(self.random.uniform(0, 0.05))
        others = [child for child in local_server.descendants(self.server.pid)
                  if "keeper" in comm(child) or "relay" in comm(child)]
        ready = [program for program in self.programs
                 if not program.kills and program.process.poll() is None]
        try:
            if ready and self.random.random() < 0.4:
                program = self.random.choice(ready)
                self.programs.remove(program)
                program.process.kill()
                program.process.communicate()
            elif others:
                other = self.random.choice(others)
                relays = "relay" in comm(other)
                os.kill(other, signal.SIGKILL)
                self.relay_kills += relays
            else:
                return
        except ProcessLookupError:
            return
        self.kills += 1
        self.other_kills += 1

    def kill_one(self, rows):
        if self.options.page and self.random.random() < 0.4:
            self.kill_another()
            return
        ready = [program for program in self.programs
                 if not program.kills and program.process.poll() is None and
                 rows.get(program.process.pid, {}).get("state") == "open" and
                 int(rows[program.process.pid].get("commands", 0)) > 20]
        if not ready:
            return
        program = self.random.choice(ready)
        worker = rows[program.process.pid]["worker_pid"]
        time.sleep(self.random.uniform(0, 0.05))
        try:
            os.kill(worker, signal.SIGKILL)
        except ProcessLookupError:
            return
        # Guarded sessions have one worker together.
        for hit in self.programs:
            if hit.tier == program.tier == "guarded":
                hit.perhaps = time.time()
            row = rows.get(hit.process.pid)
            if row is not None and row["worker_pid"] == worker and not hit.kills:
                hit.restarts = int(row.get("restarts", 0))
                hit.kills.append(time.time())
                self.hits += 1
        self.kills += 1
        if self.kills % 50 == 0:
            print("kills=%d resumed=%d errors=%d failures=%d" % (
                self.kills, self.resumed, self.errors, self.failed), flush=True)

    def run(self):
        end = time.monotonic() + self.options.timeout
        paging = threading.Thread(target=self.page)
        if self.options.page:
            paging.start()
        try:
            self.go_on_until(end)
        finally:
            self.over.set()
            if self.options.page:
                paging.join()
        for program in self.programs:
            self.fail("a program that does not end")
            os.killpg(program.process.pid, signal.SIGKILL)

    def go_on_until(self, end):
        while ((self.kills < self.options.kills or self.resumed < self.options.least_resumed)
               and time.monotonic() < end):
            self.start_missing()
            rows = self.look()
            self.collect()
            self.kill_one(rows)
        while self.programs and time.monotonic() < end + OUTCOME_TIMEOUT_S:
            self.look()
            self.collect()
            time.sleep(0.05)


def comm(pid):
    try:
        return pathlib.Path("/proc/%d/comm" % pid).read_text()
    except OSError:
        return ""


def descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def worker_count(pid):
    return sum(1 for child in local_server.descendants(pid) if "worker" in comm(child))


def await_rest(installation, server, warm_workers):
    """Until no session is left, and all workers that are kept for the next ones are there."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while sessions(installation, server.endpoint) or worker_count(server.pid) != warm_workers:
        if time.monotonic() > deadline:
            raise local_server.Error("the server does not come to rest:\n" + server.log_tail())
        time.sleep(0.1)


def settle(installation, server, workers, wanted_descriptors):
    """What is left once everything had time to go: a list of complaints."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while True:
        complaints = []
        text = stat(installation, server.endpoint)
        granted = re.search(r"memory +(.*?) granted", text)
        if granted is None or not granted[1].startswith("0 "):
            complaints.append("memory granted: %s" % (granted and granted[1]))
        moved = re.search(r"^swap +(.*?) moved", text, re.MULTILINE)
        if moved is not None and not moved[1].startswith("0 "):
            complaints.append("memory on the host: %s" % moved[1])
        left = sessions(installation, server.endpoint)
        if left:
            complaints.append("sessions: %s" % left)
        if worker_count(server.pid) > workers:
            complaints.append("workers: %d, before %d" % (worker_count(server.pid), workers))
        pooled = descriptors(server.pid)
        if pooled > wanted_descriptors:
            complaints.append("descriptors: %d, before %d" % (pooled, wanted_descriptors))
        if not complaints or time.monotonic() > deadline:
            return complaints
        time.sleep(0.2)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", default=str(_HERE.parent.parent))
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=20, help="of each program")
    parser.add_argument("--words", type=int, default=1 << 14, help="of each of its buffers")
    parser.add_argument("--compute_ms", type=int, default=0, help="kernels of every second program "
                        "take up to so much longer, so that more is in flight")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--warm_workers", type=int, default=2)
    parser.add_argument("--least_resumed", type=int, default=0,
                        help="go on killing until so many sessions went on")
    parser.add_argument("--error_within_s", type=float, default=0,
                        help="how long after a kill its error may come; 0 for any time")
    parser.add_argument("--page", action="store_true",
                        help="move memory to the host and suspend sessions all the time, and kill "
                        "other processes, too")
    parser.add_argument("--guarded", action="store_true",
                        help="every second program is guarded; these have one worker together")
    parser.add_argument("--ucx", action="store_true",
                        help="sessions go on over UCX, as from another host; with --page relays are "
                        "killed, too")
    parser.add_argument("--timeout", type=float, default=3000)
    options = parser.parse_args()
    local_server.stop_on_signals()
    installation = local_server.Installation.from_bundle(options.bundle)
    flags = ["--device=" + options.device, "--warm_workers=%d" % options.warm_workers]
    if options.page:
        swap = tempfile.TemporaryDirectory(prefix="warpline-swap-")
        flags += ["--swap_host=1GiB", "--swap_dir=" + swap.name]
    if options.guarded:
        flags += ["--tiers=isolated,guarded", "--noguarded_standby", "--guarded_memory=64MiB"]
    if options.ucx:
        flags.append("--ucx_networks=127.0.0.0/8")
    with local_server.Server(installation, flags) as server:
        chaos = Chaos(options, installation, server)
        first = Program(chaos.path, installation, server.endpoint,
                        argparse.Namespace(seconds=1, words=options.words, ucx=options.ucx), 0)
        first.process.wait(120)
        print("before:", first.verdict(), flush=True)
        await_rest(installation, server, options.warm_workers)
        workers, before = worker_count(server.pid), descriptors(server.pid)
        chaos.run()
        complaints = settle(installation, server, workers + 1, before + 24)
        print("kills=%d resumed=%d errors=%d failures=%d late=%d programs=%d unforeseen=%d" % (
            chaos.kills, chaos.resumed, chaos.errors, chaos.failed, chaos.late, chaos.finished,
            chaos.unforeseen))
        if options.page:
            print("moved=%d suspended=%d others_killed=%d relays_killed=%d" % (
                chaos.moved, chaos.suspended, chaos.other_kills, chaos.relay_kills))
        print("slowest error %.3f s after its kill" % chaos.latest)
        for complaint in complaints:
            print("LEAK", complaint)
        if chaos.failed or complaints:
            lines = server.log_tail(100000).splitlines()
            print("\n".join(line for line in lines if re.search(
                r" [WE] |replaced|worker_error|closed", line)))
        ok = (not chaos.failed and not complaints and chaos.kills >= options.kills and
              chaos.resumed >= options.least_resumed and
              chaos.resumed + chaos.errors == chaos.hits and
              (not options.page or chaos.moved > 0) and
              (not (options.page and options.ucx) or chaos.relay_kills > 0))
        print("kills:", "ok" if ok else "FAILED")
        return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
