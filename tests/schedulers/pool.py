"""Three members of etcd and three schedulers on this host, and what holds leases of them."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "deploy/local"))

import history  # noqa: E402
import local_server  # noqa: E402  (found by the path above)
import relay  # noqa: E402

ETCD = "/usr/bin/etcd"
MEMBERS = 3
# Longer than a busy machine keeps holders and servers from telling the scheduler that they are there.
TTL_S = 6


def binaries_in(root):
    """The programs in a folder that is laid out as bazel-bin is."""
    return {"warpline-scheduler": str(root / "scheduler/warpline-scheduler"),
            "warpline": str(root / "tools/cli/warpline"),
            "pool_load": str(root / "tests/schedulers/pool_load")}


def wait_until(condition, what, timeout_s=240, pause_s=0.02):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "not within %d s: %s" % (
            timeout_s, what() if callable(what) else what)
        time.sleep(pause_s)


class Etcd:
    def __init__(self, folder):
        self.folder = folder
        self.client_ports, self.peer_ports = (
            [local_server.free_port() for _ in range(MEMBERS)] for _ in range(2))
        self.processes = [None] * MEMBERS
        for i in range(MEMBERS):
            self.start(i)

    def start(self, i):
        client = "http://127.0.0.1:%d" % self.client_ports[i]
        peer = "http://127.0.0.1:%d" % self.peer_ports[i]
        cluster = ",".join("m%d=http://127.0.0.1:%d" % (n, port)
                           for n, port in enumerate(self.peer_ports))
        with open(self.folder / ("etcd%d.log" % i), "ab") as log:
            self.processes[i] = subprocess.Popen(
                [ETCD, "--name=m%d" % i, "--data-dir=%s" % (self.folder / ("etcd%d" % i)),
                 "--listen-client-urls=" + client, "--advertise-client-urls=" + client,
                 "--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
                 "--initial-cluster=" + cluster, "--initial-cluster-state=new"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def leader(self):
        """The member that the others last said to lead."""
        best = (0, 0)
        for i in range(MEMBERS):
            text = (self.folder / ("etcd%d.log" % i)).read_text(errors="replace")
            for match in re.finditer(r"became leader at term (\d+)", text):
                best = max(best, (int(match[1]), i))
        return best[1]

    def kill(self, i):
        self.processes[i].kill()
        self.processes[i].wait()


class Scheduler:
    def __init__(self, binary, folder, number, etcd, ttl_s):
        self.binary, self.folder, self.number = binary, folder, number
        self.relay = relay.Relay([("127.0.0.1", port) for port in etcd.client_ports])
        self.port = local_server.free_port()
        self.address = "127.0.0.1:%d" % self.port
        self.log_path = folder / ("scheduler%d.log" % number)
        self.ttl_s = ttl_s
        self.process = None
        self.start()

    def start(self):
        state = "etcd://" + ",".join("127.0.0.1:%d" % port for port in self.relay.ports)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [self.binary, "--listen=" + self.address, "--state=" + state,
                 "--state_folder=%s" % (self.folder / ("state%d" % self.number)),
                 "--report_interval=100ms", "--lost_after=8s", "--lease_ttl=%ds" % self.ttl_s,
                 "--tenant_calls=1000"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def epoch(self):
        """Of the last term in which it led; 0 when it never did."""
        found = re.findall(r" leads epoch=(\d+)", self.log_path.read_text())
        return int(found[-1]) if found else 0


class Pool:
    def __init__(self, binaries, folder, stack, ttl_s=TTL_S):
        self.folder, self.binaries = folder, binaries
        self.etcd = Etcd(folder)
        stack.callback(self.close)
        self.schedulers = []
        self.load = None
        for i in range(3):
            self.schedulers.append(Scheduler(binaries["warpline-scheduler"], folder, i, self.etcd,
                                             ttl_s))
        wait_until(lambda: any(s.epoch() for s in self.schedulers), "somebody leads")
        self.addresses = ",".join(s.address for s in self.schedulers)
        self.credential = folder / "operator.credential"
        shutil.copy(folder / ("state%d" % self.leader().number) / "operator.credential",
                    self.credential)

    def leader(self):
        return max(self.schedulers, key=Scheduler.epoch)

    def warpline(self, *arguments):
        done = subprocess.run(
            [self.binaries["warpline"], *arguments, "--endpoint=" + self.addresses],
            env={**os.environ, "WARPLINE_CONNECT_TIMEOUT": "60",
                 "WARPLINE_OPERATOR_CREDENTIAL_FILE": str(self.credential)},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def begin(self):
        """Four servers, a tenant without limits and one whose leases last four seconds."""
        servers, tenants = [], []
        for name in ("a", "b", "c", "d"):
            path = self.folder / ("server-" + name)
            path.write_text(self.warpline("servers", "add", name))
            servers.append("%s:%s" % (name, path))
        for name, limits in (("long", []), ("short", ["--max_seconds=4"])):
            path = self.folder / ("tenant-" + name)
            path.write_text(self.warpline("tenant", "add", name, *limits))
            tenants.append(str(path))
        self.history = self.folder / "history"
        self.load = subprocess.Popen(
            [self.binaries["pool_load"], "--schedulers=" + self.addresses,
             "--servers=" + ",".join(servers), "--tenants=" + ",".join(tenants)],
            stdin=subprocess.PIPE, stdout=open(self.history, "wb"))
        wait_until(lambda: self.answers_since(0) is not None, "leases are granted")

    def answers_since(self, epoch):
        """When the first answer of a later term than `epoch` came, or None."""
        size = os.path.getsize(self.history)
        with open(self.history, "rb") as file:
            file.seek(max(0, size - 200000))
            for line in file.read().decode(errors="replace").splitlines()[1:]:
                if line.startswith(("granted ", "renewed ")):
                    event = history.parse(line)
                    if event.get("epoch", 0) > epoch:
                        return event["at"]
        return None

    def await_end_of_abandoned(self):
        """Until the servers have been told of the end of each lease that is abandoned by now."""
        def events(name):
            return set(re.findall(r"^%s .*\blease=(\S+)" % name, self.history.read_text(), re.MULTILINE))

        abandoned = events("abandoned")
        wait_until(lambda: abandoned <= events("ended"),
                   lambda: "abandoned leases end: %s" % (abandoned - events("ended")), pause_s=0.5)

    def end(self):
        """Lets all leases end, and then the servers."""
        self.load.stdin.write(b"\n")
        self.load.stdin.flush()
        wait_until(lambda: b"\nstopped " in self.history.read_bytes(), "holders end")
        wait_until(lambda: '"active"' not in self.warpline("lease", "list", "--json"), lambda:
                   "no lease is active that nobody holds: " + self.warpline("lease", "list", "--json"))
        self.load.stdin.close()
        assert self.load.wait(240) == 0

    def close(self):
        processes = [s.process for s in self.schedulers] + self.etcd.processes
        if self.load is not None:
            processes.append(self.load)
        for process in processes:
            if process is not None and process.poll() is None:
                with contextlib.suppress(OSError):
                    process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
