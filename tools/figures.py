#!/usr/bin/env python3
"""Prints how large folders, classes and interfaces are, against what the project aims at.

Usage: figures.py [FILE...]   (paths from the root; without any, all that git tracks)

A report, not a check: it exits with 0. Folders count sources, headers and tests of C++ and C. Of a
class, members are its data, and methods those that are declared public; nested classes count by
themselves. A class that is declared in a way that this reader does not follow is not counted.
"""
import collections
import pathlib
import re
import subprocess
import sys

MOST_FILES = 40
MOST_MEMBERS = 30
MOST_PUBLIC_METHODS = 25
MOST_VIRTUALS = 20

Class = collections.namedtuple("Class", "name path members methods virtuals")

COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
HEAD = re.compile(r"\b(class|struct)\s+(?:\w+\s*\([^()]*\)\s*)?([A-Za-z_]\w*(?:::\w+)*)\s*(?:final\s*)?"
                  r"(?::(?!:)[^;{()]*)?\{")
LABEL = re.compile(r"\b(public|protected|private)\s*:(?!:)")
NOT_DECLARATIONS = ("using ", "friend ", "typedef ", "static_assert", "template <>", "enum ",
                    "class ", "struct ", "namespace ")


def without_bodies(text):
    """The text at the outermost level of a class: what lies in braces becomes `{}`."""
    out, depth = [], 0
    for character in text:
        if character == "{":
            depth += 1
            if depth == 1:
                out.append("{}")
        elif character == "}":
            depth -= 1
            # The end of a function's body, or of an initialiser, which a semicolon follows.
            if depth == 0:
                out.append("\x00")
        elif depth == 0:
            out.append(character)
    return "".join(out)


def body_of(text, start):
    """The text from behind a brace at `start` to the one that closes it."""
    depth = 1
    for at in range(start, len(text)):
        if text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                return text[start:at]
    return ""


def declarations(section):
    """Each declaration of a section, without line breaks."""
    for part in re.split(r";|\{\}\x00(?!\s*[;,=)])", section):
        part = " ".join(part.replace("\x00", "").split())
        part = re.sub(r"ABSL_\w+\s*(\((?:[^()]|\([^()]*\))*\))?", "", part).strip()
        if part and not part.startswith(NOT_DECLARATIONS):
            yield part


def is_method(declaration):
    declaration = re.sub(r"<[^<>]*>", "", re.sub(r"<[^<>]*>", "", declaration))
    return "(" in declaration.split("=")[0] and "std::function" not in declaration.split("(")[0]


def classes(path, text):
    text = COMMENT.sub("", text)
    for head in HEAD.finditer(text):
        body = without_bodies(body_of(text, head.end()))
        access = "private" if head.group(1) == "class" else "public"
        members = methods = virtuals = 0
        parts = LABEL.split(body)
        for section, access in zip(parts[::2], [access, *parts[1::2]]):
            for declaration in declarations(section):
                if is_method(declaration):
                    methods += access == "public" and "= delete" not in declaration
                    virtuals += declaration.startswith("virtual ") and "~" not in declaration
                elif not declaration.startswith(("static ", "constexpr ", "inline ")):
                    members += 1
        yield Class(head.group(2), path, members, methods, virtuals)


def over(title, rows, most):
    rows = sorted((row for row in rows if row[0] > most), key=lambda row: (-row[0], row[1]))
    print("%s over %d: %d" % (title, most, len(rows)))
    for count, name in rows:
        print("  %4d  %s" % (count, name))


def main():
    files = sys.argv[1:] or subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files"], check=True, stdout=subprocess.PIPE,
        text=True).stdout.split("\n")
    sources = [path for path in files if path.endswith((".cc", ".h", ".c", ".cu"))]
    folders = collections.Counter(str(pathlib.PurePath(path).parent) for path in sources)
    found = []
    for path in sources:
        if path.endswith((".h", ".cc")) and not path.endswith("_test.cc"):
            text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
            found += classes(path, text)
    name = "%s (%s)".__mod__
    over("sources of a folder", [(count, path) for path, count in folders.items()], MOST_FILES)
    over("members of a class", [(c.members, name((c.name, c.path))) for c in found], MOST_MEMBERS)
    over("public methods of a class", [(c.methods, name((c.name, c.path))) for c in found],
         MOST_PUBLIC_METHODS)
    over("virtual methods of an interface", [(c.virtuals, name((c.name, c.path))) for c in found],
         MOST_VIRTUALS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
