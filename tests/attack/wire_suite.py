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

from suite import NOT_HERE, NOT_STOPPED, STOPPED, Row, outcome_of

TIMEOUT_S = 400


def environment():
    return {k: v for k, v in os.environ.items() if not k.startswith("WARPLINE_")}


class WireSuite:
    name = "wire"

    def __init__(self, installation, server, _session):
        self._root, self._server = installation.root, server
        self._client = str(installation.root / "bin/wire_client")
        self._scale = "--scale=" + os.environ.get("WARPLINE_ATTACK_SCALE", "1")
        listed = subprocess.run([self._client, "--list"], check=True, stdout=subprocess.PIPE,
                                text=True).stdout
        self.attacks = [line.split() for line in listed.splitlines()]

    def close(self):
        pass

    def play(self, name):
        return outcome_of([self._client, "--endpoint=" + self._server.endpoint,
                           "--pid=%d" % self._server.pid, "--log=%s" % self._server.log_path,
                           "--attack=" + name, self._scale], environment(), TIMEOUT_S)

    def _play_without(self, name, flags):
        """Against a server of its own, in a process that ends no other server's children."""
        here = pathlib.Path(__file__).resolve()
        command = [sys.executable, str(here.parents[1] / "with_server.py"),
                   "--bundle=%s" % self._root, "--device=cpu"]
        command += ["--server_flag=" + flag for flag in ["--warm_workers=0", *flags.split(",")]]
        return outcome_of([*command, "--", self._client, "--endpoint={endpoint}", "--pid={pid}",
                           "--log={log}", "--attack=" + name, self._scale], environment(), TIMEOUT_S)

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
                free, free_detail = self._play_without(name, without)
                text += "; with %s: %s" % (without.replace(",", " "), free)
                if free != "succeeded":
                    verdict = NOT_STOPPED
                    text += " " + free_detail + ": nothing is proved"
            yield Row(self.name, name, verdict, text)
