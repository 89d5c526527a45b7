#!/usr/bin/env python3
"""Runs clang's thread-safety analysis over the sources in compile_commands.json, without compiling.

Usage: thread_safety.py COMPILE_COMMANDS [FOLDER...]   (without folders: those of CHECKED)

What it checks are the annotations of Abseil (ABSL_GUARDED_BY, ABSL_EXCLUSIVE_LOCKS_REQUIRED) on
common/mutex.h and common/loop/loop_affinity.h. Exits with 1 if it finds something. Tests are left
out: they look into classes from one thread.
"""
import concurrent.futures
import json
import os
import subprocess
import sys

CHECKED = ("client_stub", "common", "lease", "memory", "policy", "proto", "ptx", "scheduler", "server",
           "tools", "transport")
# Nothing but the analysis: other warnings are GCC's and clang-tidy's.
ANALYSIS = ["-fsyntax-only", "-Wno-everything", "-Wthread-safety", "-Werror=thread-safety"]
PROGRESS_EVERY = 100


def is_checked(source, folders):
    name = os.path.basename(source).split(".")[0]
    return (source.startswith(tuple(folder + "/" for folder in folders)) and
            not name.endswith(("_test", "_fuzz", "_bench")) and "/testing/" not in source)


def analyse(command):
    """What clang says of one source; empty for nothing."""
    done = subprocess.run([*command["arguments"], *ANALYSIS], cwd=command["directory"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout if done.returncode != 0 else ""


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        commands = json.load(file)
    root = os.path.dirname(os.path.abspath(sys.argv[1]))
    folders = sys.argv[2:] or CHECKED
    commands = [c for c in commands if c["file"].endswith(".cc") and
                is_checked(os.path.relpath(c["file"], root), folders)]
    if not commands:
        sys.exit("thread_safety.py: no sources of %s" % ", ".join(folders))
    faults = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for count, said in enumerate(pool.map(analyse, commands), 1):
            if said:
                faults += 1
                print(said, flush=True)
            if count % PROGRESS_EVERY == 0:
                print("thread safety: %d of %d sources" % (count, len(commands)), file=sys.stderr,
                      flush=True)
    print("thread safety: %d sources, %d with faults" % (len(commands), faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
