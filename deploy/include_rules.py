#!/usr/bin/env python3
"""Checks who may include what: layers between folders, and where CUDA and UCX headers may appear.

Usage: include_rules.py FILE... (paths from the root). Prints a line for each include that breaks a
rule and exits with 1 if there is one.
"""
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)
UCX = re.compile(r"^(ucp|uct|ucs|ucm)/")
CUDA = re.compile(r"^(cuda[A-Za-z_]*|cu[A-Z]\w*|nvrtc|driver_types|vector_types|fatbinary_section)"
                  r"\.h$")
UCX_FOLDERS = ("transport/ucx/",)
CUDA_FOLDERS = ("server/device/cuda/", "client_stub/", "examples/", "bench/cuda/",
                "tests/conformance/", "tests/stress/", "tests/surface/",
                "tests/chaos/")

FOUNDATIONS = {"common", "proto"}
MIDDLE = {"policy", "guard", "memory", "lease", "transport"}
# Folder -> the other folders that it may include from. Folders not named here may use all.
LAYERS = {
    "common": set(),
    "proto": {"common"},
    **{folder: FOUNDATIONS | MIDDLE for folder in MIDDLE},
    **{folder: FOUNDATIONS | MIDDLE for folder in ("server", "client_stub", "scheduler")},
}


def faults(path, text):
    folder = path.split("/")[0]
    for header in INCLUDE.findall(text):
        if UCX.match(header) and not path.startswith(UCX_FOLDERS):
            yield "%s includes %s: UCX headers belong in transport/ucx" % (path, header)
        if CUDA.match(header) and not path.startswith(CUDA_FOLDERS):
            yield "%s includes %s: CUDA headers belong in %s" % (
                path, header, ", ".join(name.rstrip("/") for name in CUDA_FOLDERS))
        target = header.split("/")[0] if "/" in header else folder
        if folder in LAYERS and target in LAYERS and target != folder \
                and target not in LAYERS[folder]:
            yield "%s includes %s: %s may not depend on %s" % (path, header, folder, target)


def main():
    count = 0
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8", errors="replace") as source:
            for fault in faults(path, source.read()):
                print(fault)
                count += 1
    if count:
        print("include rules: %d broken (the layers are in ARCHITECTURE.md)" % count)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
