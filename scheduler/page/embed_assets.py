#!/usr/bin/env python3
"""Writes the C++ table of the page's files: embed_assets.py OUTPUT FILE..."""
import hashlib
import pathlib
import sys

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


def literal(content):
    """As adjacent literals; octal escapes have three digits, so that none goes on too far."""
    text = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else "\\%03o" % b
                   for b in content)
    lines, line = [], ""
    for piece in text.split("\\012"):
        line = piece + "\\012"
        lines.append('    "%s"' % line)
    lines[-1] = lines[-1][:-len('\\012"')] + '"'
    return "\n".join(lines)


def main():
    output, files = sys.argv[1], [pathlib.Path(name) for name in sys.argv[2:]]
    parts = ['#include "scheduler/page/assets.h"\n', "namespace warpline::scheduler::page {\n",
             "const std::vector<Asset>& Assets() {",
             "  static const auto* const assets = new std::vector<Asset>{"]
    for file in sorted(files):
        content = file.read_bytes()
        path = "/" if file.name == "index.html" else "/" + file.name
        etag = hashlib.sha256(content).hexdigest()[:32]
        parts.append('  {"%s", "%s", absl::string_view(\n%s, %d), "\\"%s\\""},' % (
            path, TYPES[file.suffix], literal(content), len(content), etag))
    parts += ["  };", "  return *assets;", "}\n", "}  // namespace warpline::scheduler::page"]
    pathlib.Path(output).write_text("\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
