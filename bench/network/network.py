#!/usr/bin/env python3
"""Figures over a network: client and server in two network namespaces of this machine, joined by a
link, with nothing else in reach (link.py). With TLS, as a server demands that listens there.

  network.py --bundle=DIR --probe=TCP_PROBE [--runs=N] [--connections=N] [--json=FILE]
             [--transport=tls|ucx|grpc] [--link=LINK_MAIN [--delay_us=N] [--rate_mbit=N]]
             [-- ARGUMENTS OF warpline_bench]

Each turn measures the benchmark through Warpline, and what TCP and TLS carry over the same link
(tcp_probe): those figures take the place of native ones, and the spread is from one turn to the
next. Needs root. Sessions go on over TLS connections of their own, over UCX, or stay with gRPC. With
--link (bazel-bin/bench/network/link_main) the link has that delay, each way, and that rate.
"""
import argparse
import contextlib
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).absolute().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cuda"), str(HERE.parent.parent / "deploy/local")]
import compare  # noqa: E402
import link as links  # noqa: E402
import local_server  # noqa: E402
import paired  # noqa: E402

SERVER = links.SERVER
# How sessions go on, and what WARPLINE_TRANSFER says for that.
TRANSFERS = {"tls": "relay", "ucx": "relay", "grpc": "0"}
PORTS = {"tcp": 7137, "tls": 7138}
CALL_US = 12  # What a call may cost beyond the network's round trip.
SHARE = 0.9  # Of what TCP carries, what copies are to carry.
# Figure -> the figure of tcp_probe that stands beside it, of "tls" or "tcp".
BESIDE = {"d2h_4B": "tcp_round_trip", "h2d_pinned_256MiB": "%s_out", "d2h_pinned_256MiB": "%s_in"}


@contextlib.contextmanager
def running(command, ready=""):
    """A program that serves until the context ends. Gives the line that it prints once it does, in
    which `ready` is."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        said = process.stdout.readline()
        if not said or ready not in said:
            raise local_server.Error("%s: %s" % (shlex.join(command), said.strip()))
        yield said.strip()
    finally:
        process.kill()
        process.wait()


def rows_of(runs, remote_runs, prefix, carrier):
    """The rows of all figures; those that plain TCP, or `carrier`, stands beside have it in place of
    native."""
    rows = []
    for name in remote_runs[0]:
        unit = remote_runs[0][name][1]
        remote = [run[name][0] for run in remote_runs]
        beside = BESIDE[name].replace("%s", carrier) if name in BESIDE else None
        native = [run[beside][0] for run in runs if beside in run]
        row = paired.row(prefix + name, unit, native, remote, native[1:])
        if native:
            row["goal"] = ((row["native"] + CALL_US) / row["native"] if beside == "tcp_round_trip"
                           else 1 / SHARE)
        rows.append(row)
    return rows


def run(command, server):
    """The figures that a program prints."""
    figures, why = compare.run_once(command, 300)
    if why is not None:
        raise local_server.Error("%s\n%s" % (why, server.log_tail()))
    return figures


def measure(args, link, folder):
    installation = local_server.Installation.from_bundle(args.bundle)
    installation.check(["bin/warpline_bench"])
    links.sh("bash", str(installation.root / "make_certs.sh"), folder, SERVER)
    certificate = ["--tls_cert=%s/server.crt" % folder, "--tls_key=%s/server.key" % folder]
    flags = ["--tls_ca=%s/ca.crt" % folder, *certificate, "--device=" + args.device,
             *args.server_flag]
    if args.transport == "ucx":
        flags.append("--ucx_networks=%s/28" % SERVER)
    probe = [*link.server, str(args.probe.absolute())]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(links.RemoteServer(installation, flags, link.server))
        probes = []
        for name, further in (("tcp", []), ("tls", certificate)):
            listens = "%s:%d" % (SERVER, PORTS[name])
            stack.enter_context(running([*probe, "--listen=" + listens, *further], "listening"))
            probes.append([*link.client, str(args.probe.absolute()), "--connect=" + listens,
                           "--mib=%d" % links.mib_to_carry(args),
                           "--connections=%d" % args.connections, *(["--tls"] if further else [])])
        client = installation.client_environment(server.endpoint)
        stat = pathlib.Path(folder, "stat")
        settings = ["%s=%s" % each for each in (
            ("WARPLINE_STAT", stat), ("WARPLINE_TRANSFER", TRANSFERS[args.transport]),
            ("LD_LIBRARY_PATH", client["LD_LIBRARY_PATH"]), ("WARPLINE_ENDPOINT", server.endpoint),
            ("WARPLINE_TLS_CA", folder + "/ca.crt"), ("WARPLINE_TLS_CERT", folder + "/client.crt"),
            ("WARPLINE_TLS_KEY", folder + "/client.key"))]
        bench = [*link.client, "env", *settings, str(installation.root / "bin/warpline_bench")]
        plain, remote = [], []
        for _ in range(args.runs):
            carried = {}
            for command in probes:
                carried.update(run(command, server))
            plain.append(carried)
            remote.append(run(bench + args.arguments, server))
            if "(now %s)" % args.transport not in stat.read_text(encoding="utf-8"):
                raise local_server.Error("no session over %s\n%s" % (args.transport, server.log_tail()))
            stat.unlink()
        return plain, remote


def main():
    local_server.stop_on_signals()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", required=True, help="made by ./dev bundle")
    parser.add_argument("--probe", type=pathlib.Path, required=True,
                        help="bazel-bin/bench/network/tcp_probe")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--server_flag", metavar="FLAG", action="append", default=[])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--connections", type=int, default=4, help="of tcp_probe, for its rates")
    links.add_flags(parser)
    parser.add_argument("--transport", choices=TRANSFERS, default="tls")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="for the rows as JSON")
    parser.add_argument("arguments", nargs="*", help="passed to warpline_bench")
    args = parser.parse_args()
    emulation = links.emulation_of(args, parser)
    try:
        with tempfile.TemporaryDirectory(prefix="warpline-network-") as folder, \
                links.Link(emulation) as link:
            plain, remote = measure(args, link, folder)
    except (local_server.Error, OSError) as error:
        print("network: FAILED (%s)" % error)
        return 1
    prefix = "network_" + (emulation.name if emulation else "")
    # Over UCX nothing is encrypted.
    rows = rows_of(plain, remote, ("" if args.transport == "tls" else args.transport + "_") + prefix,
                   "tcp" if args.transport == "ucx" else "tls")
    compare.print_table(rows, True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
