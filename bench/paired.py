"""Figures that are measured by turns: natively, natively once more as a control, and remotely.

A row is a dictionary, as in docs/performance.json:

  figure   its name
  unit     "us", "ms", "GB/s", ...
  native   the median of the turns
  remote   likewise
  ratio    how many times slower remote is than native, whatever the unit: below 1 is faster
  spread   by how much a native program differs from itself: the ratios of the control to native lie
           between 1 - spread and 1 + spread in the middle half of the turns
  goal     the ratio that is to be reached (goals.json), give or take the spread
  peer     the same ratio of the strongest open peer, measured elsewhere
"""
import json
import pathlib
import statistics

HERE = pathlib.Path(__file__).absolute().parent
MOST_SPREAD = 0.25


def slower(native, other, unit):
    """How many times slower `other` is than `native`; None if that has no meaning."""
    if native <= 0 or other <= 0:
        return None
    return native / other if unit.endswith("/s") else other / native


def spread(native, control, unit):
    """Of a native program from itself, in turns that belong together; None for fewer than two."""
    ratios = [ratio for ratio in (slower(a, b, unit) for a, b in zip(native, control)) if ratio]
    if len(ratios) < 2:
        return None
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return max(abs(1 - low), abs(high - 1))


def goals(path=HERE / "goals.json"):
    """Figure -> ratio."""
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def turns(names, rounds):
    """The names, `rounds` times, another one first in each round."""
    for number in range(rounds):
        first = number % len(names)
        yield from names[first:] + names[:first]


def row(figure, unit, native, remote, control=(), goal=None):
    """The row of one figure, from what the turns measured. `native` may be empty."""
    made = {"figure": figure, "unit": unit}
    if native:
        made["native"] = statistics.median(native)
    if remote:
        made["remote"] = statistics.median(remote)
    if native and remote:
        made["ratio"] = slower(made["native"], made["remote"], unit)
    if native and control:
        made["spread"] = spread(native, control, unit)
    if goal is not None:
        made["goal"] = goal
    return {name: value for name, value in made.items() if value is not None}


def met(made):
    """Whether a row reaches its goal; None where it has none or was not measured, or where native
    programs differ so much from themselves that the run says nothing."""
    if "goal" not in made or "ratio" not in made or made.get("spread", 0) > MOST_SPREAD:
        return None
    return made["ratio"] <= made["goal"] + made.get("spread", 0)


def verdict(made):
    """" met" or " missed" for what follows a goal; empty where nothing is to be said."""
    return {None: "", True: " met", False: " missed"}[met(made)]
