#!/usr/bin/env python3
"""Judges what schedulers said to holders of leases and to servers (pool_load_main.cc).

    history.py FILE [--capacity_gib=16] [--ttl_s=6] [--answers=100]

prints what is wrong, one a line, and how much there was; its exit status is 1 if anything is wrong.

A lease is *surely held* from when its holder has the answer that grants it until the holder asks to
end it, abandons it, or its own end (`ends`) has come; and, if its server did not take its token, so
that it has no session, for `ttl_s` from when the holder asked for the newest answer that it has. What
must hold:

1. The leases that are surely held of one device fit on it at every moment.
2. No scheduler tells a holder that a lease is over, nor a server to end it, while it is surely held.
3. A lease ends: once it is released, abandoned or its end has come, its server is told so in one of
   the next `answers` answers to its reports. One that was abandoned, or the release of which was not
   answered and so may never have arrived, ends by itself: it has the time for which a lease lasts
   before, which each term gives it anew. No renewal that is asked for after the answer to its
   release, or after its end, succeeds.
4. Terms follow each other: an answer that was asked for after another one had come is not of an
   earlier term.
5. The server takes each token that was granted: it is refused only while the server has not heard
   of the scheduler yet.
"""
import argparse
import collections
import sys

US = 1000000
ANSWERS = 100


def parse(line):
    words = line.split()
    event = {"event": words[0]}
    for word in words[1:]:
        key, _, value = word.partition("=")
        event[key] = int(value) if value.lstrip("-").isdigit() and key != "lease" else value
    return event


class Lease:
    def __init__(self, granted):
        self.granted = granted
        self.ends = granted["ends"] or None
        self.over = None  # When it was no longer surely held, but for its end.
        # When it may have ended since it had no session and was not renewed; None where it has one.
        self.lapses = None
        self.why = None
        self.answered = None  # When the release was answered.
        self.told = None

    def is_over(self):
        """When it has to end."""
        return min(t for t in (self.over, self.ends, sys.maxsize) if t is not None)

    def surely_held_until(self):
        return min(self.is_over(), sys.maxsize if self.lapses is None else self.lapses)


def read(lines):
    return [parse(line) for line in lines if line.strip()]


def lapses(granted, renewed, ttl):
    """When a lease without a session had not been renewed for so long."""
    end = granted["asked"] + ttl
    for event in sorted(renewed, key=lambda e: e["at"]):
        if event["at"] > end:
            break
        end = max(end, event["asked"] + ttl)
    return end


def leases_of(events, ttl):
    leases = {}
    renewed = collections.defaultdict(list)
    for event in events:
        if event["event"] == "granted":
            leases[event["lease"]] = Lease(event)
        elif event["event"] == "renewed":
            renewed[event["lease"]].append(event)
    for name, lease in leases.items():
        if lease.granted["joined"] != 0:
            lease.lapses = lapses(lease.granted, renewed[name], ttl)
    for event in events:
        lease = leases.get(event.get("lease"))
        if lease is None:
            continue
        if event["event"] in ("releasing", "abandoned"):
            lease.over, lease.why = event["at"], event["event"]
        elif event["event"] == "released" and event["code"] == 0:
            lease.answered = event["at"]
        elif event["event"] == "ended" and lease.told is None:
            lease.told = event
    return leases


def overbooked(leases, capacity):
    changes = collections.defaultdict(list)
    for name, lease in leases.items():
        begin, end = lease.granted["at"], lease.surely_held_until()
        if begin < end:
            changes[lease.granted["server"]] += [(begin, 1, lease.granted["bytes"], name),
                                                 (end, 0, -lease.granted["bytes"], name)]
    for server, at_server in changes.items():
        held = 0
        for at, _, change, name in sorted(at_server):
            held += change
            if held > capacity:
                yield "overbooked server=%s at=%d held_gib=%.1f with=%s" % (
                    server, at, held / 2**30, name)


