#!/usr/bin/env python3
"""The bundle of the version before and this one's, each with the other, as real processes with the CPU
device:

  tests/versions/against_former.py --former=DIR --current=DIR [CASE ...]

DIR is what `./dev bundle --out DIR` makes. Prints a line for each case; exits with 1 when one failed.
Needs etcd (apt-get install etcd-server) for some cases. docs/versions.md says what is promised.
"""
import argparse
import contextlib
import hashlib
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback

import record
from record import local_server

PROGRAMS = ["vector_add", "allocations", "constants", "driver_api", "errors", "events_and_memset",
            "free_in_flight", "histogram", "host_functions", "launches", "malloc_async",
            "matmul_tiled", "pageable_copies", "reduction", "two_streams"]
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def check(condition, *said):
    if not condition:
        raise AssertionError(" ".join(str(what) for what in said))


class Run:
    """One case: two installations and a folder, and what ends with it."""

    def __init__(self, former, current, folder):
        self.former, self.current, self.folder = former, current, folder
        self.stack = contextlib.ExitStack()
        self.count = 0

    def both_ways(self):
        """(name, one, other): the former with this one, and the reverse."""
        return [("former-with-current", self.former, self.current),
                ("current-with-former", self.current, self.former)]

    def server(self, installation, *flags):
        server = local_server.Server(installation, ["--device=cpu", *flags])
        server.__enter__()
        self.stack.callback(server.__exit__, None, None, None)
        return server

    def scheduler(self, installation, state=None, own=None):
        self.count += 1
        own = own or self.folder / ("scheduler%d" % self.count)
        scheduler = record.Scheduler(installation.root, own, state or str(own))
        self.stack.callback(lambda: scheduler.process.poll() is None and scheduler.kill())
        return scheduler

    def etcd(self):
        etcd = record.Etcd(self.folder)
        self.stack.callback(etcd.close)
        return etcd


def environment(installation, endpoint, **more):
    return {**installation.client_environment(endpoint), **more}


def run_program(installation, program, env, *arguments, prefix=()):
    done = subprocess.run([*prefix, str(program), *arguments], env=env, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120)
    check(done.returncode == 0 and ": ok" in done.stdout, program, done.returncode, done.stdout,
          done.stderr)


