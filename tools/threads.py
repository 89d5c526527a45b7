#!/usr/bin/env python3
"""Holds a page about threads to the sources.

Usage: threads.py PAGE FILE...   (paths from the root)

Prints a line, and exits with 1, for each name that a source gives to a thread and the page does not
have; for each name in the first column of one of the page's tables that no source gives; for each
source that starts threads without a name and is not named in the page; and for each path in the
page that there is not. Tests, measurements and examples are not looked at.
"""
import os
import pathlib
import re
import sys

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# The ways to give a name. GrpcSession's start_thread is TryStartLoopThread().
NAMED = re.compile(r'(?:\b(?:Try)?StartLoopThread\(|\bstart_thread\(|\bpthread_setname_np\([^;"]*,'
                   r'|\bPR_SET_NAME,|\bEventLoop\s+\w+\s*[{(]|<EventLoop>\()\s*"([^"]+)"')
STARTS = re.compile(r"\bstd::j?thread\b(?!::)|\bpthread_create\(|\bstd::async\(")
ENDINGS = (".cc", ".h", ".c")
IGNORED = re.compile(r"(^|/)(tests|testing|bench|examples|third_party)/|_test\.\w+$")
# A cell that begins with a name, and what a page says in code that is a path.
CELL = re.compile(r"^\| *`([\w-]+)` *\|", re.MULTILINE)
PATH = re.compile(r"`((?:[\w-]+/)+[\w.-]*)`")


def named(text):
    """The names that a source gives to threads."""
    return set(NAMED.findall(COMMENT.sub("", text)))


def starts(text):
    return STARTS.search(COMMENT.sub("", text)) is not None


def is_named(stem, sources):
    """Whether a file of that name, or one that includes its header, names threads."""
    header = '#include "%s.h"' % stem
    return any(named(text) for path, text in sources.items()
               if os.path.splitext(path)[0] == stem or header in text)


def faults(page, sources):
    """What is wrong. `sources` are texts by path."""
    sources = {path: text for path, text in sources.items()
               if path.endswith(ENDINGS) and not IGNORED.search(path)}
    names = {name: path for path, text in sorted(sources.items()) for name in named(text)}
    for name, path in sorted(names.items()):
        if "`%s`" % name not in page:
            yield "%s: the thread `%s` is not in the page" % (path, name)
    for name in sorted(set(CELL.findall(page)) - set(names)):
        yield "the page has a thread `%s`, and no source gives that name" % name
    stems = {os.path.splitext(path)[0] for path, text in sources.items() if starts(text)}
    for stem in sorted(stems):
        if not (is_named(stem, sources) or any("`%s%s`" % (stem, end) in page for end in ENDINGS)):
            yield "%s: it starts threads without a name, and is not in the page" % stem


def missing_paths(page, root):
    for path in sorted(set(PATH.findall(page))):
        if not (pathlib.Path(root) / path).exists():
            yield "the page names %s, which there is not" % path


def main():
    page = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    sources = {path: pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
               for path in sys.argv[2:]}
    found = [*faults(page, sources), *missing_paths(page, ".")]
    for line in found:
        print("%s: %s" % (sys.argv[1], line))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
