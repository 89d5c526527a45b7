"""etcd and schedulers as processes, for the tests of this folder."""
import base64
import json
import os
import pathlib
import socket
import subprocess
import time
import urllib.request

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
