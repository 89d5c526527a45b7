#!/usr/bin/env python3
"""Checks the Markdown pages of a tree: their size, their links, and the paths that they name.

Usage: pages.py [ROOT]   (by default the tree that holds this file)

Prints a line, and exits with 1, for each page that is longer than LIMITS allows, for each relative link
to a file or a heading that is not there, for each environment variable of ours that the page of them
lacks, and, in the pages of WITH_PATHS, for each path in code that is not there. A path with a `*` must match something; the ending of a file may be left out. Paths with a word
in capitals are examples.
"""
import fnmatch
import os
import pathlib
import re
import sys

# A page that everybody reads, and the most that it may have.
LIMITS = {"README.md": (8000, "bytes"), "CONTRIBUTING.md": (5000, "bytes"), "ARCHITECTURE.md": (300, "lines")}
# The pages that lead people into the sources.
WITH_PATHS = ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "docs/ideas.md", "docs/glossary.md",
              "docs/recipes/*.md")
# Where each environment variable is explained, and the folders of the programs that read them.
VARIABLES = "docs/reference/environment.md"
PROGRAMS = ("client_stub", "common", "scheduler", "server", "tools", "transport")
VARIABLE = re.compile(r'"(WARPLINE_[A-Z][A-Z_]*[A-Z])"')
IGNORED = ("bazel-*", "dist", ".*")
FENCE = re.compile(r"^ *(```|~~~).*?^ *\1[^\n]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.MULTILINE)
LINK = re.compile(r"\]\(([^()\s]+)(?: \"[^\"]*\")?\)")
PATH = re.compile(r"`([a-z_.][\w.-]*/[\w./*-]*)`")


def pages_of(root):
    """The paths of the tree's Markdown files."""
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not any(fnmatch.fnmatch(name, i) for i in IGNORED)]
        for name in files:
            if name.endswith(".md"):
                yield pathlib.Path(folder, name).relative_to(root).as_posix()


def anchors(text):
    """The names that GitHub gives to the headings of a page."""
    found = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        count, anchor = 0, name
        while anchor in found:
            count += 1
            anchor = "%s-%d" % (name, count)
        found.add(anchor)
    return found


def size_fault(path, text):
    most, unit = LIMITS.get(path, (None, ""))
    size = len(text.encode()) if unit == "bytes" else text.count("\n")
    if most is not None and size > most:
        return "%s: %d %s, and it may have %d" % (path, size, unit, most)
    return None


def link_faults(root, path, text):
    for link in LINK.findall(CODE.sub("", FENCE.sub("", text))):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        file = (root / path).parent / target if target else root / path
        if not file.exists():
            yield "%s: the link %s leads nowhere" % (path, link)
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
            yield "%s: the link %s names no heading there" % (path, link)


def path_faults(root, path, text):
    if not any(fnmatch.fnmatch(path, pattern) for pattern in WITH_PATHS):
        return
    tops = {entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("bazel-")}
    for name in sorted(set(PATH.findall(FENCE.sub("", text)))):
        if name.split("/")[0] not in tops - {"dist"} or any(part.isupper() for part in re.split(r"[/.]", name)):
            continue
        stem = name.rstrip("/")
        if not any(root.glob(stem)) and not any(root.glob(stem + ".*")):
            yield "%s: it names %s, which is not there" % (path, name)


def variable_faults(root):
    named = {}
    for program in PROGRAMS:
        for path in sorted((root / program).rglob("*.*")):
            name = path.relative_to(root).as_posix()
            if path.suffix in (".cc", ".c", ".h") and "/testing/" not in name and "_test." not in name:
                for variable in VARIABLE.findall(path.read_text(encoding="utf-8", errors="replace")):
                    named.setdefault(variable, name)
    page = root / VARIABLES
    there = page.read_text(encoding="utf-8") if page.exists() else ""
    for variable, name in sorted(named.items()):
        if "`%s`" % variable not in there:
            yield "%s: it lacks %s of %s" % (VARIABLES, variable, name)


def faults(root):
    root = pathlib.Path(root)
    for path in sorted(pages_of(root)):
        text = (root / path).read_text(encoding="utf-8")
        size = size_fault(path, text)
        if size:
            yield size
        yield from link_faults(root, path, text)
        yield from path_faults(root, path, text)
    yield from variable_faults(root)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    found = list(faults(root))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
