"""Warpline's client: CUDA programs of this machine run on the GPU of another.

    import warpline
    warpline.connect("gpuhost:14000")   # Before the first import of a library that uses CUDA.
    import torch
    torch.ones(3, device="cuda")

`warpline run -- python program.py` does the same for a whole program, which then needs none of this.
"""
import json
import os
import pathlib
import subprocess
import sys

__all__ = ["Error", "connect", "libraries", "program"]

_FOLDER = pathlib.Path(__file__).resolve().parent / "_bundle"
# Of CUDA's driver, as libraries ask for them.
_DRIVER = ("libcuda.so.1", "libnvidia-ml.so.1")
# What `warpline run` sets, for a process that it does not start.
_VARIABLES = ("WARPLINE_ENDPOINT", "WARPLINE_LEASE_KEY", "WARPLINE_TOKEN_FILE", "WARPLINE_DRIVER_VERSION",
              "WARPLINE_TIER", "WARPLINE_TLS_CA", "WARPLINE_TLS_CERT", "WARPLINE_TLS_KEY",
              "WARPLINE_TLS_SERVER_NAME")
# Tells its variables, and keeps the lease until the end of its input: that of this process.
_HOLDER = """
import json, os, sys
print(json.dumps({name: os.environ[name] for name in sys.argv[1:] if name in os.environ}), flush=True)
sys.stdin.read()
"""
_holder = None


class Error(RuntimeError):
    """Why there is no GPU; the message says what to do."""


def libraries():
    """The folder of libcuda.so.1 and libnvidia-ml.so.1, for LD_LIBRARY_PATH."""
    return str(_FOLDER / "lib")


def program():
    """The path of the command line tool."""
    return str(_FOLDER / "bin/warpline")


def _foreign_driver():
    """The path of a CUDA driver that this process has loaded and that is not ours, or None."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].strip()
            if pathlib.Path(path).name.startswith("libcuda.so"):
                if not path.startswith(str(_FOLDER)):
                    return path
    return None


def _options(endpoint, memory, gpus, device, slice_name):
    given = {"endpoint": endpoint, "memory": memory, "gpus": gpus, "device": device, "slice": slice_name}
    return ["--%s=%s" % (name, value) for name, value in given.items() if value is not None]


def _lease(options):
    """Has `warpline run` hold a lease as long as this process lives. Returns its variables."""
    global _holder
    command = [program(), "run", *options, "--", sys.executable, "-S", "-E", "-c", _HOLDER, *_VARIABLES]
    # The end of the pipe is a number, which the kernel closes with the process: Python would close
    # a file before the driver has said goodbye to its session.
    read_end, _ = os.pipe()
    said = os.memfd_create("warpline-run")
    # In a session of its own, so that an interrupt of this program does not end the lease.
    holder = subprocess.Popen(command, stdin=read_end, stdout=subprocess.PIPE, stderr=said,
                              text=True, start_new_session=True)
    os.close(read_end)
    told = holder.stdout.readline()
    if not told:
        status = holder.wait()
        words = os.pread(said, 4096, 0).decode("utf-8", "replace").strip()
        raise Error(words or "warpline run ended with status %d" % status)
    os.close(said)
    _holder = holder
    return json.loads(told)


def connect(endpoint=None, *, memory=None, gpus=None, device=None, slice=None):  # pylint: disable=redefined-builtin
    """Gives this process, and what it starts from now on, the GPU of a server or scheduler.

    `endpoint`, "host:port" or "unix:/path", is WARPLINE_ENDPOINT if it is not given. `memory` (such as
    "4GiB"), `gpus`, `device` and `slice` are what `warpline run` takes; certificates and credentials are in the
    same variables as for that. The lease ends with this process.

    Raises Error where nobody answers, and where the process has loaded another CUDA driver already:
    call it before the first import of a library that uses CUDA. A second call does nothing.
    """
    if _holder is not None:
        return
    foreign = _foreign_driver()
    if foreign is not None:
        raise Error("this process has loaded %s already: call warpline.connect() before anything that "
                    "uses CUDA is imported, or start the program with `warpline run --`" % foreign)
    import ctypes  # pylint: disable=import-outside-toplevel  (the smallest systems lack it)
    os.environ.update(_lease(_options(endpoint, memory, gpus, device, slice)))
    former = os.environ.get("LD_LIBRARY_PATH")
    os.environ["LD_LIBRARY_PATH"] = libraries() + (":" + former if former else "")
    # From now on whoever asks for the driver by name gets these.
    for name in _DRIVER:
        ctypes.CDLL(os.path.join(libraries(), name), mode=ctypes.RTLD_GLOBAL)
