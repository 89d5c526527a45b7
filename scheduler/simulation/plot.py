#!/usr/bin/env python3
"""Makes a plot of what `simulate --samples=FILE` wrote: how many devices were in use, how many could have
been, how many requests waited, and how long sessions of each size did.

    plot.py FILE.csv PLOT.svg
"""
import csv
import math
import pathlib
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, TOP = 760, 180, 60, 30
SIZES = (("part", "a part"), ("1", "1 GPU"), ("2-4", "2 or 4"), ("8", "8"), ("gang", "gang"))
MOST_WAIT = 7 * 86400.0


def read(lines):
    """(samples, waits): rows of numbers, and dictionaries of numbers by size."""
    samples, waits = [], {}
    for row in csv.reader(lines):
        if row[0] == "sample" and row[1] != "hours":
            samples.append([float(each) for each in row[1:5]])
        elif row[0] == "wait":
            names = ("sessions", "waited", "mean", "p50", "p99", "most")
            waits[row[1]] = dict(zip(names, (float(each) for each in row[2:8])))
    return samples, waits


def line(points, color):
    path = " ".join("%.1f,%.1f" % point for point in points)
    return '<polyline points="%s" fill="none" stroke="%s" stroke-width="1.2"/>' % (path, color)


def text(x, y, words, anchor="start", color="black"):
    return '<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>' % (
        x, y, anchor, color, escape(words))


def frame(top, title, ticks, hours):
    """A panel with a title, horizontal lines at ticks (place from 0 to 1, label), and days below."""
    out = [text(LEFT, top - 8, title)]
    for place, label in ticks:
        y = top + HEIGHT * (1 - place)
        out.append('<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="lightgray"/>' % (
            LEFT, y, LEFT + WIDTH, y))
        out.append(text(LEFT - 6, y + 4, label, "end"))
    for day in range(0, int(hours / 24) + 1):
        x = LEFT + WIDTH * day * 24 / hours
        out.append(text(x, top + HEIGHT + 15, "day %d" % day, "middle"))
    return out


def wait_place(seconds):
    """From 0 for a second or less to 1 for a week."""
    return math.log(max(min(seconds, MOST_WAIT), 1)) / math.log(MOST_WAIT)


def wait_bars(waits, top):
    ticks = [(wait_place(seconds), label) for seconds, label in (
        (1, "1 s"), (60, "1 min"), (3600, "1 h"), (86400, "1 d"))]
    out = [text(LEFT, top - 8, "waits of sessions: mean (dark) and 99 of 100 (light); log scale")]
    for place, label in ticks:
        y = top + HEIGHT * (1 - place)
        out.append('<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="lightgray"/>' % (
            LEFT, y, LEFT + WIDTH, y))
        out.append(text(LEFT - 6, y + 4, label, "end"))
    step = WIDTH / len(SIZES)
    for index, (size, label) in enumerate(SIZES):
        row = waits.get(size)
        x = LEFT + step * index + step * 0.2
        out.append(text(x + step * 0.3, top + HEIGHT + 15, label, "middle"))
        if row is None:
            continue
        for offset, name, color in ((0, "mean", "steelblue"), (0.3, "p99", "lightsteelblue")):
            height = HEIGHT * wait_place(row[name])
            out.append('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>' % (
                x + step * offset, top + HEIGHT - height, step * 0.28, max(height, 1), color))
    return out


def plot(samples, waits):
    hours = max([row[0] for row in samples] + [1])
    most = max([row[3] for row in samples] + [1])
    height = 3 * (HEIGHT + TOP + 35)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
           'font-family="sans-serif" font-size="12">' % (LEFT + WIDTH + 20, height),
           '<rect width="100%" height="100%" fill="white"/>']
    top = TOP
    out += frame(top, "devices in use (blue), and what best-fit would use of an empty pool (gray)",
                 [(part, "%d %%" % (100 * part)) for part in (0, 0.25, 0.5, 0.75, 1)], hours)
    for column, color in ((2, "gray"), (1, "steelblue")):
        out.append(line([(LEFT + WIDTH * row[0] / hours, top + HEIGHT * (1 - row[column]))
                         for row in samples], color))
    top += HEIGHT + TOP + 35
    out += frame(top, "requests that wait", [(0, "0"), (0.5, "%d" % (most / 2)), (1, "%d" % most)],
                 hours)
    out.append(line([(LEFT + WIDTH * row[0] / hours, top + HEIGHT * (1 - row[3] / most))
                     for row in samples], "indianred"))
    top += HEIGHT + TOP + 35
    out += wait_bars(waits, top)
    return "\n".join(out + ["</svg>", ""])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8", newline="") as file:
        samples, waits = read(file)
    pathlib.Path(sys.argv[2]).write_text(plot(samples, waits), encoding="utf-8")


if __name__ == "__main__":
    main()
