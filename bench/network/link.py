"""Two network namespaces of this machine and the link between them, with nothing else in reach: no
loopback of the other, no shared memory, no unix socket. Needs root.

The link is a virtual Ethernet, which is as fast as the machine; or an emulated one, link_main, which
has the delay, the rate and the faults of a real one. Not thread-safe.
"""
import contextlib
import os
import pathlib
import shlex
import subprocess

import local_server  # The importer has made it found.

SERVER, CLIENT = "10.213.7.1", "10.213.7.2"
SERVER_6, CLIENT_6 = "fd00:d5::1", "fd00:d5::2"
NAME = "wl0"
# Where the link's threads may have processors for themselves, they wait for packets without sleeping.
SPARE_PROCESSORS = 8
# Larger packets take longer on a line of some rate than they should.
LARGEST_AT_A_RATE = 32768


def sh(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode != 0:
        raise local_server.Error("%s: %s" % (shlex.join(command), done.stdout.strip()))


class Emulation:
    """How an emulated link behaves; `program` is link_main. No rate: as fast as the machine."""

    def __init__(self, program, delay_us=0, rate_mbit=0, loss=0, forget_s=0, seed=1):
        self.program = pathlib.Path(program).absolute()
        self.delay_us, self.rate_mbit = delay_us, rate_mbit
        self._loss, self._forget_s, self._seed = loss, forget_s, seed

    @property
    def name(self):
        """For the names of figures."""
        return "%s%gus_" % ("%gmbit_" % self.rate_mbit if self.rate_mbit else "", self.delay_us)

    def command(self, server, client):
        poll_us = 3 * self.delay_us + 200 if os.cpu_count() >= SPARE_PROCESSORS else 20
        return [str(self.program), "--namespaces=%d,%d" % (server, client), "--name=" + NAME,
                "--delay_us=%g" % self.delay_us, "--rate_mbit=%g" % self.rate_mbit,
                "--loss=%g" % self._loss, "--forget_s=%g" % self._forget_s, "--seed=%d" % self._seed,
                "--poll_us=%g" % poll_us]


def add_flags(parser):
    parser.add_argument("--link", type=pathlib.Path, metavar="LINK_MAIN",
                        help="bazel-bin/bench/network/link_main, for a link with these properties:")
    parser.add_argument("--delay_us", type=float, default=0, help="each way")
    parser.add_argument("--rate_mbit", type=float, default=0, help="0 for as fast as this machine")


def emulation_of(args, parser):
    """The emulation that the flags ask for, or None for a virtual Ethernet."""
    if args.link is None:
        if args.delay_us or args.rate_mbit:
            parser.error("--delay_us and --rate_mbit need --link")
        return None
    return Emulation(args.link, delay_us=args.delay_us, rate_mbit=args.rate_mbit)


def mib_to_carry(args):
    """How much tcp_probe is to carry each way, which takes a slow link some seconds."""
    return max(1, min(1024, round(args.rate_mbit / 4))) if args.rate_mbit else 1024


class RemoteServer(local_server.Server):
    """A server in the namespace that `enter` enters. `endpoint` is where the other one reaches it."""

    def __init__(self, installation, flags, enter, address=SERVER):
        self._host = "[%s]" % address if ":" in address else address
        super().__init__(installation, [*flags, "--listen=%s:0" % self._host], prefix=enter)

    def __enter__(self):
        super().__enter__()
        self.endpoint = "%s:%s" % (self._host, self.endpoint.rsplit(":", 1)[1])
        return self

    def _try(self, port):
        """It has its port once it listens, and cannot be reached from here."""


class Link:
    """Two namespaces and the link between them, for as long as the context lasts. `server` and
    `client` are commands that start a program in one of them."""

    def __init__(self, emulation=None):
        self._emulation = emulation
        self._ends = contextlib.ExitStack()
        self._process = None

    def _namespace(self):
        # UCX looks into /sys, which shows the namespace in which it was mounted.
        holder = subprocess.Popen(["unshare", "--net", "--ipc", "--mount", "--", "sh", "-c",
                                   "mount -t sysfs sysfs /sys && ip link set lo up && echo up && "
                                   "exec cat"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._ends.callback(holder.stdout.close)
        self._ends.callback(holder.wait)
        self._ends.callback(holder.stdin.close)
        if holder.stdout.readline() != "up\n":
            raise local_server.Error("no network namespace can be made; is this root?")
        # Its input ends with this process, and the namespace with it.
        enter = ["nsenter", "--net=/proc/%d/ns/net" % holder.pid,
                 "--ipc=/proc/%d/ns/ipc" % holder.pid, "--mount=/proc/%d/ns/mnt" % holder.pid, "--"]
        return holder.pid, enter

    def _join(self, server, client):
        """A device called NAME in each of the two namespaces."""
        if self._emulation is None:
            sh("ip", "link", "add", NAME, "netns", str(server), "type", "veth", "peer", "name", NAME,
               "netns", str(client))
            return
        command = self._emulation.command(server, client)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT, text=True)
        self._ends.callback(self._process.stdout.close)
        self._ends.callback(self._process.wait)
        self._ends.callback(self._process.stdin.close)
        said = self._process.stdout.readline().strip()
        if said != "ready":
            raise local_server.Error("%s: %s" % (shlex.join(command), said))
        if self._emulation.rate_mbit:
            for enter in (self.server, self.client):
                sh(*enter, "ip", "link", "set", NAME, "gso_max_size", str(LARGEST_AT_A_RATE))

    def __enter__(self):
        try:
            server, self.server = self._namespace()
            client, self.client = self._namespace()
            self._join(server, client)
            for enter, addresses in ((self.server, (SERVER, SERVER_6)),
                                     (self.client, (CLIENT, CLIENT_6))):
                for address in addresses:
                    self.add_address(enter, address)
                sh(*enter, "ip", "link", "set", NAME, "up")
        except BaseException:
            self._ends.close()
            raise
        return self

    def __exit__(self, *_):
        self._ends.close()

    @staticmethod
    def add_address(enter, address):
        further = ["/64", "nodad"] if ":" in address else ["/28"]
        sh(*enter, "ip", "addr", "add", address + further[0], "dev", NAME, *further[1:])

    @staticmethod
    def remove_address(enter, address):
        sh(*enter, "ip", "addr", "del", address + ("/64" if ":" in address else "/28"), "dev", NAME)

    @staticmethod
    def prefer_losses(enter):
        """Has TCP take losses for a full link, as most systems do."""
        sh(*enter, "sh", "-c", "echo reno >/proc/sys/net/ipv4/tcp_congestion_control")

    def tell(self, command):
        """Returns what an emulated link answers to a line of its input: see link_main."""
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if answer != "ok" and command != "counts":
            raise local_server.Error("%s: %s" % (command, answer))
        return answer

    def counts(self):
        """Packets so far: {"passed": 10, "lost": 1, "forgotten": 0}."""
        words = self.tell("counts").split()
        return {name: int(count) for name, count in zip(words[::2], words[1::2])}
