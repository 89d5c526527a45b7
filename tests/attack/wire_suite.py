"""The wire suite: what a client does over the network, or from the server's host (wire.h).

Each attack is made by a process of its own. Some are made once more against a server whose flags
raise the limit that stops them, where they must get through. For the others that is shown by
./dev attack --prove, with servers that lack the defence (prove.py).
WARPLINE_ATTACK_SCALE=10 makes floods ten times as large.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

from suite import NOT_HERE, NOT_STOPPED, STOPPED, Row, outcome_of

TIMEOUT_S = 400
MAKE_CERTS = pathlib.Path(__file__).resolve().parents[2] / "deploy/local/make_certs.sh"


def environment():
    return {k: v for k, v in os.environ.items() if not k.startswith("WARPLINE_")}


class Certificates:
    """Those of a server and a client, for rows whose names begin with tls_: they have a server with TLS,
    whose relays are not over UCX."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="warpline-attack-certificates-")
        subprocess.run(["bash", str(MAKE_CERTS), self._folder.name, "127.0.0.1"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _of(self, end):
        return ["--tls_%s=%s/%s" % (flag, self._folder.name, name)
                for flag, name in (("ca", "ca.crt"), ("cert", end + ".crt"), ("key", end + ".key"))]

    def server(self, row):
        return [*self._of("server"), "--ucx_networks="] if row.startswith("tls_") else []

    def client(self, row):
        return self._of("client") if row.startswith("tls_") else []

    def close(self):
        self._folder.cleanup()


class WireSuite:
    name = "wire"

    def __init__(self, installation, server, _session):
        self._root, self._server = installation.root, server
        self._client = str(installation.root / "bin/wire_client")
        self._scale = "--scale=" + os.environ.get("WARPLINE_ATTACK_SCALE", "1")
        listed = subprocess.run([self._client, "--list"], check=True, stdout=subprocess.PIPE,
                                text=True).stdout
        self.attacks = [line.split() for line in listed.splitlines()]

        self.certificates = Certificates()

    def close(self):
        self.certificates.close()

    def play(self, name):
        if self.certificates.server(name):
            return self._play_apart(name, self.certificates.server(name))
        return outcome_of([self._client, "--endpoint=" + self._server.endpoint,
                           "--pid=%d" % self._server.pid, "--log=%s" % self._server.log_path,
                           "--attack=" + name, self._scale], environment(), TIMEOUT_S)

    def _play_apart(self, name, flags):
        """Against a server of its own, in a process that ends no other server's children."""
        here = pathlib.Path(__file__).resolve()
        command = [sys.executable, str(here.parents[1] / "with_server.py"),
                   "--bundle=%s" % self._root, "--device=cpu"]
        command += ["--server_flag=" + flag for flag in ["--warm_workers=0", *flags]]
        return outcome_of([*command, "--", self._client, "--endpoint={endpoint}", "--pid={pid}",
                           "--log={log}", "--attack=" + name, self._scale,
                           *self.certificates.client(name)], environment(), TIMEOUT_S)

    def rows(self):
        for name, finding, without in self.attacks:
            outcome, detail = self.play(name)
            text = detail if finding == "-" else "%s; %s" % (finding, detail)
            if outcome == "not_here":
                yield Row(self.name, name, NOT_HERE, text)
                continue
            verdict = STOPPED if outcome == "stopped" else NOT_STOPPED
            if outcome == "unprepared":
                text += "; not prepared, so nothing is shown"
            if without != "-":
                free, free_detail = self._play_apart(name, without.split(","))
                text += "; with %s: %s" % (without.replace(",", " "), free)
                if free != "succeeded":
                    verdict = NOT_STOPPED
                    text += " " + free_detail + ": nothing is proved"
            yield Row(self.name, name, verdict, text)
