#!/usr/bin/env python3
"""Runs the stress program natively and remotely and compares the checksums, for several seeds.

  compare.py --program=FILE --remote=HOST:PORT --lib=DIR [--seeds=3] [-- PROGRAM'S FLAGS]
"""
import argparse
import os
import re
import subprocess
import sys
import time


def checksum(program, flags, env):
    """Returns (the checksum or the last line, seconds)."""
    started = time.monotonic()
    done = subprocess.run([program, *flags], env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    text = done.stdout.decode("utf-8", "replace").strip()
    found = re.search(r"stress: ok \(checksum ([0-9a-f]{16})", text)
    good = found[1] if done.returncode == 0 and found else None
    return good, text.splitlines()[-1] if text else "no output", time.monotonic() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--remote", metavar="ENDPOINT", required=True)
    parser.add_argument("--lib", required=True, help="folder of our libcuda.so.1")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("flags", nargs="*")
    args = parser.parse_args()
    plain = {k: v for k, v in os.environ.items() if not k.startswith("WARPLINE_")}
    remote = {**plain, "LD_LIBRARY_PATH": args.lib, "WARPLINE_ENDPOINT": args.remote}
    same = 0
    for seed in range(1, args.seeds + 1):
        flags = ["--seed=%d" % seed, *args.flags]
        native, native_line, native_s = checksum(args.program, flags, plain)
        other, remote_line, remote_s = checksum(args.program, flags, remote)
        good = native is not None and native == other
        same += good
        print("seed %d: %s; native %s (%.1f s), remote %s (%.1f s)" % (
            seed, "same" if good else "DIFFERENT", native or native_line, native_s,
            other or remote_line, remote_s), flush=True)
    print("total: %d of %d the same" % (same, args.seeds))
    return 0 if same == args.seeds else 1


if __name__ == "__main__":
    sys.exit(main())
