#!/usr/bin/env python3
"""Makes the page of all commands and flags from what the programs print for --help.

Usage: flags_page.py PROGRAM...   (prints Markdown)
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "debian"))
import man_pages  # noqa: E402  (has what is known of --help)

HEAD = """# Commands and flags

This page is what the programs print for `--help`.
"""


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;")


def section(name, help_text):
    """Of one program, from its --help: the text as it stands, the flags as a table."""
    text, _, flags = help_text.partition("\n  Flags from ")
    lines = ["## %s" % name, "", "```text", text.strip(), "```", ""]
    found = man_pages.flags_of("\n  Flags from " + flags)
    if flags and not found:
        raise ValueError("no flag of %s was understood" % name)
    if found:
        lines += ["| flag | meaning | default |", "|---|---|---|"]
        lines += ["| `--%s` | %s | %s |" % (flag, cell(meaning), "`%s`" % cell(default) if default else "")
                  for flag, meaning, default in found] + [""]
    return "\n".join(lines)


def page(helps):
    """`helps` are the programs' --help by their names."""
    return "\n".join([HEAD, *(section(name, text) for name, text in helps.items())])


def main():
    programs = {pathlib.Path(path).name: path for path in sys.argv[1:]}
    print(page({name: man_pages.help_of(name, path) for name, path in programs.items()}), end="")


if __name__ == "__main__":
    main()
