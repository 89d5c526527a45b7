#!/usr/bin/env python3
"""How long a tiny kernel takes beside a neighbour that keeps the GPU busy, by tier.

  neighbours.py --bundle=DIR --program=neighbour [--tiers=guarded,isolated,native,mps] [--seconds=3]
                [--small=tiny] [--server_flag=FLAG ...] [--json=FILE] [--md=FILE]

For each tier a server is started, and in it, one after the other, a tiny program alone, each busy
program alone, and the tiny one beside each busy one. With --small=first the program beside the busy
ones launches each of its kernels once; then the columns of the device are those of the same kernels
launched again. Prints a table of what a tiny kernel took on
the device (from an event before it to one behind it) and in the program (launch and wait), and how
much of its rate alone each of them kept. `native` stands for two programs without Warpline, `mps`
for two under a Multi-Process Service of NVIDIA's that is started for them in folders of its own, and
`tenants` for two of the isolated tier that have leases of their own, and so take turns.
"""
import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from pool import Pool  # noqa: E402  (found by the path above)

KINDS = ("compute", "memory", "atomics", "shared", "copies", "launches", "allocations")
# A busy program has begun by then.
HEAD_START_S = 1.5


def last_json(text):
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    raise ValueError("no result in %r" % text[-300:])


class Programs:
    """Runs the program with what its environment says."""

    def __init__(self, program, env):
        self._program = str(program)
        self._env = env

    def start(self, role, seconds):
        return subprocess.Popen([self._program, "--role=" + role, "--seconds=%g" % seconds], env=self._env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)

    @staticmethod
    def finish(process, timeout_s):
        try:
            said, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
        if process.returncode != 0:
            raise RuntimeError("ended with %s: %s" % (process.returncode, said[-300:]))
        return last_json(said)

    def alone(self, role, seconds):
        return self.finish(self.start(role, seconds), seconds + 60)

    def beside(self, small, kind, seconds):
        busy = self.start(kind, seconds + 2 * HEAD_START_S)
        time.sleep(HEAD_START_S)
        tiny = self.finish(self.start(small, seconds), seconds + 60)
        return tiny, self.finish(busy, seconds + 60)


class TenantsPrograms(Programs):
    """Busy programs are of one tenant of a pool, the others of another one."""

    def __init__(self, program, pool):
        super().__init__(program, None)
        self._pool = pool

    def start(self, role, seconds):
        return self._pool.start(1 if role in KINDS else 0, "isolated", self._program, "--role=" + role,
                                "--seconds=%g" % seconds)


def kept(beside, alone):
    """The part of its rate alone."""
    return beside["rounds_a_second"] / alone["rounds_a_second"] if alone["rounds_a_second"] else 0


def measure(programs, small, kinds, seconds):
    """Rows by kind: what the small program and the busy one had; what failed, in words."""
    tiny_alone = programs.alone(small, seconds)
    rows = {"alone": {"tiny": tiny_alone}}
    for kind in kinds:
        try:
            alone = programs.alone(kind, seconds)
            tiny, busy = programs.beside(small, kind, seconds)
        except (RuntimeError, ValueError) as error:
            rows[kind] = {"failed": str(error)}
            continue
        rows[kind] = {"tiny": tiny, "busy_kept": kept(busy, alone), "tiny_kept": kept(tiny, tiny_alone)}
    return rows


def table(results):
    lines = ["| tier | beside | device p50, us | p95 | max | program p50, us | p95 | it keeps | busy one keeps |",
             "|---|---|---|---|---|---|---|---|---|"]
    for tier, rows in results.items():
        for kind, row in rows.items():
            if "failed" in row:
                lines.append("| %s | %s | failed: %s | | | | | | |" % (tier, kind, row["failed"][:80]))
                continue
            tiny = row["tiny"]
            device, program = tiny.get("device_us") or tiny["again_us"], tiny["program_us"]
            parts = ["%.2f" % row[part] if part in row else "" for part in ("tiny_kept", "busy_kept")]
            lines.append("| %s | %s | %.1f | %.1f | %.0f | %.1f | %.1f | %s | %s |" % (
                tier, kind, device["p50"], device["p95"], device["max"], program["p50"], program["p95"], *parts))
    return "\n".join(lines)


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("WARPLINE_")}
    env.update(more)
    return env


@contextlib.contextmanager
def multi_process_service():
    """The environment of programs that share one."""
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        env = environment(CUDA_MPS_PIPE_DIRECTORY=folder + "/pipe", CUDA_MPS_LOG_DIRECTORY=folder + "/log")
        for name in ("pipe", "log"):
            os.mkdir("%s/%s" % (folder, name))
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=env, check=True)
        try:
            yield env
        finally:
            subprocess.run(["nvidia-cuda-mps-control"], input="quit -t 5\n", env=env, text=True, timeout=60,
                           check=False)


@contextlib.contextmanager
def guest_of(local_server, bundle, device, tier, server_flags):
    """The environment of programs in that tier of a server of their own."""
    installation = local_server.Installation.from_bundle(bundle)
    flags = ["--device=" + device, "--tiers=isolated,guarded", *server_flags]
    with local_server.Server(installation, flags) as server:
        env = installation.client_environment(server.endpoint)
        env["WARPLINE_TIER"] = tier
        yield env


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path, required=True)
    parser.add_argument("--program", type=pathlib.Path, required=True, help="bench/cuda:neighbour")
    parser.add_argument("--tiers", default="guarded,isolated", help="of native, mps, guarded, isolated, tenants")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--small", default="tiny", choices=("tiny", "request", "first"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--server_flag", action="append", default=[], metavar="FLAG",
                        help="one more for the servers, such as --server_flag=--dispatch=off")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--md", type=pathlib.Path)
    args = parser.parse_args()
    sys.path.insert(0, str(args.bundle))
    import local_server  # pylint: disable=import-error,import-outside-toplevel
    results = {}
    for tier in args.tiers.split(","):
        surroundings = (contextlib.nullcontext(environment()) if tier == "native" else
                        multi_process_service() if tier == "mps" else
                        Pool(local_server, local_server.Installation.from_bundle(args.bundle), [[], []],
                             ["--device=" + args.device, *args.server_flag]) if tier == "tenants" else
                        guest_of(local_server, args.bundle, args.device, tier, args.server_flag))
        with surroundings as place:
            made = TenantsPrograms if tier == "tenants" else Programs
            results[tier] = measure(made(args.program.resolve(), place), args.small, args.kinds.split(","),
                                    args.seconds)
    print(table(results))
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n", encoding="ascii")
    if args.md:
        args.md.write_text(table(results) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
