#!/usr/bin/env python3
"""Writes compile_commands.json at the workspace root, from `bazel aquery`.

Usage: compile_commands.py [TARGETS...] (default //...). Run it after a build, so that generated
headers exist. $WARPLINE_BAZEL_STARTUP holds startup options for Bazel.
"""
import json
import os
import subprocess
import sys

# What GCC takes and clang does not.
GCC_ONLY = {"-fno-canonical-system-headers", "-Wno-free-nonheap-object",
            "-Wunused-but-set-parameter", "-pass-exit-codes"}
# Make no difference to what a tool reads. The first two come with a value.
OUTPUTS = {"-MF", "-o"}
NEEDLESS = ("-MD", "-frandom-seed", "-D__DATE__", "-D__TIME__", "-D__TIMESTAMP__")


def bazel(*arguments):
    """What Bazel prints. It may have failed for a part of the targets and printed the others."""
    startup = os.environ.get("WARPLINE_BAZEL_STARTUP", "").split()
    done = subprocess.run(["bazel", *startup, *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if not done.stdout:
        sys.exit("bazel %s failed:\n%s" % (arguments[0], done.stderr))
    if done.returncode != 0:
        print("warning: some targets cannot be analyzed and are left out", file=sys.stderr)
    return done.stdout


def clang_arguments(arguments):
    kept = []
    words = iter(arguments[1:])
    for word in words:
        if word in OUTPUTS:
            next(words)
        elif word not in GCC_ONLY and not word.startswith(NEEDLESS):
            kept.append(word)
    return kept


def commands(actions, root, execution_root):
    seen = set()
    for action in actions:
        arguments = action["arguments"]
        if "-c" not in arguments:
            continue
        source = arguments[arguments.index("-c") + 1]
        if source in seen or source.startswith("external/"):
            continue
        seen.add(source)
        # The file in the tree where it is one, so that editors find it.
        in_tree = os.path.join(root, source)
        path = in_tree if os.path.exists(in_tree) else os.path.join(execution_root, source)
        compiler = "clang" if source.endswith(".c") else "clang++"
        yield {
            "directory": execution_root,
            "file": path,
            "arguments": [compiler] + [path if word == source else word
                                       for word in clang_arguments(arguments)],
        }


def main():
    targets = " + ".join(sys.argv[1:] or ["//..."])
    root = bazel("info", "workspace").strip()
    execution_root = bazel("info", "execution_root").strip()
    graph = json.loads(bazel("aquery", "--config=opt", "--keep_going", "--output=jsonproto",
                             'mnemonic("CppCompile", %s)' % targets))
    found = list(commands(graph.get("actions", []), root, execution_root))
    target = os.path.join(root, "compile_commands.json")
    with open(target + ".partial", "w", encoding="utf-8") as out:
        json.dump(found, out, indent=1)
    os.replace(target + ".partial", target)
    print("%d commands in compile_commands.json" % len(found))


if __name__ == "__main__":
    main()
