#!/usr/bin/env python3
"""Makes docs/performance.json, the table of docs/performance.md and docs/performance.svg of what
compare.py and frameworks.py wrote with --json.

  report.py --machine=TEXT --source=TEXT FILE...
  report.py                                       table and plot again, of docs/performance.json

Rows of a figure that is there already take its place; the others stay.
"""
import argparse
import json
import math
import pathlib
import sys
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import paired  # noqa: E402

BEGIN, END = "<!-- figures: made by bench/report.py -->\n", "<!-- end of figures -->\n"
KEPT = ("figure", "unit", "native", "remote", "ratio", "spread", "goal", "peer")
# The plot, in pixels.
LEFT, WIDTH, ROW, TOP = 200, 520, 20, 50
LEAST, MOST = 1 / 32, 32  # Ratios.


def merge(rows, more, machine, source):
    """The rows with `more` in them, which were measured on `machine` with `source`."""
    found = {row["figure"]: row for row in rows}
    for row in more:
        kept = {name: row[name] for name in KEPT if name in row}
        for name in ("native", "remote", "ratio", "spread", "peer"):
            if name in kept:
                kept[name] = float("%.4g" % kept[name])
        found[row["figure"]] = {**kept, "machine": machine, "source": source}
    return list(found.values())


def number(value):
    if value is None:
        return ""
    return "%.0f" % value if value >= 1000 else "%.3g" % value


def table(rows):
    lines = ["| figure | unit | native | remote | ratio | spread | goal | peer |",
             "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        goal = number(row.get("goal"))
        if paired.met(row) is not None:
            goal += " met" if paired.met(row) else " **missed**"
        lines.append("| %s | %s | %s | %s | %s | %s | %s | %s |" % (
            row["figure"], row["unit"], number(row.get("native")), number(row.get("remote")),
            number(row.get("ratio")), number(row.get("spread")), goal, number(row.get("peer"))))
    measured = sorted({(row["source"], row["machine"]) for row in rows})
    return "\n".join(lines + [""] + ["Measured: %s, %s." % each for each in measured]) + "\n"


def place(ratio):
    """Where a ratio lies in the plot, from left to right."""
    share = math.log(min(max(ratio, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return LEFT + share * WIDTH


def plot(rows):
    rows = [row for row in rows if "ratio" in row]
    height = TOP + ROW * len(rows) + 10
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
           'font-family="sans-serif" font-size="12">' % (LEFT + WIDTH + 60, height),
           '<rect width="100%" height="100%" fill="white"/>',
           '<text x="%d" y="16">How many times slower than native (left of 1: faster). Line: goal; '
           'dot: peer.</text>' % LEFT]
    for ratio in (1 / 16, 1 / 4, 1, 4, 16):
        x = place(ratio)
        out.append('<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s"/>' % (
            x, TOP - 8, x, height, "black" if ratio == 1 else "lightgray"))
        out.append('<text x="%.1f" y="%d" text-anchor="middle">%s</text>' % (
            x, TOP - 14, "%g" % ratio if ratio >= 1 else "1/%g" % (1 / ratio)))
    for index, row in enumerate(rows):
        y = TOP + ROW * index
        one, at = place(1), place(row["ratio"])
        color = {True: "seagreen", False: "indianred", None: "steelblue"}[paired.met(row)]
        out.append('<text x="%d" y="%d" text-anchor="end">%s</text>' % (
            LEFT - 6, y + 13, escape(row["figure"])))
        out.append('<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>' % (
            min(one, at), y + 3, max(abs(at - one), 1), ROW - 7, color))
        if "goal" in row:
            x = place(row["goal"])
            out.append('<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="black" stroke-width="2"/>'
                       % (x, y + 1, x, y + ROW - 2))
        if "peer" in row:
            out.append('<circle cx="%.1f" cy="%d" r="3"/>' % (place(row["peer"]), y + ROW // 2))
    return "\n".join(out + ["</svg>", ""])


def fill(page, text):
    """The page with `text` between its marks."""
    head, rest = page.split(BEGIN)
    return head + BEGIN + text + END + rest.split(END)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machine", help="what it was measured on")
    parser.add_argument("--source", help="what was measured, such as a commit")
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    args = parser.parse_args()
    if args.files and not (args.machine and args.source):
        parser.error("say with --machine and --source what was measured on what")
    data = args.docs / "performance.json"
    rows = json.loads(data.read_text(encoding="utf-8")) if data.is_file() else []
    for file in args.files:
        rows = merge(rows, json.loads(file.read_text(encoding="utf-8")), args.machine, args.source)
    data.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    (args.docs / "performance.svg").write_text(plot(rows), encoding="utf-8")
    page = args.docs / "performance.md"
    page.write_text(fill(page.read_text(encoding="utf-8"), table(rows)), encoding="utf-8")
    missed = [row["figure"] for row in rows if paired.met(row) is False]
    print("%d figures, %d of %d goals met%s" % (
        len(rows), sum(paired.met(row) is True for row in rows),
        sum(paired.met(row) is not None for row in rows),
        "; missed: " + ", ".join(missed) if missed else ""))


if __name__ == "__main__":
    main()