def start_long(installation, env, seconds, prefix=()):
    """A program that computes, rests and checks for so long, with streams, events and a module."""
    return subprocess.Popen(
        [*prefix, str(installation.root / "bin/long_program"), "--seconds=%g" % seconds,
         "--words=2048"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True)


def expect_ok(process, name="long_program"):
    output, _ = process.communicate(timeout=180)
    check(process.returncode == 0 and name + ": ok" in output, process.returncode, output)


def warpline(installation, *arguments):
    done = subprocess.run([str(installation.root / "bin/warpline"), *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


@case
def programs(run):
    """Programs with one version's client on the other's server, and its command line."""
    for name, client, host in run.both_ways():
        server = run.server(host)
        for program in PROGRAMS:
            run_program(client, client.root / "bin/examples" / program,
                        environment(client, server.endpoint))
        for verb in ("ps", "stat", "devices"):
            status, said = warpline(client, verb, "--endpoint=" + server.endpoint)
            check(status == 0, name, verb, said)
        run_program(client, client.root / "bin/examples/vector_add",
                    environment(client, server.endpoint),
                    prefix=(str(client.root / "bin/warpline"), "run", "--memory=64MiB",
                            "--endpoint=" + server.endpoint, "--"))


def join(run, scheduler, host, name):
    """A server of this installation with a credential of the scheduler's, and a tenant."""
    credential, tenant = run.folder / (name + ".server"), run.folder / (name + ".tenant")
    credential.write_text(scheduler.must("servers", "add", name))
    tenant.write_text(scheduler.must("tenant", "add", "tenant-" + name))
    server = run.server(host, "--name=" + name, "--scheduler=" + scheduler.endpoint,
                        "--scheduler_credential_file=%s" % credential)
    env = {"WARPLINE_CREDENTIAL_FILE": str(tenant)}
    record.wait_for(lambda: scheduler.call("run", "--", "true", env=env)[0] == 0, "leases are given")
    return server, env


@case
def schedulers_and_servers(run):
    """One version's scheduler with the other's server, and programs under leases with the command
    line of either. Tokens are signed by the one and checked by the other."""
    for name, one, other in run.both_ways():
        scheduler = run.scheduler(one)
        server, env = join(run, scheduler, other, name)
        for client in (one, other):
            run_program(client, client.root / "bin/examples/two_streams",
                        environment(client, "", **env),
                        prefix=(str(client.root / "bin/warpline"), "run", "--memory=64MiB",
                                "--endpoint=" + scheduler.endpoint, "--"))
        check(name in scheduler.must("servers"), "the scheduler lists its server")
        # A token that is left when its scheduler has gone.
        held = subprocess.Popen(
            [str(one.root / "bin/warpline"), "run", "--endpoint=" + scheduler.endpoint, "--", "sh",
             "-c", "echo ready; read line; exec %s" % (one.root / "bin/examples/vector_add")],
            env=environment(one, "", **env), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)
        check(held.stdout.readline().strip() == "ready", "a lease is held")
        scheduler.kill()
        output, _ = held.communicate("go\n", timeout=60)
        check("vector_add: ok" in output, output, server.log_tail())


@case
def rolling_upgrade(run):
    """Schedulers over etcd are replaced one after the other, forth and back, while a program with a
    lease of the first one goes on and others get leases."""
    etcd = run.etcd()
    state = "etcd://127.0.0.1:%d" % etcd.port
    first = [run.scheduler(run.former, state) for _ in range(2)]
    for scheduler in first[1:]:
        shutil.copy(first[0].credential, scheduler.credential)
    ports = [scheduler.port for scheduler in first]
    everywhere = ",".join("127.0.0.1:%d" % port for port in ports)
    credential, tenant = run.folder / "server.credential", run.folder / "tenant.credential"
    leader = first[0]
    record.wait_for(lambda: leader.call("tenant", "add", "org")[0] == 0, "somebody leads")
    credential.write_text(leader.must("servers", "add", "s"))
    tenant.write_text(leader.must("tenant", "add", "vision", "--parent=org"))
    leader.must("slice", "add", "small", "--memory=256MiB")
    run.server(run.former, "--name=s", "--scheduler=" + everywhere,
               "--scheduler_credential_file=%s" % credential)
    env = environment(run.former, "", WARPLINE_CREDENTIAL_FILE=str(tenant))

    def leased(client, timeout_s=30):
        command = [str(client.root / "bin/warpline"), "run", "--memory=64MiB",
                   "--endpoint=" + everywhere, "--", "true"]
        record.wait_for(lambda: subprocess.run(command, env=env, capture_output=True,
                                               timeout=60).returncode == 0,
                        "a lease is given", timeout_s)

    leased(run.former)
    program = start_long(run.former, env, 25, prefix=(
        str(run.former.root / "bin/warpline"), "run", "--memory=64MiB", "--endpoint=" + everywhere,
        "--"))
    record.wait_for(lambda: "long_program" in leader.call("lease", "list")[1], "it has a lease")
    running = list(first)
    for installation in (run.current, run.former):
        for i, scheduler in enumerate(running):
            scheduler.process.send_signal(signal.SIGTERM)
            check(scheduler.process.wait(20) == 0, "it ends in order")
            running[i] = record.Scheduler(installation.root, scheduler.folder, state, scheduler.port)
            run.stack.callback(
                lambda it=running[i]: it.process.poll() is None and it.kill())
            # What is left of the version before may lead, or the new one.
            leased(run.former)
            leased(run.current)
    if program.poll() is not None:
        check(False, "the program ended:", program.stdout.read())
    expect_ok(program)


def schema_of(path):
    database = sqlite3.connect(path)
    version = database.execute("PRAGMA user_version").fetchone()[0]
    database.close()
    return version


def back(installation, folder, version):
    """Has the state in the folder go back to that version."""
    done = subprocess.run(
        [str(installation.root / "bin/warpline-scheduler"), "state", "back",
         "--state_version=%d" % version, "--state=%s" % folder], capture_output=True, text=True,
        timeout=30)
    check(done.returncode == 0, done.stdout, done.stderr)
    check(schema_of(folder / "state.db") == version, "it is of that version")


@case
def state_forth_and_back(run):
    """The former version's state in SQLite is taken by this one's scheduler, and goes back."""
    folder = run.folder / "state"
    scheduler = run.scheduler(run.former, own=folder)
    for name in ("org", "vision"):
        scheduler.must("tenant", "add", name)
    scheduler.must("slice", "add", "small", "--memory=64MiB")
    scheduler.kill()
    former_version = schema_of(folder / "state.db")
    scheduler = run.scheduler(run.current, own=folder)
    scheduler.must("tenant", "add", "later")
    scheduler.kill()
    version = schema_of(folder / "state.db")
    check(version >= former_version, version, former_version)
    check(version == former_version or
          (folder / ("state.db.version-%d" % former_version)).exists(), "a copy is kept")
    if version > former_version:
        refused = subprocess.run(
            [str(run.former.root / "bin/warpline-scheduler"), "--listen=127.0.0.1:0",
             "--state=%s" % folder], capture_output=True, text=True, timeout=30)
        check(refused.returncode == 2 and "version %d" % version in refused.stderr, refused.stderr)
    back(run.current, folder, former_version)
    scheduler = run.scheduler(run.former, own=folder)
    listed = scheduler.must("tenant", "list")
    for name in ("org", "vision", "later"):
        check(name in listed, listed)
    check("small" in scheduler.must("slice", "list"), "slices are kept")
    print("  (the state is of version %d, the former one of %d)" % (version, former_version))


@case
def state_between_stores(run):
    """The former version's folder goes to etcd, where the former version's scheduler leads with it,
    and back to a folder, which it takes, too."""
    etcd = run.etcd()
    state, folder = "etcd://127.0.0.1:%d" % etcd.port, run.folder / "source"
    scheduler = run.scheduler(run.former, own=folder)
    scheduler.must("tenant", "add", "vision")
    scheduler.kill()
    former_version = schema_of(folder / "state.db")

    def copy(source, target):
        done = subprocess.run(
            [str(run.current.root / "bin/warpline-scheduler"), "state", "copy",
             "--state=%s" % source, "--into=%s" % target], capture_output=True, text=True,
            timeout=60)
        check(done.returncode == 0, done.stdout, done.stderr)

    copy(folder, state)
    # A state in etcd is of the first format that its records need.
    own = run.folder / "own"
    own.mkdir(mode=0o700)
    shutil.copy(folder / "operator.credential", own)
    scheduler = run.scheduler(run.former, state, own)
    check("vision" in record.wait_for(lambda: scheduler.must("tenant", "list"), "it leads"), "")
    scheduler.process.terminate()
    scheduler.process.wait(20)
    target = run.folder / "target"
    copy(state, target)
    back(run.current, target, former_version)
    scheduler = run.scheduler(run.former, own=target)
    check("vision" in scheduler.must("tenant", "list"), "the former version takes what came back")


def file_hash(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


@case
def workers_of_another_version(run):
    """The programs of an installation are exchanged under its server, as an upgrade of the package
    does. `warpline replace` has the other version's workers take the sessions over by the journal,
    and new sessions get such workers."""
    for name, one, other in run.both_ways():
        root = run.folder / name
        shutil.copytree(one.root, root, copy_function=os.link)
        mixed = local_server.Installation.from_bundle(root)
        server = run.server(mixed, "--warm_workers=0")
        env = environment(one, server.endpoint)
        program = start_long(one, env, 8)
        record.wait_for(lambda: "long_program" in warpline(one, "ps", "--endpoint=" + server.endpoint)[1],
                        "a session")
        time.sleep(0.5)
        for binary in ("warpline-worker", "warpline-keeper", "warpline-relay", "warpline-compiler",
                       "warpline-supervisor"):
            shutil.copy2(other.root / "bin" / binary, root / "bin" / (binary + ".new"))
            os.replace(root / "bin" / (binary + ".new"), root / "bin" / binary)
        status, said = warpline(one, "replace", "--endpoint=" + server.endpoint)
        check(status == 0 and "replaced" in said, status, said, server.log_tail())
        worker = file_hash(other.root / "bin/warpline-worker")
        hashes = [file_hash("/proc/%d/exe" % pid) for pid in local_server.descendants(server.pid)
                  if "warpline-worker" in pathlib.Path("/proc/%d/cmdline" % pid).read_text()]
        check(worker in hashes, "a worker of the other version serves")
        # And back and forth between workers of it.
        status, said = warpline(other, "replace", "--endpoint=" + server.endpoint)
        check(status == 0, status, said, server.log_tail())
        for program_name in ("two_streams", "driver_api", "malloc_async"):
            run_program(one, one.root / "bin/examples" / program_name, env)
        expect_ok(program)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--former", type=pathlib.Path, required=True)
    parser.add_argument("--current", type=pathlib.Path, required=True)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    args = parser.parse_args()
    unknown = set(args.cases) - set(CASES)
    if unknown:
        parser.error("unknown: %s; there are %s" % (", ".join(sorted(unknown)), ", ".join(CASES)))
    failed = []
    for name in args.cases or CASES:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(dir=args.former.resolve().parent) as folder:
            run = Run(local_server.Installation.from_bundle(args.former),
                      local_server.Installation.from_bundle(args.current), pathlib.Path(folder))
            try:
                with run.stack:
                    CASES[name](run)
                print("ok %s (%.0f s)" % (name, time.monotonic() - began), flush=True)
            except Exception:  # pylint: disable=broad-except
                traceback.print_exc()
                for log in sorted(pathlib.Path(folder).glob("*.log")):
                    print("--- %s\n%s" % (log.name, log.read_text(errors="replace")[-3000:]))
                failed.append(name)
                print("FAILED %s" % name, flush=True)
    print("%d cases, %d failed%s" % (len(args.cases or CASES), len(failed),
                                     ": " + ", ".join(failed) if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