def lost(events, leases):
    for event in events:
        lease = leases.get(event.get("lease"))
        if lease is None:
            continue
        held = event["at"] < lease.surely_held_until()
        if event["event"] == "unrenewed" and event["code"] in (5, 9) and held:
            yield "lost lease=%s at=%d why=%s" % (event["lease"], event["at"], event["why"])
        if event["event"] == "ended" and held:
            yield "ended too early lease=%s at=%d why=%s" % (
                event["lease"], event["at"], event["why"])


def beginnings(events):
    """When each term was first heard of."""
    first = {}
    for event in events:
        if event.get("epoch"):
            first[event["epoch"]] = min(event["at"], first.get(event["epoch"], event["at"]))
    return sorted(first.values())


def outliving(events, leases, ttl, answers):
    terms_begin = beginnings(events)
    reports = collections.defaultdict(list)  # Of each server, when the answered ones were asked.
    for event in events:
        if event["event"] == "reported":
            reports[event["server"]].append(event["asked"])
    for name, lease in leases.items():
        over = due = lease.is_over()
        told = lease.told["at"] if lease.told else sys.maxsize
        if lease.answered is None and over == lease.over:
            due += ttl
            for begin in terms_begin:
                if over < begin <= told:
                    due = max(due, begin + ttl)
        late = sum(due < asked < told for asked in reports[lease.granted["server"]])
        if late > answers:
            yield "outlives its end lease=%s over=%d why=%s told=%s" % (
                name, over, lease.why, lease.told and lease.told["at"])
    for event in events:
        lease = leases.get(event.get("lease"))
        if lease is None or event["event"] != "renewed":
            continue
        # Clocks of one host; what was asked for just before may be answered after.
        if lease.ends is not None and event["asked"] > lease.ends + US:
            yield "renewed after its end lease=%s" % event["lease"]
        if lease.answered is not None and event["asked"] > lease.answered:
            yield "renewed after its release lease=%s" % event["lease"]


def terms(events):
    answers = sorted((e["at"], e["asked"], e["epoch"]) for e in events
                     if e["event"] in ("granted", "renewed"))
    newest = []  # By time of the answer, the greatest epoch until then.
    greatest = 0
    for at, _, epoch in answers:
        greatest = max(greatest, epoch)
        newest.append((at, greatest))
    before = 0
    known = 0
    for asked, epoch in sorted((asked, epoch) for _, asked, epoch in answers):
        while before < len(newest) and newest[before][0] < asked:
            known = newest[before][1]
            before += 1
        if epoch < known:
            yield "answer of an earlier term asked=%d epoch=%d known=%d" % (asked, epoch, known)


def refused_by_server(events):
    for event in events:
        if event["event"] == "granted" and event["joined"] not in (0, 14):
            yield "server refuses token lease=%s why=%s" % (event["lease"], event["why"])


def judge(events, capacity, ttl, answers=ANSWERS):
    """All that is wrong, in words."""
    leases = leases_of(events, ttl)
    return [*overbooked(leases, capacity), *lost(events, leases),
            *outliving(events, leases, ttl, answers), *terms(events), *refused_by_server(events)]


def summary(events):
    count = collections.Counter(e["event"] for e in events)
    epochs = {e["epoch"] for e in events if "epoch" in e}
    return "granted=%d renewed=%d released=%d abandoned=%d ended=%d refused=%d unrenewed=%d terms=%d" % (
        count["granted"], count["renewed"], count["released"], count["abandoned"], count["ended"],
        count["refused"], count["unrenewed"], len(epochs))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--capacity_gib", type=int, default=16)
    parser.add_argument("--ttl_s", type=int, default=6)
    parser.add_argument("--answers", type=int, default=ANSWERS)
    flags = parser.parse_args()
    with open(flags.file) as file:
        events = read(file)
    wrong = judge(events, flags.capacity_gib << 30, flags.ttl_s * US, flags.answers)
    print("\n".join(wrong + [summary(events), "violations=%d" % len(wrong)]))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
