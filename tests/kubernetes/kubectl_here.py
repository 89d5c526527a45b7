#!/usr/bin/env python3
"""kubectl, whose `exec` ends in a container of node_here.py.

The API server is asked all the same, and says whether the caller may execute. It finds no kubelet, and
then the program is started here. KUBECTL is the real one, KUBECTL_USER the user's configuration, and
KUBECTL_NODES the folder of the nodes.
"""
import json
import os
import pathlib
import subprocess
import sys


def container_of(name, container):
    """What node_here.py has written of the newest container of that name."""
    found = []
    for path in pathlib.Path(os.environ["KUBECTL_NODES"]).glob("*/pods/*/%s.json" % container):
        said = json.loads(path.read_text())
        if said["pod"] == name:
            found.append((path.stat().st_mtime_ns, said))
    return max(found, key=lambda one: one[0])[1]


def main():
    arguments = sys.argv[1:]
    command = [os.environ["KUBECTL"], "--kubeconfig=" + os.environ["KUBECTL_USER"], *arguments]
    if "exec" not in arguments:
        os.execv(command[0], command)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if ":10250: connect: connection refused" not in done.stderr:
        print(done.stdout + done.stderr, file=sys.stderr)
        return done.returncode or 1
    options = dict(word.split("=", 1) for word in arguments[:arguments.index("--")] if "=" in word)
    name = arguments[arguments.index("exec") + 1]
    said = container_of("%s/%s" % (options["--namespace"], name), options["--container"])
    program = arguments[arguments.index("--") + 1:]
    for folder, place in said["programs"].items():
        program[0] = program[0].replace(folder, place)
    return subprocess.run(program, env=said["env"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
