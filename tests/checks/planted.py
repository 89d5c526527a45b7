#!/usr/bin/env python3
"""Runs the programs with planted mistakes and judges what `warpline run --check` says of each.

  planted.py --program=planted --remote=HOST:PORT --lib=DIR [--native]

Prints a line for each: what the check must tell (kernel, source line, thread, address) and whether
it did; with --native also what the program's own last CUDA call gives without Warpline. Exit status
1 if a mistake was not told as it must be, or one was told where there is none.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

FOUND = re.compile(r"warpline: check: (\S+) (\w+) of (\d+) bytes at (shared memory's )?0x([0-9a-f]+)"
                   r".* in (\S+) at (\S+)(?: \(\S+\))? \(line \d+ of its PTX: .*\), "
                   r"block: \[\d+,\d+,\d+\], thread: \[(\d+),\d+,\d+\]")


def mistakes(source):
    """The line of the source with each mistake, by the program's name."""
    lines = source.read_text(encoding="utf-8").splitlines()
    return {match[1]: number for number, line in enumerate(lines, 1)
            if (match := re.search(r"// Mistake: (\w+)", line))}


def environment(lib, endpoint, mode):
    env = {k: v for k, v in os.environ.items() if not k.startswith("WARPLINE_")}
    env.update(LD_LIBRARY_PATH=str(lib), WARPLINE_ENDPOINT=endpoint, WARPLINE_GUARD=mode)
    return env


def run(program, name, env):
    return subprocess.run([str(program), name], env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120,
                          check=False)


def names(program, env):
    """The programs that there are; asking for none lists them."""
    return run(program, "", env).stdout.split()


def wrong_with(name, done, line):
    """What is wrong with what the check has told; "" if nothing is."""
    told = [text for text in done.stderr.splitlines() if text.startswith("warpline: ")]
    expected = re.search(r"^expect (\S+) (\d+) (\S+) (-?\d+)$", done.stdout, re.MULTILINE)
    if expected is None:
        good = not told and done.stdout.strip() == "cudaSuccess"
        return "" if good else "told of a mistake where there is none: %s" % (told or done.stdout)
    found = next((match for text in told if (match := FOUND.match(text))), None)
    if found is None:
        return "not found: %s" % (told or done.stdout)
    kind, size, address, thread = expected.groups()
    where = "shared" if found[4] else hex(int(found[5], 16))
    saw = {"kind": found[1], "bytes": found[3], "address": where, "source": found[7],
           "thread": found[8]}
    wants = {"kind": kind, "bytes": size, "address": address, "source": "planted.cu:%d" % line}
    # Of several threads with the same mistake any may be told first.
    if thread != "-1" and "more threads" not in done.stderr:
        wants["thread"] = thread
    if kind == "out-of-bounds" and "more threads" in done.stderr and address != "shared":
        first = int(address, 16)
        if not first <= int(found[5], 16) < first + 4096:
            return "address %s, expected one from %s on" % (saw["address"], address)
        del wants["address"]
    return "; ".join("%s %s, expected %s" % (key, saw[key], value)
                     for key, value in wants.items() if saw[key] != value)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--remote", metavar="ENDPOINT", required=True)
    parser.add_argument("--lib", required=True, help="folder of our libcuda.so.1")
    parser.add_argument("--native", action="store_true", help="run each natively as well")
    args = parser.parse_args()
    lines = mistakes(pathlib.Path(__file__).resolve().with_name("planted.cu"))
    env = environment(args.lib, args.remote, "report")
    failures = 0
    for name in names(args.program, env):
        done = run(args.program, name, env)
        wrong = wrong_with(name, done, lines.get(name, 0))
        failures += wrong != ""
        native = ""
        if args.native:
            without = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
            native = run(args.program, name, without).stdout.split()[-1]
        print("%-11s %-28s %s" % (name, native, wrong or "as it must be"), flush=True)
    print("checks: %d failures" % failures)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
