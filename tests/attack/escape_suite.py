"""The escape suite: what a worker that was taken over reaches (escape.h).

All attempts are made in one worker with its whole jail. Then each is made in a worker that lacks
exactly the layers that stop it, where it must get through: otherwise its row proves nothing, and
fails. A row counts as n/a where this host's kernel does not have what the attempt is about.
"""
import ctypes
import os
import pathlib
import socket
import subprocess
import tempfile
import threading
import time

from suite import NOT_HERE, NOT_STOPPED, STOPPED, Row, is_zombie, program_of

import local_server

IPC_CREAT, IPC_RMID = 0o1000, 0
_libc = ctypes.CDLL(None, use_errno=True)


def is_root():
    """Whether this is root, and not root of a user namespace, who is somebody else outside."""
    return os.geteuid() == 0 and pathlib.Path("/proc/self/uid_map").read_text().split() == [
        "0", "0", str(2**32 - 1)]


class Surroundings:
    """What is there to be reached besides the server's processes: files, sockets, shared memory."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="warpline-attack-"))
        self.folder.chmod(0o755)
        self.private, self.public = self.folder / "private", self.folder / "public"
        self.private.mkdir(mode=0o755)
        self.public.mkdir()
        self.public.chmod(0o777)
        self.secret = self.private / "secret"
        self.secret.write_text("secret\n")
        self.secret.chmod(0o600)
        self._stop = threading.Event()
        self._sockets = []
        self.path = str(self.public / "socket")
        self._listen(socket.AF_UNIX, self.path)
        os.chmod(self.path, 0o777)
        self.abstract = "warpline-attack-%d" % os.getpid()
        self._listen(socket.AF_UNIX, "\0" + self.abstract)
        self.tcp_port = self._listen(socket.AF_INET, ("127.0.0.1", 0)).getsockname()[1]
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        self._sockets.append(udp)
        self.udp_port = udp.getsockname()[1]
        self.ipc_key = 0x57000000 | os.getpid() & 0xffffff
        self._segment = _libc.shmget(self.ipc_key, 4096, IPC_CREAT | 0o666)

    def _listen(self, family, address):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.bind(address)
        listener.listen(16)
        self._sockets.append(listener)

        def accept():
            while True:
                try:
                    listener.accept()[0].close()
                except OSError:
                    return
        threading.Thread(target=accept, daemon=True).start()
        return listener

    def refresh(self):
        """Before each attempt: puts back what one that got through may have taken."""
        (self.private / "to_delete").write_text("x")

    def close(self):
        for each in self._sockets:
            each.close()
        _libc.shmctl(self._segment, IPC_RMID, None)
        subprocess.run(["rm", "-rf", str(self.folder)], check=False)


class EscapeSuite:
    name = "escape"

    def __init__(self, installation, server, session):
        """`session()` runs a program to its end and returns whether it was right."""
        self._bin = installation.root / "bin"
        self._server, self._session = server, session
        self._around = Surroundings()
        self._results = self._bin / "results"
        listed = subprocess.run([str(self._bin / "warpline-worker"), "--list"], check=True,
                                stdout=subprocess.PIPE, text=True).stdout
        self._stoppers = dict(line.split() for line in listed.splitlines())

    def close(self):
        for name in ("attempts", "layers_off"):
            (self._bin / name).unlink(missing_ok=True)
        self._around.close()

    def _process(self, name, timeout_s=300):
        """The id of a process of the server's."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for pid in local_server.descendants(self._server.pid):
                if program_of(pid) == name and not is_zombie(pid):
                    return pid
            time.sleep(0.01)
        raise local_server.Error("the server has no process %s:\n%s"
                                 % (name, self._server.log_tail()))

    def _write_targets(self):
        around = self._around
        targets = {
            "server": self._server.pid, "supervisor": self._process("warpline-supervisor"),
            "keeper": self._process("warpline-keeper"),
            # The neighbour's: a worker of this suite's own is not there yet.
            "neighbour": self._process("warpline-worker"),
            "secret": around.secret, "folder": around.private, "public_folder": around.public,
            "unix_socket": around.path, "abstract_socket": around.abstract,
            "tcp_port": around.tcp_port, "udp_port": around.udp_port, "ipc_key": around.ipc_key,
        }
        (self._bin / "targets").write_text(
            "".join("%s %s\n" % entry for entry in targets.items()))

    def _play(self, attempts, layers_off):
        """What became of the attempts in a worker without these layers: {name: (outcome, detail)}.
        An attempt that ended its worker is not there."""
        self._around.refresh()
        self._results.write_text("")
        self._results.chmod(0o600)
        # A worker of the neighbour's that starts meanwhile is to make no attempts: its program
        # starts with empty files, and this suite's with full ones.
        self._write_targets()
        (self._bin / "layers_off").write_text("\n".join(layers_off) + "\n")
        (self._bin / "attempts").write_text("\n".join(attempts) + "\n")
        try:
            self._session()
        finally:
            (self._bin / "attempts").unlink()
            (self._bin / "layers_off").unlink()
        outcomes = {}
        for line in self._results.read_text().splitlines():
            name, *rest = line.split()
            # A worker of the neighbour's that started meanwhile may have made the attempt once more.
            if rest and outcomes.get(name, ("",))[0] != "succeeded":
                outcomes[name] = tuple(rest)
        return outcomes

    def _works_without_a_jail(self, name):
        self._around.refresh()
        return subprocess.run([str(self._bin / "warpline-worker"), "--try", name],
                              check=False).returncode == 0

    def rows(self):
        jailed = self._play(["all"], [])
        for name, stoppers in self._stoppers.items():
            outcome, detail = jailed.get(name, ("succeeded", "the worker was no more"))
            layers = stoppers.split(",")
            free, free_detail = self._play([name], layers).get(name, ("none", "no answer"))
            text = "%s; without %s: %s" % (detail, stoppers, free)
            if free != "succeeded":
                text += " " + free_detail
            if outcome == "succeeded":
                yield Row(self.name, name, NOT_STOPPED, text)
            elif "not_here" in (free, outcome):
                yield Row(self.name, name, NOT_HERE, text)
            elif free == "succeeded":
                yield Row(self.name, name, STOPPED, text)
            elif not is_root():
                yield Row(self.name, name, NOT_HERE, text + "; it takes root to prove it")
            elif not self._works_without_a_jail(name):
                yield Row(self.name, name, NOT_HERE, text + "; this host stops root, too")
            else:
                yield Row(self.name, name, NOT_STOPPED, text + ": nothing is proved")
