#!/usr/bin/env python3
"""Runs programs while their connections are cut at random times, and counts.

  cuts.py --cuts=500 --program='bin/examples/matmul_tiled' [--program=...] [--bundle=FOLDER]
          [--device=auto] [--relay=bazel-bin/transport/testing/delay_relay_main] [--cut_every_ms=100-400]

The programs run again and again, --jobs at a time, through a relay that resets all connections of
the moment at random times, until as many connections were cut as --cuts says. Prints

  cuts: 500
  resumes: 497          as the server counts them, moves included
  client resumes: 497   as the clients count them
  runs: 61
  failures: 0           programs that did not exit with 0
  leaks: 0              sessions, device memory and descriptors that are left at the end

With --kill_relays_every_ms sessions go on over UCX, and their relays are killed besides; `relays` counts
those. Ends with 0 when nothing failed and nothing is left. Resumes are fewer than cuts by those cuts
that hit a program at its opening or its end.
"""
import argparse
import contextlib
import os
import pathlib
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
for _folder in (ROOT / "deploy/local", pathlib.Path(os.environ.get("RUNFILES_DIR", ROOT)) /
                "warpline/deploy/local"):
    if (_folder / "local_server.py").is_file():
        sys.path.insert(0, str(_folder))

import local_server  # noqa: E402  (found by the path above)

PROGRAM_TIMEOUT_S = 600
SETTLE_TIMEOUT_S = 240


class Relay:
    """A context manager around delay_relay_main. `endpoint` is HOST:PORT; cuts() counts."""

    def __init__(self, binary, target, cut_every_ms, seed):
        self._command = [str(binary), "--target=" + target, "--cut_every_ms=" + cut_every_ms,
                         "--seed=%d" % seed]
        self._cuts = 0

    def __enter__(self):
        self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL,
                                         stdout=subprocess.PIPE, text=True)
        self.endpoint = "127.0.0.1:%d" % int(self._process.stdout.readline())
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()

    def _read(self):
        for line in self._process.stdout:
            match = re.match(r"cuts: (\d+)", line)
            if match:
                self._cuts = int(match[1])

    def cuts(self):
        return self._cuts


class RelayKiller:
    """A context manager that kills one of the server's relays at random times."""

    def __init__(self, server, every_ms, seed):
        self._server = server
        self._pause_ms = [int(end) for end in every_ms.split("-")]
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.kills = 0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _work(self):
        while not self._stop.wait(self._random.uniform(*self._pause_ms) / 1000):
            relays = self._relays()
            if relays:
                os.kill(self._random.choice(relays), signal.SIGKILL)
                self.kills += 1

    def _relays(self):
        """Ids of the relay processes that the server's supervisor has."""
        return [process for supervisor in local_server.children(self._server.pid)
                for process in local_server.children(supervisor)
                if self._name(process) == "warpline-relay"]

    @staticmethod
    def _name(process):
        try:
            return pathlib.Path("/proc/%d/comm" % process).read_text(encoding="utf-8").strip()
        except OSError:
            return ""


def metrics(port):
    """What the server exposes, summed over labels: {"warpline_sessions": 0.0, ...}."""
    found = {}
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port, timeout=240) as answer:
        for line in answer.read().decode().splitlines():
            match = re.match(r"(warpline_\w+)(?:\{[^}]*\})? (\S+)$", line)
            if match:
                found[match[1]] = found.get(match[1], 0.0) + float(match[2])
    return found


def resumed(counted):
    return int(counted.get("warpline_resumes_total", 0) + counted.get("warpline_transfers_total", 0))


class Runs:
    """Runs commands on some threads until told to stop."""

    def __init__(self, commands, environment, stat_file, seed):
        self._commands = commands
        # A session that cannot open between two cuts is tried again for a while.
        self._environment = {"WARPLINE_TRANSFER": "0", "WARPLINE_CONNECT_TIMEOUT": "60",
                             **environment, "WARPLINE_STAT": str(stat_file)}
        self._stat_file = stat_file
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.count = 0
        self.failures = []

    def start(self, jobs):
        self._threads = [threading.Thread(target=self._work) for _ in range(jobs)]
        for thread in self._threads:
            thread.start()

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self):
        while not self._stop.is_set():
            with self._lock:
                command = self._random.choice(self._commands)
            status, stdout, stderr = local_server.run_group(command, self._environment,
                                                            PROGRAM_TIMEOUT_S)
            with self._lock:
                self.count += 1
                if status != 0:
                    self.failures.append("%s: status %s\n%s\n%s" % (
                        shlex.join(command), status, stdout.decode(errors="replace")[-2000:],
                        stderr.decode(errors="replace")[-2000:]))

    def client_counter(self, key):
        try:
            text = self._stat_file.read_text(encoding="utf-8")
        except OSError:
            return 0
        return sum(int(n) for n in re.findall(r"^warpline stat: %s: (\d+)" % key, text, re.M))


