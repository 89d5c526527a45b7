#!/usr/bin/env python3
"""Measures CUDA calls through a Warpline server on this machine, and natively where that works.

Starts the server, then lets compare.py run warpline_bench both ways and print the figures side by
side, below a head with what was measured on what.
"""
import argparse
import os
import pathlib
import platform
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import local_server  # noqa: E402  (lies beside this file)

PROGRAM = "bin/warpline_bench"
# Run in a process of its own: a library that was loaded cannot be exchanged for another.
PROBE = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
name, version, count = ctypes.create_string_buffer(256), ctypes.c_int(), ctypes.c_int()
ok = cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
ok = ok and cuda.cuDeviceGetName(name, 256, 0) == 0
ok = ok and cuda.cuDriverGetVersion(ctypes.byref(version)) == 0
print("%s, CUDA %d.%d" % (name.value.decode(), version.value // 1000, version.value % 1000 // 10)
      if ok else "")
"""


def native_environment():
    return {k: v for k, v in os.environ.items() if not k.startswith("WARPLINE_")}


def probe(env):
    """Name and CUDA version of the first device that a program with this environment sees; empty
    if there is none."""
    try:
        done = subprocess.run([sys.executable, "-c", PROBE], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.strip()


def kernel_driver():
    try:
        text = pathlib.Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
        return text.splitlines()[0].split(":", 1)[1].strip()
    except (OSError, IndexError):
        return "none"


def commit(root):
    marker = root / "BUNDLE.txt"
    if marker.is_file():
        return marker.read_text(encoding="utf-8").strip()
    done = subprocess.run(["git", "-c", "safe.directory=*", "describe", "--always", "--dirty"],
                          cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          check=False)
    return "commit " + (done.stdout.strip() or "unknown")


def print_head(installation, native, remote):
    print("command:  %s" % shlex.join(["./dev", "bench", *sys.argv[1:]]))
    print("source:   %s" % commit(installation.root))
    print("machine:  %d CPUs, Linux %s" % (os.cpu_count() or 0, platform.release()))
    print("driver:   %s" % kernel_driver())
    print("native:   %s" % (native or "no device"))
    print("remote:   %s" % (remote or "no device"), flush=True)


def compare(installation, endpoint, arguments):
    script = next(path for path in (HERE / "compare.py", HERE.parent.parent / "bench/cuda/compare.py")
                  if path.is_file())
    program = str(installation.root / PROGRAM)
    client = installation.client_environment(endpoint)
    native, remote = probe(native_environment()), probe(client)
    print_head(installation, native, remote)
    settings = ["%s=%s" % (name, client[name]) for name in ("LD_LIBRARY_PATH", "WARPLINE_ENDPOINT")]
    command = [sys.executable, str(script),
               "--remote=" + shlex.join(["env", "-u", "LD_PRELOAD", *settings, program])]
    if native:
        command.append("--native=" + shlex.join(["env", "-u", "WARPLINE_ENDPOINT", program]))
    return subprocess.run(command + arguments, check=False).returncode


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="./dev bench", description=__doc__.splitlines()[0],
        epilog="Further options (--runs=N, --json, -- ARGUMENTS OF warpline_bench) go to compare.py.")
    parser.add_argument("--bundle", metavar="DIR",
                        help="run from a folder made by ./dev bundle (default: this file's)")
    parser.add_argument("--bazel_bin", metavar="DIR", help=argparse.SUPPRESS)
    parser.add_argument("--device", default="auto",
                        help="where the server runs kernels (default: a GPU if there is one)")
    parser.add_argument("--server_flag", metavar="FLAG", action="append", default=[],
                        help="a further flag for the server (may be repeated)")
    args, rest = parser.parse_known_args()
    return args, rest


def main():
    local_server.stop_on_signals()
    args, rest = parse_arguments()
    try:
        if args.bazel_bin:
            installation = local_server.Installation.from_bazel_bin(
                args.bazel_bin, {PROGRAM: "bench/cuda/warpline_bench"})
        else:
            installation = local_server.Installation.from_bundle(args.bundle or HERE)
            installation.check([PROGRAM])
        try:
            flags = ["--device=" + args.device, *args.server_flag]
            with local_server.Server(installation, flags) as server:
                status = compare(installation, server.endpoint, rest)
                if status != 0 and server.log_tail():
                    print("last lines of the server's log:\n" + server.log_tail())
                return status
        finally:
            installation.close()
    except (local_server.Error, OSError) as error:
        print("bench: FAILED (%s)" % error)
    except KeyboardInterrupt:
        print("bench: FAILED (interrupted)")
    return 1


if __name__ == "__main__":
    sys.exit(main())
