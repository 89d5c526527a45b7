#!/usr/bin/env python3
"""The steps of PyTorch programs from another host, beside the same natively and beside what is
possible: client and server in two network namespaces (network.py).

  frameworks.py --bundle=DIR --probe=TCP_PROBE [--transports=tls,grpc,ucx] [--rounds=N]
                [--json=FILE] [--link=LINK_MAIN [--delay_us=N] [--rate_mbit=N]] [NAME ...]

The programs are those of bench/frameworks.py, which take turns as there; their steps all end with one
number that is read back. The bound of a step is its native time, or the time in which the network
carries its bytes where that is longer, and a round trip for that wait. Rates and round trips are those
of tcp_probe in the same run, with TLS or for UCX without. Needs root. With --link
(bazel-bin/bench/network/link_main) the link has that delay, each way, and that rate.
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import sys
import tempfile

import network

sys.path[:0] = [str(network.HERE.parent)]
import frameworks  # noqa: E402  (found by the path above)
import link as links  # noqa: E402
import paired  # noqa: E402

NAMES = ("gpt2_decode_fp16", "gpt2_train", "resnet50_pageable", "tiny_mlp_train")
# Bytes that a step copies from memory of the host.
BYTES = {"resnet50_pageable": 32 * 3 * 224 * 224 * 4}
PROBE_SECONDS = 60


def figures(command, seconds):
    found, why = network.compare.run_once([str(each) for each in command], seconds)
    if why is not None:
        raise network.local_server.Error(why)
    return found


def bound_of(name, native_ms, rate_gb_s, round_trip_us):
    carried_ms = BYTES.get(name, 0) / rate_gb_s / 1e6
    return max(native_ms, carried_ms) + round_trip_us / 1e3


class Sides:
    """Natively, and over each transport, as frameworks.Runner asks for them."""

    def __init__(self, link, installation, settings, endpoints):
        self._link, self._installation = link, installation
        self._settings, self._endpoints = settings, endpoints

    def command(self, kind, program, name):
        run = ["python3", str(program), name]
        if kind == "native":
            return run
        return [*self._link.client, str(self._installation.root / "bin/warpline"), "run",
                "--endpoint=" + self._endpoints[kind], *self._settings, "--", *run]

    def environment(self, kind, _use, further):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("WARPLINE_")}
        return {**kept, **further, "WARPLINE_TRANSFER": network.TRANSFERS.get(kind, "0")}


def measure(args, link, folder, stack):
    installation = network.local_server.Installation.from_bundle(args.bundle)
    links.sh("bash", str(installation.root / "make_certs.sh"), folder, network.SERVER)
    certificate = ["--tls_cert=%s/server.crt" % folder, "--tls_key=%s/server.key" % folder]
    flags = ["--tls_ca=%s/ca.crt" % folder, *certificate, "--device=" + args.device]
    probe = [*link.server, str(args.probe.absolute())]
    probes = {}
    for name, further in (("tcp", []), ("tls", certificate)):
        listens = "%s:%d" % (network.SERVER, network.PORTS[name])
        stack.enter_context(network.running([*probe, "--listen=" + listens, *further], "listening"))
        probes[name] = [*link.client, args.probe.absolute(), "--connect=" + listens,
                        "--mib=%d" % links.mib_to_carry(args), *(["--tls"] if further else [])]
    endpoints = {}
    for transport in args.transports:
        further = ["--ucx_networks=%s/28" % network.SERVER] if transport == "ucx" else []
        server = stack.enter_context(
            links.RemoteServer(installation, [*flags, *further], link.server))
        endpoints[transport] = server.endpoint
    settings = ["--tls_%s=%s/%s" % each for each in (
        ("ca", folder, "ca.crt"), ("cert", folder, "client.crt"), ("key", folder, "client.key"))]
    carried = {name: figures(command, PROBE_SECONDS) for name, command in probes.items()}
    sides = Sides(link, installation, settings, endpoints)
    for name in args.names or NAMES:
        yield from rows_of(name, sides, carried, args)


def rows_of(name, sides, carried, args):
    medians = {side: [] for side in ("native", "control", *args.transports)}
    runners = {}
    try:
        for side in medians:
            runners[side] = frameworks.Runner(sides, side, name)
        for runner in runners.values():
            runner.finish()
        for side in paired.turns(list(medians), args.rounds):
            runners[side].begin(frameworks.STEPS[name])
            medians[side].append(statistics.median(runners[side].finish()))
    finally:
        for runner in runners.values():
            runner.close()
    native = statistics.median(medians["native"])
    for transport in args.transports:
        kind = "tcp" if transport == "ucx" else "tls"
        bound = bound_of(name, native, carried[kind][kind + "_out"][0],
                         carried[kind][kind + "_round_trip"][0])
        remote = statistics.median(medians[transport])
        yield {"program": name, "transport": transport, "native_ms": native, "bound_ms": bound,
               "remote_ms": remote, "of_native": remote / native, "of_bound": remote / bound,
               "control": statistics.median(medians["control"]) / native}


def main():
    network.local_server.stop_on_signals()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", required=True, help="made by ./dev bundle")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--probe", type=pathlib.Path, required=True,
                        help="bazel-bin/bench/network/tcp_probe")
    parser.add_argument("--transports", type=lambda text: text.split(","), default=["tls", "grpc"],
                        help="of " + ", ".join(network.TRANSFERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="for the rows as JSON")
    links.add_flags(parser)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of " + ", ".join(frameworks.STEPS))
    args = parser.parse_args()
    if not set(args.transports) <= set(network.TRANSFERS):
        parser.error("--transports: expected some of " + ", ".join(network.TRANSFERS))
    if not set(args.names) <= set(frameworks.STEPS):
        parser.error("there are the programs " + ", ".join(frameworks.STEPS))
    emulation = links.emulation_of(args, parser)
    try:
        with tempfile.TemporaryDirectory(prefix="warpline-network-") as folder, \
                links.Link(emulation) as link, contextlib.ExitStack() as stack:
            rows = []
            print("%-20s%-10s%10s%10s%10s%11s%10s%9s" % (
                "program", "transport", "native ms", "bound ms", "remote ms", "of native", "of bound",
                "control"), flush=True)
            for row in measure(args, link, folder, stack):
                rows.append(row)
                print("%-20s%-10s%10.3f%10.3f%10.3f%11.2f%10.2f%9.2f" % tuple(row.values()),
                      flush=True)
    except (network.local_server.Error, OSError, RuntimeError) as error:
        print("frameworks: FAILED (%s)" % error)
        return 1
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
