#!/usr/bin/env python3
"""Makes the page of the hooks of policies: which are there, where the server asks them, and what they are told.

Usage: hooks.py --table          prints the page, docs/hooks.md
       hooks.py --check=FILE     prints in what FILE differs from the page, and exits with 1 if it does

The hooks and their contexts are those of policy/include/warpline_policy.h. A caller is a function of
the server that calls the hook of its policy, or one that has the dispatcher ask (Dispatcher::Ask...).
A hook that nothing asks, or a call of a hook that the header does not have, is an error.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = "policy/include/warpline_policy.h"
HEADING = """\
# Hooks of policies by their callers

This page is made by `deploy/lint/hooks.py --table > docs/hooks.md` from `policy/include/warpline_policy.h` and the
sources of the server. [policies.md](policies.md) says what the verdicts do.

Every context begins with `version`, `vgpu`, `tenant`, `session` and `now_ns`.

"""
CONTEXT = re.compile(r"/\*((?:(?!\*/).)*)\*/\s*struct warpline_(on_\w+) \{\n(.*?)\n\};", re.DOTALL)
FIELD = re.compile(r"^\s+[a-z ]+ (\w+);", re.MULTILINE)
VERDICT = re.compile(r"\b(RUN|SCORE|HOLD|SKIP|REJECT|YIELD|KEEP|FAIL|RECLAIM|THROTTLE|KILL)\b")
CALL = re.compile(r"\bpolicy_?->On([A-Z]\w*)\(")
ASK = re.compile(r"->Ask([A-Z]\w*)\(")
FUNCTION = re.compile(r"^[A-Za-z][^\n;]*?(\w+(?:::\w+)+)\(", re.MULTILINE)


def snake(name):
    return "on_" + re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def hooks(header):
    """Fields and verdicts of each hook, in the order of the header."""
    found = {}
    for comment, name, body in CONTEXT.findall(header):
        fields = [field for field in FIELD.findall(body) if field != "reserved"]
        found[name] = (fields, list(dict.fromkeys(VERDICT.findall(comment))))
    return found


def function_at(text, offset):
    """The function of the source in which the offset lies."""
    name = "?"
    for match in FUNCTION.finditer(text):
        if match.start() > offset:
            break
        name = match.group(1)
    return name


def callers(sources, known):
    """By hook, each caller as (function, path). The server has more functions that are called Ask."""
    asked = {}
    for path, text in sources:
        for pattern in (CALL, ASK):
            for match in pattern.finditer(text):
                if pattern is ASK and snake(match.group(1)) not in known:
                    continue
                caller = (function_at(text, match.start()), path)
                of = asked.setdefault(snake(match.group(1)), [])
                if caller not in of:
                    of.append(caller)
    return asked


def page(header, sources):
    """The page; ValueError for a hook without a caller, or a caller without a hook."""
    known = hooks(header)
    asked = callers(sources, known)
    for name in sorted(set(known) ^ set(asked)):
        raise ValueError("%s: %s" % (name, "nothing asks this hook" if name in known else "the header has no such hook"))
    lines = ["| hook | asked by | context | verdicts |", "|---|---|---|---|"]
    for name, (fields, verdicts) in known.items():
        by = "<br>".join("`%s` (`%s`)" % caller for caller in asked[name])
        lines.append("| `%s` | %s | %s | %s |" % (name, by, ", ".join("`%s`" % field for field in fields),
                                                  ", ".join(verdicts) or "none"))
    return HEADING + "\n".join(lines) + "\n"


def sources_of(root):
    for path in sorted((root / "server/gpu_server").rglob("*.cc")):
        name = path.relative_to(root).as_posix()
        if not name.endswith("_test.cc") and "/testing/" not in name:
            yield name, path.read_text(encoding="utf-8")


def page_of(root):
    return page((root / HEADER).read_text(encoding="utf-8"), list(sources_of(root)))


def main():
    arguments = sys.argv[1:]
    if arguments == ["--table"]:
        print(page_of(ROOT), end="")
        return 0
    if len(arguments) != 1 or not arguments[0].startswith("--check="):
        print(__doc__, file=sys.stderr)
        return 2
    path = arguments[0].split("=", 1)[1]
    wanted = page_of(ROOT).split("\n")
    there = pathlib.Path(path).read_text(encoding="utf-8").split("\n")
    different = (["lacks: %s" % line for line in wanted if line not in there] +
                 ["has: %s" % line for line in there if line not in wanted])
    for line in different:
        print("%s %s (hooks.py --table makes it)" % (path, line))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
