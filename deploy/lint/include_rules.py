#!/usr/bin/env python3
"""Checks who may include what: layers between folders, and where CUDA and UCX headers may appear.

Usage: include_rules.py FILE... (paths from the root). Prints a line for each include that breaks a
rule and exits with 1 if there is one. The folders and what they may use are data: folders.toml.
  --table            prints the page of folders, docs/folders.md: the table down to the second level
  --check=FILE       also checks that FILE is that page
"""
import pathlib
import re
import sys
import tomllib

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)
UCX = re.compile(r"^(ucp|uct|ucs|ucm)/")
CUDA = re.compile(r"^(cuda[A-Za-z_]*|cu[A-Z]\w*|nvrtc|driver_types|vector_types|fatbinary_section)"
                  r"\.h$")
UCX_FOLDERS = ("transport/ucx/",)
HEADING = """\
# The folders

This page is made from `deploy/lint/folders.toml`, to which `./dev lint --includes` holds the sources.
Change that file, and then run `deploy/lint/include_rules.py --table > docs/folders.md`.

A folder may include from itself and from the folders in its last column. Folders below the second level are in
`folders.toml` only. `server`, `client_stub` and `scheduler` never include each other. The programs include CUDA's
headers in `server/device/cuda` and `client_stub` only.

Below `server/` each program has a folder: `gpu_server`, `worker`, `keeper`, `relay`, `compiler`, `mps` and `supervisor`.
`hostlink` (the words that programs of one host say to each other), `jail` and `device` are shared by several of them.
The border between two programs is a border of trust, so no program includes another's sources
([0061](decisions/0061-one-folder-a-program.md)). The server's own ends of its children are in
`server/gpu_server/children`.

The server's own code is in namespace `warpline::server`, that of the others in namespaces of their own
(`warpline::worker`, `::device`, `::supervisor`). Code that several of them share is in `warpline`, as is everything
below it.
"""
CUDA_FOLDERS = ("server/device/cuda/", "client_stub/", "examples/", "bench/cuda/",
                "tests/conformance/", "tests/cuda/", "tests/libraries/", "tests/stress/",
                "tests/surface/", "tests/attack/", "tests/chaos/", "tests/checks/", "tests/memory/", "tests/tiers/",
                "bench/guard/")


def read_table():
    with open(pathlib.Path(__file__).resolve().parent / "folders.toml", "rb") as file:
        return tomllib.load(file)


def read_folders(table):
    folders = {folder["path"]: folder for folder in table["folder"]}
    for name, folder in folders.items():
        if "uses" in folder:
            folder["uses"] = [full_name(name, used) for used in folder["uses"]]
    return folders


def full_name(folder, used):
    """Resolves "./x", which is the folder x beside the folder."""
    return folder.rsplit("/", 1)[0] + used[1:] if used.startswith("./") else used


TABLE = read_table()
FOLDERS = read_folders(TABLE)
PROGRAMS = {program["path"]: program["may"] for program in TABLE["program"]}


def folder_of(path):
    """The innermost folder of the table that holds the path; "" for none."""
    parts = path.split("/")[:-1]
    while parts and "/".join(parts) not in FOLDERS:
        parts.pop()
    return "/".join(parts)


def is_for_tests(path):
    """Tests, and what only they link, may look at more."""
    name = path.split("/")[-1]
    return "/testing/" in path or name.split(".")[0].endswith(("_test", "_benchmark")) or name.startswith("fake_")


def layer_fault(path, header):
    folder, target = folder_of(path), folder_of(header)
    uses = FOLDERS.get(folder, {}).get("uses")
    if uses is None or not target or target == folder or target in uses:
        return None
    # A test may include from all subfolders of its top folder, and of those that its folder uses.
    tops = {name.split("/")[0] for name in [folder, *uses]}
    if is_for_tests(path) and target.split("/")[0] in tops:
        return None
    return "%s includes %s: %s may not depend on %s" % (path, header, folder, target)


def lies_in(path, folder):
    return path.startswith(folder + "/")


def program_of(path):
    """The program, or the library of several, that the path is of; "" for none."""
    return next((program for program in PROGRAMS if lies_in(path, program)), "")


def program_fault(path, header):
    program, target = program_of(path), program_of(header)
    if not program or not target or program == target:
        return None
    if any(lies_in(header, folder) for folder in PROGRAMS[program]):
        return None
    if is_for_tests(path):  # It is no part of the program.
        return None
    return "%s includes %s: %s may not see the sources of %s" % (path, header, program, target)


def faults(path, text):
    for header in INCLUDE.findall(text):
        if UCX.match(header) and not path.startswith(UCX_FOLDERS):
            yield "%s includes %s: UCX headers belong in transport/ucx" % (path, header)
        if CUDA.match(header) and not path.startswith(CUDA_FOLDERS):
            yield "%s includes %s: CUDA headers belong in %s" % (
                path, header, ", ".join(name.rstrip("/") for name in CUDA_FOLDERS))
        fault = program_fault(path, header) or layer_fault(path, header)
        if fault:
            yield fault


def is_in_table(path):
    """Leaves out deeper folders, since the page would be long."""
    return path.removeprefix("server/").count("/") < 2 and "holds" in FOLDERS[path]


def table():
    lines = ["| folder | what is in it | may use |", "|---|---|---|"]
    for path, folder in FOLDERS.items():
        if not is_in_table(path):
            continue
        uses = folder.get("uses")
        names = ["`%s`" % name for name in uses or ()]
        lines.append("| `%s/` | %s | %s |" % (path, folder["holds"],
                                              "all" if uses is None else ", ".join(names)))
    return lines


def page():
    return HEADING + "\n" + "\n".join(table()) + "\n"


def different_lines(path):
    """What the page at the path lacks, and what it should not have."""
    with open(path, encoding="utf-8") as file:
        there = file.read().split("\n")
    wanted = page().split("\n")
    return (["lacks: %s" % line for line in wanted if line not in there] +
            ["has: %s" % line for line in there if line not in wanted])


def main():
    count = 0
    for argument in sys.argv[1:]:
        if argument == "--table":
            print(page(), end="")
        elif argument.startswith("--check="):
            path = argument.split("=", 1)[1]
            for line in different_lines(path):
                print("%s %s (include_rules.py --table makes it)" % (path, line))
                count += 1
        else:
            with open(argument, encoding="utf-8", errors="replace") as source:
                for fault in faults(argument, source.read()):
                    print(fault)
                    count += 1
    if count:
        print("include rules: %d broken (the folders are in deploy/lint/folders.toml)" % count)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
