"""The two ways to run a program: natively, and with `warpline run --` in front. For run.py, op_db.py
and bench/frameworks.py. Thread-safe."""
import contextlib
import importlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CASES = ROOT / "tests/gpu/cases"
_COUNT = """
import ctypes
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
print(count.value if cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0)
"""


def add_arguments(parser):
    parser.add_argument("--bundle", type=pathlib.Path, required=True, help="made by ./dev bundle")
    parser.add_argument("--endpoint", help="a server that runs already (default: the bundle's)")
    parser.add_argument("--device", default="auto", help="of the bundle's server")
    parser.add_argument("--server_flag", action="append", default=[], help="one more for the server")
    parser.add_argument("--run_flag", action="append", default=[], help="one more for `warpline run`")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the programs")


class Sides:
    """Commands and environments of both sides. `folder` keeps what the programs cache, apart for
    each side and each use, so that the remote side compiles for itself."""

    def __init__(self, args, endpoint, folder):
        self._args = args
        self._endpoint = endpoint
        self._folder = pathlib.Path(folder)

    def command(self, side, script, *arguments, gpus=1):
        plain = [self._args.python, str(script), *map(str, arguments)]
        if side == "native":
            return plain
        several = ["--gpus=%d" % gpus] if gpus > 1 else []
        return [str(self._args.bundle.resolve() / "bin/warpline"), "run", *several,
                *self._args.run_flag, "--", *plain]

    def environment(self, side, use, further=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith("WARPLINE_")}
        caches = self._folder / use / side
        caches.mkdir(parents=True, exist_ok=True)
        env.update({
            "PYTHONUNBUFFERED": "1",
            "PYTHONHASHSEED": "0",  # PyTorch's samples come in the order of sets.
            "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
            "TRITON_CACHE_DIR": str(caches / "triton"),
            "CUPY_CACHE_DIR": str(caches / "cupy"),
            "CUDA_CACHE_PATH": str(caches / "cuda"),
            "TMPDIR": str(caches),
            # Workspaces of fixed size: cuBLAS then gives the same bits each time.
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            "XLA_FLAGS": (env.get("XLA_FLAGS", "") + " --xla_gpu_deterministic_ops=true").strip(),
        })
        env.update(further or {})
        if side == "remote":
            for name in ("WARPLINE_STAT", "WARPLINE_LOG"):
                if name in os.environ:
                    env[name] = os.environ[name]
            env["WARPLINE_ENDPOINT"] = self._endpoint
        return env

    def run(self, side, script, arguments, use, timeout_s, further=None, gpus=1):
        """(exit status or "timeout", stdout, stderr, seconds) of a program and what it starts. Natively
        it has all GPUs, whatever `gpus` says."""
        started = time.monotonic()
        process = subprocess.Popen(
            self.command(side, script, *arguments, gpus=gpus),
            env=self.environment(side, use, further),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True)
        try:
            output, errors = process.communicate(timeout=timeout_s)
            status = process.returncode
        except subprocess.TimeoutExpired:
            end_group(process)
            output, errors = process.communicate()
            status = "timeout"
        # Whatever the program left behind still holds the device.
        end_group(process)
        return (status, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace"),
                time.monotonic() - started)


def end_group(process):
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def gpus(sides, side, use="count"):
    """How many GPUs a program sees."""
    done = subprocess.run(sides.command(side, "-c", _COUNT), env=sides.environment(side, use),
                          stdout=subprocess.PIPE, text=True, check=False)
    with contextlib.suppress(ValueError, IndexError):
        return int(done.stdout.split()[-1])
    return 0


def has_module(python, module):
    return subprocess.run([python, "-c", "import importlib.util, sys; sys.exit("
                           "importlib.util.find_spec(%r) is None)" % module],
                          check=False).returncode == 0


@contextlib.contextmanager
def opened(args):
    """The sides, with a server for as long as the context lasts. Prints the end of the server's log
    if it has ended by itself."""
    with tempfile.TemporaryDirectory(prefix="warpline-gpu-", ignore_cleanup_errors=True) as folder:
        if args.endpoint:
            yield Sides(args, args.endpoint, folder)
            return
        # The module lies in the bundle, else in this repository.
        sys.path[:0] = [str(args.bundle.resolve()), str(ROOT / "deploy/local")]
        local_server = importlib.import_module("local_server")
        installation = local_server.Installation.from_bundle(args.bundle)
        flags = ["--device=" + args.device, *args.server_flag]
        with local_server.Server(installation, flags) as server:
            yield Sides(args, server.endpoint, folder)
            if not server.running():
                print("the server has ended:\n" + server.log_tail(), file=sys.stderr)
