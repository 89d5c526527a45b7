#!/usr/bin/env python3
"""Records what a bundle's programs write and send, for tests of the versions after it:

  tests/versions/record.py --bundle=DIR --tools=BAZEL_BIN --out=tests/versions/former

Run it with the bundle of a release, and with tools that were built from its sources
(//tests/versions:older_peer, //tests/versions:wire_shape). Needs etcd (apt-get install etcd-server).
"""
import argparse
import base64
import json
import os
import pathlib
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "deploy/local"))

import local_server  # noqa: E402  (found by the path above)

import layouts  # noqa: E402

ETCD = "/usr/bin/etcd"


def wait_for(condition, what, timeout_s=240):
    deadline = time.monotonic() + timeout_s
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise RuntimeError("not within %d s: %s" % (timeout_s, what))
        time.sleep(0.05)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


class Etcd:
    """One member. Its keys are read and written by its gateway, in JSON."""

    def __init__(self, folder):
        self.port, peer = free_port(), free_port()
        client, other = "http://127.0.0.1:%d" % self.port, "http://127.0.0.1:%d" % peer
        with open(folder / "etcd.log", "ab") as log:
            self._process = subprocess.Popen(
                [ETCD, "--name=m", "--data-dir=%s" % (folder / "etcd"),
                 "--listen-client-urls=" + client, "--advertise-client-urls=" + client,
                 "--listen-peer-urls=" + other, "--initial-advertise-peer-urls=" + other,
                 "--initial-cluster=m=" + other], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(self._answers, "etcd answers")

    def _answers(self):
        try:
            return self._post("range", {"key": "YQ=="}) is not None
        except OSError:
            return False

    def _post(self, verb, request):
        with urllib.request.urlopen(
                urllib.request.Request("http://127.0.0.1:%d/v3/kv/%s" % (self.port, verb),
                                       json.dumps(request).encode(),
                                       {"Content-Type": "application/json"}), timeout=120) as reply:
            return json.load(reply)

    @staticmethod
    def _text(raw):
        return base64.b64encode(raw).decode()

    def keys(self, prefix):
        """{name behind the prefix: value}, without the leader's key."""
        found = self._post("range", {"key": self._text(prefix), "range_end": self._text(
            prefix[:-1] + bytes([prefix[-1] + 1]))})
        pairs = {base64.b64decode(kv["key"])[len(prefix):].decode():
                 base64.b64decode(kv.get("value", "")) for kv in found.get("kvs", [])}
        return {name: value for name, value in pairs.items() if name != "leader"}

    def put(self, key, value):
        self._post("put", {"key": self._text(key), "value": self._text(value)})

    def remove(self, key):
        self._post("deleterange", {"key": self._text(key)})

    def close(self):
        self._process.kill()
        self._process.wait()


class Scheduler:
    """A scheduler of a bundle, with its state where `state` says."""

    def __init__(self, bundle, folder, state, port=None):
        self.folder = pathlib.Path(folder)
        self.bundle = bundle
        self.port = port or free_port()
        self.endpoint = "127.0.0.1:%d" % self.port
        flags = ["--listen=" + self.endpoint, "--report_interval=100ms", "--lost_after=2s",
                 "--lease_ttl=60s", "--state=" + state, "--decision_log_mb=0"]
        if state.startswith("etcd://"):
            flags.append("--state_folder=%s" % self.folder)
        self.log = self.folder.parent / (self.folder.name + ".log")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([str(bundle / "bin/warpline-scheduler"), *flags],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.credential = self.folder / "operator.credential"
        wait_for(self._serves, lambda: "it serves: " + self.log.read_text())

    def _serves(self):
        if self.process.poll() is not None:
            raise RuntimeError("the scheduler ended: " + self.log.read_text())
        return self.call("servers")[0] == 0

    def call(self, *arguments, env=None):
        """Runs the bundle's `warpline` as the operator. Returns (status, output)."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("WARPLINE_")}
        environment["WARPLINE_OPERATOR_CREDENTIAL_FILE"] = str(self.credential)
        environment.update(env or {})
        words = list(arguments)
        place = words.index("--") if "--" in words else len(words)
        words.insert(place, "--endpoint=" + self.endpoint)
        done = subprocess.run([str(self.bundle / "bin/warpline"), *words], env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout + done.stderr

    def must(self, *arguments, env=None):
        status, output = self.call(*arguments, env=env)
        if status != 0:
            raise RuntimeError("%s: %s" % (" ".join(arguments), output))
        return output

    def kill(self):
        self.process.kill()
        self.process.wait()


def fill(scheduler, folder):
    """Something of everything that a state has. Returns the token of a lease that is active, and
    what holds it."""
    scheduler.must("slice", "add", "small", "--memory=64MiB", "--handles=500")
    scheduler.must("tenant", "add", "org", "--memory=8GiB")
    credential = folder / "tenant.credential"
    credential.write_text(scheduler.must("tenant", "add", "vision", "--parent=org", "--slices=small",
                                         "--weight=3", "--max_sessions=9"))
    server_credential = folder / "server.credential"
    server_credential.write_text(scheduler.must("servers", "add", "gpu1"))
    scheduler.must("servers", "add", "gpu2")
    scheduler.must("servers", "cordon", "gpu2", "--reason=disk")
    installation = local_server.Installation.from_bundle(scheduler.bundle)
    server = local_server.Server(installation, [
        "--device=cpu", "--name=gpu1", "--scheduler=" + scheduler.endpoint,
        "--scheduler_credential_file=%s" % server_credential])
    server.__enter__()
    environment = {"WARPLINE_CREDENTIAL_FILE": str(credential)}
    wait_for(lambda: scheduler.call("run", "--", "true", env=environment)[0] == 0, "leases are given")
    token = scheduler.must("run", "--", "sh", "-c", "cat $WARPLINE_TOKEN_FILE",
                           env=environment).strip()
    holder = subprocess.Popen(
        [str(scheduler.bundle / "bin/warpline"), "run", "--endpoint=" + scheduler.endpoint, "--",
         "sleep", "1000"], env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: "sleep" in scheduler.must("lease", "list"), "a lease is held")
    return token, server, holder


def stop(server, holder):
    holder.kill()
    holder.wait()
    server.__exit__(None, None, None)


def record_sqlite(bundle, folder, out):
    state = folder / "sqlite"
    scheduler = Scheduler(bundle, state, str(state))
    token, server, holder = fill(scheduler, folder)
    scheduler.kill()
    stop(server, holder)
    database = sqlite3.connect(state / "state.db")
    version = database.execute("PRAGMA user_version").fetchone()[0]
    # Rows come in the order of their tables' names.
    (out / "state.sql").write_text(
        "PRAGMA foreign_keys = OFF;\n" + "\n".join(database.iterdump()) + "\nPRAGMA user_version = %d;\n" % version)
    database.close()
    (out / "keys.txt").write_text((state / "keys").read_text())
    (out / "token.txt").write_text(token + "\n")


def record_etcd(bundle, folder, out):
    etcd = Etcd(folder)
    try:
        scheduler = Scheduler(bundle, folder / "etcd-own", "etcd://127.0.0.1:%d" % etcd.port)
        _, server, holder = fill(scheduler, folder)
        scheduler.kill()
        lines = ["%s %s\n" % (name, value.hex() or "-")
                 for name, value in sorted(etcd.keys(b"/warpline/").items())]
        (out / "etcd.txt").write_text("".join(lines))
        stop(server, holder)  # Ends all that this process has started.
    finally:
        etcd.close()


def record_frames(bundle, tools, folder, out):
    installation = local_server.Installation.from_bundle(bundle)
    frames, port_file = folder / "frames", folder / "port"
    with local_server.Server(installation, ["--device=cpu"]) as server:
        peer = subprocess.Popen(
            [str(tools / "tests/versions/older_peer"), "--server=" + server.endpoint,
             "--port_file=%s" % port_file, "--record=%s" % frames], stdin=subprocess.PIPE)
        wait_for(port_file.exists, "older_peer listens")
        environment = installation.client_environment("127.0.0.1:" + port_file.read_text().strip())
        subprocess.run([str(bundle / "bin/examples/vector_add")], env=environment, check=True,
                       stdout=subprocess.DEVNULL)
        peer.stdin.close()
        peer.wait(10)
    (out / "hello.txt").write_text(frames.read_text().splitlines()[0] + "\n")


def descriptors(pid):
    """The paths of a process's open files."""
    return [pathlib.Path("/proc/%d/fd/%s" % (pid, fd)) for fd in os.listdir("/proc/%d/fd" % pid)]


def record_journal(bundle, folder, out):
    """The journal of a session with streams, events, modules and variables, out of the memory of its
    worker. For root: nobody else may look into a worker."""
    installation = local_server.Installation.from_bundle(bundle)
    with local_server.Server(installation, ["--device=cpu"]) as server:
        program = subprocess.Popen(
            [str(bundle / "bin/long_program"), "--seconds=30", "--words=64"],
            env=installation.client_environment(server.endpoint), stdout=subprocess.DEVNULL)
        time.sleep(2)
        for pid in local_server.descendants(server.pid):
            if "warpline-worker" not in pathlib.Path("/proc/%d/cmdline" % pid).read_text():
                continue
            for path in descriptors(pid):
                if path.stat().st_size > 4 << 30 and "memfd" in os.readlink(path):
                    write_sparse(path, out / "journal.txt")
        program.kill()
        program.wait()


def write_sparse(path, out):
    """Writes the bytes that are not zero, in lines of "OFFSET HEX"."""
    with open(path, "rb") as file, open(out, "w") as text:
        end = 0
        while True:
            try:
                start = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError:
                return
            end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            for offset in range(start, end, 64):
                piece = os.pread(file.fileno(), min(64, end - offset), offset)
                if piece.strip(b"\0"):
                    text.write("%d %s\n" % (offset, piece.hex()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", type=pathlib.Path, required=True)
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    bundle = args.bundle.resolve()
    for record in (record_sqlite, record_etcd, record_journal):
        with tempfile.TemporaryDirectory() as folder:
            record(bundle, pathlib.Path(folder), args.out)
    with tempfile.TemporaryDirectory() as folder:
        record_frames(bundle, args.tools.resolve(), pathlib.Path(folder), args.out)
    shape = subprocess.run([str(args.tools.resolve() / "tests/versions/wire_shape")], check=True,
                           capture_output=True, text=True).stdout
    (args.out / "shape.txt").write_text(
        shape + "".join(line + "\n" for line in layouts.layouts(ROOT / "proto/calls.toml")))


if __name__ == "__main__":
    main()
