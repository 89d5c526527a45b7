#!/usr/bin/env python3
"""Derives the driver's exported symbols from a CUDA toolkit's *Typedefs.h headers.

Usage: gen_entry_points.py --symbols OUT --resolution OUT HEADER...

The headers hold one typedef PFN_<name>_v<version>[_ptds|_ptsz] per entry point, where <version> is
the CUDA version that introduced this ABI of <name>. The symbol behind it follows from the order:
the i-th ABI of a name is exported as <name>, <name>_v2, <name>_v3, ...; a per-thread variant takes
the suffix of the newest ABI that is not newer than itself.

  --symbols     one line WARPLINE_SYMBOL(index, symbol) per exported symbol, in strcmp() order
  --resolution  one line WARPLINE_ENTRY("name", version, "symbol", "per-thread symbol" or nullptr,
                per-thread version or 0) per ABI, ordered by name, then by version
"""
import argparse
import bisect
import collections
import re
import sys

_TYPEDEF = re.compile(r"\(\s*(?:CUDAAPI\s*)?\*\s*PFN_(cu\w+?)_v(\d+)(_pt[ds][sz])?\s*\)")

# (name, version): entry points that a driver must have even if the headers left them out.
_REQUIRED = [
    ("cuGetExportTable", 3000),
    ("cuGetProcAddress", 11030),
    ("cuGetProcAddress", 12000),
]

# Declared for Windows only.
_NOT_ON_LINUX = {"cuWGLGetDevice"}


def parse(texts):
    """Returns ({name: {version}}, {name: {version: "_ptds" or "_ptsz"}})."""
    plain = collections.defaultdict(set)
    per_thread = collections.defaultdict(dict)
    for text in texts:
        for name, version, variant in _TYPEDEF.findall(text):
            if name in _NOT_ON_LINUX:
                continue
            if variant:
                per_thread[name][int(version)] = variant
            else:
                plain[name].add(int(version))
    for name, version in _REQUIRED:
        plain[name].add(version)
    return plain, per_thread


def resolve(plain, per_thread):
    """Returns rows (name, version, symbol, per-thread symbol or None, per-thread version)."""
    rows = []
    for name in sorted(set(plain) | set(per_thread)):
        versions = sorted(plain[name])
        if not versions:
            raise ValueError("%s has per-thread variants only" % name)
        symbols = [name if i == 0 else "%s_v%d" % (name, i + 1) for i in range(len(versions))]
        variants = {}
        for version, suffix in sorted(per_thread[name].items()):
            i = bisect.bisect_right(versions, version) - 1
            if i < 0:
                raise ValueError("%s%s %d precedes %s" % (name, suffix, version, name))
            variants.setdefault(i, (symbols[i] + suffix, version))
        for i, version in enumerate(versions):
            rows.append((name, version, symbols[i]) + variants.get(i, (None, 0)))
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--symbols", required=True)
    parser.add_argument("--resolution", required=True)
    parser.add_argument("headers", nargs="+")
    args = parser.parse_args()

    texts = []
    for path in args.headers:
        with open(path, encoding="utf-8") as f:
            texts.append(f.read())
    rows = resolve(*parse(texts))
    if len(rows) < 100:
        sys.exit("only %d entry points found: are these the toolkit's *Typedefs.h?" % len(rows))

    symbols = sorted({r[2] for r in rows} | {r[3] for r in rows if r[3]})
    with open(args.symbols, "w", encoding="utf-8") as f:
        for i, symbol in enumerate(symbols):
            f.write("WARPLINE_SYMBOL(%d, %s)\n" % (i, symbol))
    with open(args.resolution, "w", encoding="utf-8") as f:
        for name, version, symbol, variant, variant_version in rows:
            f.write('WARPLINE_ENTRY("%s", %d, "%s", %s, %d)\n' % (
                name, version, symbol, '"%s"' % variant if variant else "nullptr", variant_version))


if __name__ == "__main__":
    main()