def leaks(server, port, descriptors_before):
    """What is left once nothing has changed for the better for a while, in words."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while True:
        now = metrics(port)
        left = ["%s is %g" % (name, now[name])
                for name in ("warpline_sessions", "warpline_device_memory_granted_bytes")
                if now.get(name)]
        descriptors = len(os.listdir("/proc/%d/fd" % server.pid))
        # Connections that end, and chunks that stay pooled.
        allowed = descriptors_before + 8 + int(now.get("warpline_device_memory_chunks", 0))
        if descriptors > allowed:
            left.append("%d descriptors, %d before" % (descriptors, descriptors_before))
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.2)


def run(installation, relay_binary, commands, cuts, device="auto", cut_every_ms="100-400", jobs=2,
        seed=1, server_flags=(), variables=None, kill_relays_every_ms=None, resumes=0, bulk_bytes=0):
    """Does it all; returns what was counted. `variables` are more of the programs' environment. It goes
    on until there were so many cuts, resumes and bulk bytes, and one relay was killed if any is to be."""
    port = local_server.free_port()
    variables = dict(variables or {})
    if kill_relays_every_ms:
        # They are of the kind that the flags say, else over UCX.
        server_flags = server_flags or ["--ucx_networks=127.0.0.0/8"]
        variables["WARPLINE_TRANSFER"] = "relay"
    flags = ["--device=" + device, "--admin_listen=127.0.0.1:%d" % port, *server_flags]
    with tempfile.TemporaryDirectory(prefix="warpline-cuts-") as folder, \
            local_server.Server(installation, flags) as server:
        # What a first session makes the server open stays open.
        environment = installation.client_environment(server.endpoint) | variables
        local_server.run_group(commands[0], environment, PROGRAM_TIMEOUT_S)
        while metrics(port).get("warpline_sessions"):
            time.sleep(0.05)
        before = len(os.listdir("/proc/%d/fd" % server.pid))
        with contextlib.ExitStack() as ends:
            relay = ends.enter_context(Relay(relay_binary, server.endpoint, cut_every_ms, seed))
            relays = None
            if kill_relays_every_ms:
                relays = ends.enter_context(RelayKiller(server, kill_relays_every_ms, seed))
            environment = installation.client_environment(relay.endpoint) | variables
            runs = Runs(commands, environment, pathlib.Path(folder) / "stat", seed)
            runs.start(jobs)

            def enough():
                return (relay.cuts() >= cuts and resumed(metrics(port)) >= resumes
                        and runs.client_counter("bulk bytes") >= bulk_bytes
                        and (relays is None or relays.kills > 0))
            try:
                while server.running() and not enough():
                    time.sleep(0.05)
                counted = relay.cuts()
            finally:
                runs.stop()
            counted = max(counted, relay.cuts())
        left = leaks(server, port, before) if server.running() else ["the server has ended"]
        after = metrics(port) if server.running() else {}
        return {
            "cuts": counted,
            "resumes": resumed(after),
            "client resumes": runs.client_counter("resumes"),
            **({"relays": relays.kills} if relays else {}),
            "bulk bytes": runs.client_counter("bulk bytes"),
            "runs": runs.count,
            "failures": len(runs.failures),
            "leaks": len(left),
        }, runs.failures, left


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=500)
    parser.add_argument("--program", action="append", required=True,
                        help="a command; repeat for several")
    parser.add_argument("--bundle", help="an unpacked bundle; without, what Bazel has built")
    parser.add_argument("--relay", default=str(ROOT / "bazel-bin/transport/testing/delay_relay_main"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--cut_every_ms", default="100-400")
    parser.add_argument("--kill_relays_every_ms", metavar="A-B",
                        help="sessions go on over UCX, and relays are killed as often")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server_flag", metavar="FLAG", action="append", default=[],
                        help="a further flag for the server (may be repeated)")
    parser.add_argument("--env", metavar="NAME=VALUE", action="append", default=[],
                        help="a variable for the programs, such as WARPLINE_SHARE_MEMORY=0, with "
                        "which large copies go through bulk connections (may be repeated)")
    options = parser.parse_args()
    local_server.stop_on_signals()
    if options.bundle:
        installation = local_server.Installation.from_bundle(options.bundle)
    else:
        installation = local_server.Installation.from_bazel_bin(ROOT / "bazel-bin", {})
    try:
        counts, failures, left = run(
            installation, options.relay, [shlex.split(program) for program in options.program],
            options.cuts, options.device, options.cut_every_ms, options.jobs, options.seed,
            options.server_flag, variables=[pair.split("=", 1) for pair in options.env],
            kill_relays_every_ms=options.kill_relays_every_ms)
    finally:
        installation.close()
    for text in failures[:5]:
        print("FAILED " + text)
    for text in left:
        print("LEFT " + text)
    for key, value in counts.items():
        print("%s: %d" % (key, value))
    return 1 if failures or left else 0


if __name__ == "__main__":
    sys.exit(main())
