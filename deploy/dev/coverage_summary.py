"""Prints the share of lines that ran, by folder. Usage: coverage_summary.py LCOV_FILE."""
import collections
import os
import sys


def main():
    lines = collections.Counter()
    hits = collections.Counter()
    folder = ""
    with open(sys.argv[1], encoding="utf-8") as report:
        for record in report:
            if record.startswith("SF:"):
                folder = os.path.dirname(record[3:].strip())
            elif record.startswith("DA:"):
                count = int(record[3:].split(",")[1])
                for name in (folder, "all"):
                    lines[name] += 1
                    hits[name] += count > 0
    for name in sorted(lines, key=lambda n: (n == "all", n)):
        print("%6.1f %%  %6d of %6d lines  %s"
              % (100 * hits[name] / lines[name], hits[name], lines[name], name))


main()
