#!/usr/bin/env python3
"""Starts a bundle's server, runs one command, and ends the server.

  with_server.py --bundle=DIR [--device=cuda|cpu|auto] -- COMMAND ...

In the command {lib} stands for the bundle's folder of libcuda.so.1 and {endpoint} for the server, whose
process is {pid} and whose log is the file {log}:

  with_server.py --bundle=warpline -- tests/conformance/run.py --remote={endpoint} --lib={lib}
"""
import argparse
import importlib
import pathlib
import subprocess
import sys


def find_local_server(bundle):
    """The module local_server, which lies in the bundle, else in this repository."""
    deploy = pathlib.Path(__file__).resolve().parent.parent / "deploy/local"
    sys.path[:0] = [str(bundle), str(deploy)]
    return importlib.import_module("local_server")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", type=pathlib.Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--server_flag", action="append", default=[], help="one more for the server")
    parser.add_argument("--log", action="store_true", help="print the end of the server's log")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    local_server = find_local_server(args.bundle.resolve())
    installation = local_server.Installation.from_bundle(args.bundle)
    flags = ["--device=" + args.device, *args.server_flag]
    with local_server.Server(installation, flags) as server:
        command = [word.replace("{lib}", str(installation.root / "lib"))
                   .replace("{endpoint}", server.endpoint).replace("{pid}", str(server.pid))
                   .replace("{log}", str(server.log_path)) for word in args.command]
        status = subprocess.run(command, check=False).returncode
        if not server.running():
            print("with_server: the server has ended", file=sys.stderr)
            status = status or 1
        if args.log or status != 0:
            print(server.log_tail(), file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
