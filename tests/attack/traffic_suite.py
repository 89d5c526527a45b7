"""Hostile traffic for minutes, from several processes at once: mutated frames in open sessions,
random commands with random addresses, half-open and silent connections, clients that vanish, floods.

The server must stay within bounds all the while, and come back to where it was.
"""
import itertools
import os
import pathlib
import re
import subprocess
import threading
import time

from suite import NOT_STOPPED, STOPPED, Row
from wire_suite import environment

import local_server

SAMPLE_S = 0.25
SETTLE_S = 60
FLOODS = ("connections_that_are_half_open", "connections_of_garbage", "streams_without_a_hello",
          "log_of_refused_commands", "log_of_strangers", "log_of_resumptions")
# By how much the server may grow while it is attacked, and what of it may be left afterwards.
MOST = {"MiB": 768, "descriptors": 4096, "threads": 1024}
LEFT = {"MiB": 384, "descriptors": 64, "threads": 64}
LOG_BYTES, LOG_BYTES_A_MINUTE = 1 << 20, 2 << 20


class Traffic:
    """Processes that attack until stop(). Each kind is started again and again with other seeds."""

    def __init__(self, root, server):
        self.messages, self.sessions, self.floods = 0, 0, 0
        self.complaints = []
        self._root, self._server = root, server
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._processes = set()
        self._seeds = itertools.count(int.from_bytes(os.urandom(4), "little"))
        self._threads = [threading.Thread(target=each)
                         for each in (self._mutations, self._mutations, self._mutations,
                                      self._floods)]
        for thread in self._threads:
            thread.start()

    def _run(self, command):
        """What the process printed; None when it was ended because the time was over."""
        with self._lock:
            if self._stop.is_set():
                return None
            process = subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                       errors="replace")
            self._processes.add(process)
        said, _ = process.communicate()
        with self._lock:
            self._processes.discard(process)
        return None if process.returncode < 0 and self._stop.is_set() else said

    def _mutations(self):
        while not self._stop.is_set():
            said = self._run([str(self._root / "bin/hostile"),
                              "--endpoint=" + self._server.endpoint, "--messages=40000",
                              "--vanish=5", "--seed=%d" % next(self._seeds)])
            if said is None:
                return
            messages = re.search(r"^messages: (\d+)\nsessions: (\d+)", said, re.MULTILINE)
            stopped = re.search(r"stopped answering after (\d+) messages", said)
            with self._lock:
                if messages:
                    self.messages += int(messages[1])
                    self.sessions += int(messages[2])
                elif stopped:
                    # Others have filled the server up for a moment; the neighbour says whether
                    # that went too far.
                    self.messages += int(stopped[1])
                else:
                    self.complaints.append(said[-300:])

    def _floods(self):
        for name in itertools.cycle(FLOODS):
            if self._run([str(self._root / "bin/wire_client"),
                          "--endpoint=" + self._server.endpoint, "--pid=%d" % self._server.pid,
                          "--log=%s" % self._server.log_path, "--attack=" + name]) is None:
                return
            self.floods += 1

    def stop(self):
        with self._lock:
            self._stop.set()
            for process in self._processes:
                process.kill()
        for thread in self._threads:
            thread.join()


def measure(server):
    folder = pathlib.Path("/proc/%d" % server.pid)
    status = (folder / "status").read_text()
    number = lambda name: int(re.search(r"^%s:\s+(\d+)" % name, status, re.MULTILINE)[1])
    return {"MiB": number("VmRSS") // 1024, "descriptors": len(os.listdir(folder / "fd")),
            "threads": number("Threads"), "bytes of log": os.path.getsize(server.log_path)}


class TrafficSuite:
    name = "traffic"
    minutes = 1.0

    def __init__(self, installation, server, session):
        self._root, self._server, self._session = installation.root, server, session

    def close(self):
        pass

    def rows(self):
        if not self._session():
            raise local_server.Error("no program runs before the traffic")
        start = measure(self._server)
        most = dict(start)
        traffic = Traffic(self._root, self._server)
        deadline = time.monotonic() + 60 * self.minutes
        try:
            while time.monotonic() < deadline and self._server.running():
                time.sleep(SAMPLE_S)
                now = measure(self._server)
                most = {name: max(most[name], now[name]) for name in most}
        finally:
            traffic.stop()
        end = self._settle(start)
        figures = ", ".join("%s %d at the start, %d at most, %d at the end"
                            % (name, start[name], most[name], end[name]) for name in start)
        problems = traffic.complaints[:1]
        problems += ["too many " + name for name in MOST
                     if most[name] > start[name] + MOST[name]
                     or end[name] > start[name] + LEFT[name]]
        if end["bytes of log"] - start["bytes of log"] > LOG_BYTES + LOG_BYTES_A_MINUTE * self.minutes:
            problems.append("too much log")
        if not self._session():
            problems.append("no program runs after it")
        yield Row(self.name, "of %g minutes" % self.minutes,
                  NOT_STOPPED if problems else STOPPED,
                  "%d messages in %d sessions and %d floods; %s%s"
                  % (traffic.messages, traffic.sessions, traffic.floods, figures,
                     "".join("; " + problem for problem in problems)))

    def _settle(self, start):
        """What is left once sessions that ended are cleared away."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            end = measure(self._server)
            if all(end[name] <= start[name] + LEFT[name] for name in LEFT):
                return end
            if time.monotonic() > deadline:
                return end
            time.sleep(1)
