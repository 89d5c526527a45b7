#!/usr/bin/env python3
"""The steps of PyTorch programs from another host, beside the same natively and beside what is
possible: client and server in two network namespaces (network.py).

  frameworks.py --bundle=DIR --probe=TCP_PROBE [--transports=tls,grpc,ucx] [--runs=N] [--steps=N]
                [--json=FILE] [NAME ...]

The bound of a step is its native time, or the time in which the network carries its bytes where that
is longer, and a round trip for each wait that the program itself makes. Rates and round trips are
those of tcp_probe in the same run, with TLS or for UCX without. Takes the `python3` of PATH, which
has PyTorch. Needs root.
"""
import argparse
import contextlib
import json
import pathlib
import statistics
import sys
import tempfile

import network

STEPS = pathlib.Path(__file__).absolute().parent / "framework_steps.py"
PROBE_SECONDS, PROGRAM_SECONDS = 60, 300


def figures(command, seconds):
    found, why = network.compare.run_once([str(each) for each in command], seconds)
    if why is not None:
        raise network.local_server.Error(why)
    return found


def steps_of(command):
    """Name -> what framework_steps.py says of it."""
    done = network.subprocess.run([str(each) for each in command], stdout=network.subprocess.PIPE,
                                  stderr=network.subprocess.PIPE, text=True, check=False,
                                  timeout=PROGRAM_SECONDS)
    if done.returncode != 0:
        raise network.local_server.Error(done.stderr.strip()[-2000:])
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {row["name"]: row for row in rows}


def bound_of(native, rate_gb_s, round_trip_us):
    carried_ms = native["bytes"] / rate_gb_s / 1e6
    return max(native["ms"], carried_ms) + native["waits"] * round_trip_us / 1e3


def measure(args, link, folder, stack):
    installation = network.local_server.Installation.from_bundle(args.bundle)
    network.sh("bash", str(installation.root / "make_certs.sh"), folder, network.SERVER)
    certificate = ["--tls_cert=%s/server.crt" % folder, "--tls_key=%s/server.key" % folder]
    flags = ["--tls_ca=%s/ca.crt" % folder, *certificate, "--device=cuda"]
    probe = [*link.server, str(args.probe.absolute())]
    probes = {}
    for name, further in (("tcp", []), ("tls", certificate)):
        listens = "%s:%d" % (network.SERVER, network.PORTS[name])
        stack.enter_context(network.running([*probe, "--listen=" + listens, *further], "listening"))
        probes[name] = [*link.client, args.probe.absolute(), "--connect=" + listens,
                        *(["--tls"] if further else [])]
    endpoints = {}
    for transport in args.transports:
        further = ["--ucx_networks=%s/28" % network.SERVER] if transport == "ucx" else []
        server = stack.enter_context(
            network.RemoteServer(installation, [*flags, *further], link.server))
        endpoints[transport] = "%s:%s" % (network.SERVER, server.endpoint.rsplit(":", 1)[1])
    program = ["python3", STEPS, "--steps=%d" % args.steps, *args.names]
    runs = []
    for _ in range(args.runs):
        carried = {name: figures(command, PROBE_SECONDS) for name, command in probes.items()}
        run = {"carried": carried, "native": steps_of(program)}
        for transport, endpoint in endpoints.items():
            run[transport] = steps_of(
                [*link.client, "env", "WARPLINE_TRANSFER=" + network.TRANSFERS[transport],
                 installation.root / "bin/warpline", "run", "--endpoint=" + endpoint,
                 "--tls_ca=%s/ca.crt" % folder, "--tls_cert=%s/client.crt" % folder,
                 "--tls_key=%s/client.key" % folder, "--", *program])
        runs.append(run)
    return runs


def rows_of(runs, transports):
    rows = []
    for name in runs[0]["native"]:
        for transport in transports:
            kind = "tcp" if transport == "ucx" else "tls"
            bounds = [bound_of(run["native"][name], run["carried"][kind][kind + "_out"][0],
                               run["carried"][kind][kind + "_round_trip"][0]) for run in runs]
            native = [run["native"][name]["ms"] for run in runs]
            remote = [run[transport][name]["ms"] for run in runs]
            rows.append({"program": name, "transport": transport,
                         "native_ms": statistics.median(native),
                         "bound_ms": statistics.median(bounds),
                         "remote_ms": statistics.median(remote),
                         "of_native": statistics.median(r / n for r, n in zip(remote, native)),
                         "of_bound": statistics.median(r / b for r, b in zip(remote, bounds)),
                         "control": max(native) / min(native)})
    return rows


def main():
    network.local_server.stop_on_signals()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", required=True, help="made by ./dev bundle")
    parser.add_argument("--probe", type=pathlib.Path, required=True,
                        help="bazel-bin/bench/network/tcp_probe")
    parser.add_argument("--transports", type=lambda text: text.split(","), default=["tls", "grpc"],
                        help="of " + ", ".join(network.TRANSFERS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="for the rows as JSON")
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs of framework_steps.py")
    args = parser.parse_args()
    if not set(args.transports) <= set(network.TRANSFERS):
        parser.error("--transports: expected some of " + ", ".join(network.TRANSFERS))
    try:
        with tempfile.TemporaryDirectory(prefix="warpline-network-") as folder, \
                network.Link() as link, contextlib.ExitStack() as stack:
            runs = measure(args, link, folder, stack)
    except (network.local_server.Error, OSError, network.subprocess.TimeoutExpired) as error:
        print("frameworks: FAILED (%s)" % error)
        return 1
    rows = rows_of(runs, args.transports)
    print("%-20s%-10s%10s%10s%10s%11s%10s%9s" % ("program", "transport", "native ms", "bound ms",
                                               "remote ms", "of native", "of bound", "control"))
    for row in rows:
        print("%-20s%-10s%10.3f%10.3f%10.3f%11.2f%10.2f%9.2f" % tuple(row.values()))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
