#!/usr/bin/env python3
"""What takes the server's defences away, one by one (mutations.toml), and a tree that has it built in.

  mutations.py --copy=FOLDER   makes or renews a copy of the sources with all mutations
  mutations.py --check         whether each still applies

The copy is that of one build: each mutation is a switch there, which is off until the environment
variable ATTACK_WITHOUT of a server names it. So a row is proved against a server that lacks its
own defences and has all others.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE / "mutations.toml"
# Where the server and the programs that it starts find the names of what is taken away.
VARIABLE = "ATTACK_WITHOUT"
# Which rows of a suite a defence stops: the key of the table by the suite.
ROW_KEYS = {"wire": "rows", "tier": "tier_rows", "pool": "pool_rows", "paging": "paging_rows"}
# Not tracked, but a part of how the sources are built here.
UNTRACKED = ("user.bazelrc",)

PRELUDE = """\
#include <cstdlib>
#include <cstring>
#ifndef WARPLINE_ATTACK_WITHOUT
#define WARPLINE_ATTACK_WITHOUT
[[maybe_unused]] inline bool WarplineAttackWithout(const char* name) {
  const char* const all = std::getenv("%s");
  return all != nullptr && std::strstr(all, name) != nullptr;
}
#endif
""" % VARIABLE
SWITCH = ('([]() noexcept { static const bool off = WarplineAttackWithout(",%s,"); return off; }())')


class Error(Exception):
    """Something that is wrong with the table or the sources; the message says what."""


class Mutation:
    """One edit. `name` is empty for one that is always made, else that of the defence that it takes
    away where `replace` says OFF."""

    def __init__(self, entry):
        self.name = entry.get("name", "")
        self.file, self.find, self.replace = entry["file"], entry["find"], entry["replace"]
        self.rows = {suite: entry.get(key, []) for suite, key in ROW_KEYS.items()}

    def apply(self, text):
        if text.count(self.find) != 1:
            raise Error("%s: the text of mutation %s occurs %d times, not once: %r"
                        % (self.file, self.name or "(always)", text.count(self.find), self.find))
        switch = SWITCH % self.name
        return text.replace(self.find, re.sub(r"\bOFF\b", lambda _: switch, self.replace))


class Table:
    """mutations.toml. Rows are those of the suite wire unless another one is named."""

    def __init__(self, path=TABLE):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        self.mutations = [Mutation(entry) for entry in data["defence"] + data["always"]]
        self._unproved = {(entry.get("suite", "wire"), entry["row"]): entry["reason"]
                          for entry in data.get("unproved", [])}
        self._check(data)

    @staticmethod
    def _check(data):
        for entry in data["defence"]:
            if set(entry) - {"name", "finding", "file", "find", "replace", "what",
                           *ROW_KEYS.values()}:
                raise Error("mutation %s has unknown keys" % entry.get("name"))
            if not re.fullmatch(r"[a-z0-9_]+", entry["name"]) or not (
                    any(entry.get(key) for key in ROW_KEYS.values())):
                raise Error("mutation %s: a name and rows are needed" % entry.get("name"))
            if not re.search(r"\bOFF\b", entry["replace"]):
                raise Error("mutation %s does not say OFF" % entry["name"])

    def defences_of(self, row, suite="wire"):
        """The names of all that stop a row, which are taken away together."""
        return sorted({m.name for m in self.mutations if row in m.rows[suite]})

    def named(self, suite="wire"):
        """The rows that some defence stops."""
        return {row for mutation in self.mutations for row in mutation.rows[suite]}

    def unproved(self, suite="wire"):
        """Why a row has no proof, by row."""
        return {row: reason for (of, row), reason in self._unproved.items() if of == suite}

    def tier_rows(self):
        """Sets of rows of the tier suite by the defences that stop them, sorted."""
        groups = {}
        for row in sorted(self.named("tier")):
            groups.setdefault(tuple(self.defences_of(row, "tier")), set()).add(row)
        return groups

    def files(self):
        return sorted({mutation.file for mutation in self.mutations})

    def mutated(self, file, text):
        """The text of a file with all its mutations."""
        own = [mutation for mutation in self.mutations if mutation.file == file]
        for mutation in own:
            text = mutation.apply(text)
        return PRELUDE + text if own else text

    def check_rows(self, rows, suite="wire"):
        """Raises unless each row, as (name, flags of a server without its limit), is accounted
        for in one way, and all rows of the table exist."""
        known = {name for name, _ in rows}
        named, unproved = self.named(suite), self.unproved(suite)
        for row in sorted((named | set(unproved)) - known):
            raise Error("mutations.toml names the row %s, which there is not" % row)
        for name, flags in rows:
            ways = (name in named) + (name in unproved) + (flags != "-")
            if ways != 1:
                raise Error("row %s has %d of: mutations, a reason why there are none, flags" % (
                    name, ways))


def tracked_files(root):
    done = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "--cached",
                           "--others", "--exclude-standard", "-z"], check=True,
                          stdout=subprocess.PIPE)
    names = [name.decode() for name in done.stdout.split(b"\0") if name]
    return [name for name in names + list(UNTRACKED) if (root / name).is_file()]


def copy_tree(root, target, table):
    """Makes `target` the sources with all mutations. Touches no file that is as it should be, so
    that a build there goes on from the last one."""
    names = tracked_files(root)
    for file in table.files():
        if file not in names:
            raise Error("mutations.toml names %s, which there is not" % file)
    written = 0
    for name in names:
        source, copy = root / name, target / name
        wanted = source.read_bytes()
        if name in table.files():
            wanted = table.mutated(name, wanted.decode()).encode()
        mode = source.stat().st_mode & 0o777
        if copy.is_file() and copy.read_bytes() == wanted and copy.stat().st_mode & 0o777 == mode:
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(wanted)
        copy.chmod(mode)
        written += 1
    for path in sorted(target.rglob("*"), reverse=True):
        inside = path.relative_to(target)
        if inside.parts[0].startswith("bazel-") or path.is_symlink():
            continue
        if path.is_file() and str(inside) not in names:
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()
    return written


def check(root, table):
    for file in table.files():
        table.mutated(file, (root / file).read_text(encoding="utf-8"))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--copy", type=pathlib.Path, metavar="FOLDER")
    what.add_argument("--check", action="store_true")
    options = parser.parse_args()
    root = HERE.parents[1]
    try:
        table = Table()
        check(root, table)
        if options.copy:
            print("mutations: %d in %d files; %d files of the copy were written"
                  % (len(table.mutations), len(table.files()),
                     copy_tree(root, options.copy, table)))
    except Error as error:
        print("mutations: %s" % error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
