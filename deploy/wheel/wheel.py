#!/usr/bin/env python3
"""Makes a Python wheel of a bundle's client (bundle.py): its libraries, the command, a module.

The libraries lie in warpline/_bundle as they lie in the bundle, so that they find each other; of the
private copies only what the client needs. The wheel's tag says the oldest glibc that the symbols in
it ask for. The same bundle and stamp give the same bytes. Needs: patchelf, binutils.
"""
import argparse
import base64
import hashlib
import pathlib
import re
import subprocess
import sys
import time
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "bundle")]
import elf  # noqa: E402  (lies in that folder)

ROOT = HERE.parent.parent
CLIENT = ("lib/libcuda.so.1", "lib/libnvidia-ml.so.1", "lib/libwarpline_core.so",
          "lib/libwarpline_ucx.so", "lib/guarded/libcublas.so.13",
          "lib/guarded/libcublasLt.so.13", "bin/warpline")
PRIVATE = "lib/warpline"
MODULE = HERE / "package/warpline"
METADATA = """\
Metadata-Version: 2.1
Name: warpline
Version: {version}
Summary: Run CUDA programs on a GPU that is somewhere else: the client
License: Apache-2.0
Classifier: Operating System :: POSIX :: Linux
Classifier: Environment :: GPU :: NVIDIA CUDA
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{description}"""
WHEEL = """\
Wheel-Version: 1.0
Generator: warpline
Root-Is-Purelib: false
Tag: {tag}
"""
ENTRY_POINTS = """\
[console_scripts]
warpline = warpline.__main__:main
"""


class Error(Exception):
    """Why no wheel was made."""


def version():
    text = (ROOT / "common/version.h").read_text(encoding="utf-8")
    return re.search(r'kVersion\[\] = "([^"]+)"', text)[1]


def needed(path):
    done = subprocess.run(["patchelf", "--print-needed", str(path)], stdout=subprocess.PIPE,
                          text=True, check=True)
    return done.stdout.split()


def private_libraries(bundle):
    """Of the bundle's private copies, those that the client needs, directly or not."""
    found, waiting = set(), [bundle / name for name in CLIENT]
    while waiting:
        for name in needed(waiting.pop()):
            path = bundle / PRIVATE / name
            if path.is_file() and path not in found:
                found.add(path)
                waiting.append(path)
    return sorted(found)


def oldest_glibc(paths):
    """(2, N) of the newest symbol version of glibc that any of the files asks for."""
    newest = (2, 5)
    for path in paths:
        for _, wanted in elf.required_versions(path):
            match = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", wanted)
            if match:
                newest = max(newest, (int(match[1]), int(match[2])))
    return newest


def contents(bundle, tag):
    """[(name in the wheel, bytes, mode)] but for RECORD."""
    libraries = private_libraries(bundle)
    found = [("warpline/" + path.name, path.read_bytes(), 0o644) for path in sorted(MODULE.glob("*.py"))]
    for path in [*(bundle / name for name in CLIENT), *libraries]:
        name = "warpline/_bundle/%s" % path.relative_to(bundle)
        found.append((name, path.read_bytes(), 0o755))
    info = "warpline-%s.dist-info/" % version()
    description = (HERE / "description.md").read_text(encoding="utf-8")
    texts = {"METADATA": METADATA.format(version=version(), description=description),
             "WHEEL": WHEEL.format(tag=tag), "entry_points.txt": ENTRY_POINTS}
    found += [(info + name, text.encode("utf-8"), 0o644) for name, text in texts.items()]
    licences = [bundle / "LICENSE", bundle / "NOTICE", *sorted((bundle / "licenses").iterdir())]
    found += [(info + "licenses/" + path.name, path.read_bytes(), 0o644) for path in licences]
    return found


def digest(data):
    raw = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
    return "sha256=" + raw.decode("ascii")


def make(bundle, out, stamp):
    if not (bundle / "BUNDLE.txt").is_file():
        raise Error("%s is no bundle" % bundle)
    binaries = [bundle / name for name in CLIENT] + private_libraries(bundle)
    tag = "py3-none-manylinux_%d_%d_x86_64" % oldest_glibc(binaries)
    files = contents(bundle, tag)
    record = "warpline-%s.dist-info/RECORD" % version()
    lines = ["%s,%s,%d" % (name, digest(data), len(data)) for name, data, _ in files]
    files.append((record, ("\n".join([*lines, record + ",,"]) + "\n").encode("utf-8"), 0o644))
    out.mkdir(parents=True, exist_ok=True)
    path = out / ("warpline-%s-%s.whl" % (version(), tag))
    # Zip files know no time before 1980.
    when = time.gmtime(max(stamp, 315532800))[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, data, mode in files:
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    print("wheel: %s, %.1f MiB" % (path, path.stat().st_size / 2**20))
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."), metavar="DIR")
    parser.add_argument("--stamp", type=int, default=0, help="seconds since 1970, of its files")
    args = parser.parse_args()
    try:
        make(args.bundle.resolve(), args.out.resolve(), args.stamp)
        return 0
    except (Error, OSError, subprocess.CalledProcessError) as error:
        print("wheel: error: %s" % error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
