#!/usr/bin/env python3
"""Makes a Debian package of a bundle (bundle.py).

The bundle lies in /usr/lib/warpline as it is; the commands are links to it in /usr/bin. No folder of
the dynamic linker's is touched: a program gets Warpline's libcuda.so.1 from `warpline run` or from
LD_LIBRARY_PATH, and the machine's own stays what the server uses. There are no maintainer scripts;
the services are installed and not started. Needs: dpkg-deb, binutils.
"""
import argparse
import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "bundle")]
import elf  # noqa: E402  (lies in that folder)
import man_pages  # noqa: E402

ROOT = HERE.parent.parent
HOME = "usr/lib/warpline"
COMMANDS = ("warpline", "warpline-server", "warpline-scheduler")
SERVICES = ("warpline-server", "warpline-scheduler")
SCRIPTS = ("demo.py", "bench.py", "startup.py", "make_certs.sh")
CONTROL = """\
Package: warpline
Version: {version}
Architecture: amd64
Maintainer: The Warpline Authors <warpline@localhost>
Installed-Size: {size}
Depends: libc6 (>= 2.34), libgcc-s1 (>= 4.2), libstdc++6 (>= 12)
Recommends: openssl, python3
Section: net
Priority: optional
Description: run CUDA programs on a GPU that is somewhere else
 Warpline is a GPU server: it owns its devices and runs the CUDA calls that
 unmodified programs forward to it over the network. This package has the
 server, the scheduler for a pool of servers, the client library that programs
 load in place of NVIDIA's libcuda.so.1, the command line tool and examples,
 with private copies of the libraries they need.
"""


class Error(Exception):
    """Why no package was made."""


def version():
    text = (ROOT / "common/version.h").read_text(encoding="utf-8")
    return re.search(r'kVersion\[\] = "([^"]+)"', text)[1]


def write(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(text, str):
        text = text.encode("utf-8")
    path.write_bytes(text)
    path.chmod(mode)


def is_program_of_nvcc(path):
    return path.parent.name == "examples" or path.name in ("warpline_bench", "warpline_startup")


def add_bundle(bundle, tree):
    home = tree / HOME
    home.mkdir(parents=True)
    for name in ("bin", "lib"):
        shutil.copytree(bundle / name, home / name, symlinks=True)
    for path in bundle.iterdir():
        if path.suffix in (".py", ".sh"):
            write(home / path.name, path.read_bytes(), 0o755 if path.name in SCRIPTS else 0o644)
    for path in home.rglob("*"):
        if path.is_file() and not path.is_symlink() and elf.is_elf(path):
            path.chmod(0o644 if ".so" in path.name else 0o755)
            if is_program_of_nvcc(path):
                subprocess.run(["strip", "--strip-unneeded", str(path)], check=True)
    (tree / "usr/bin").mkdir()
    for command in COMMANDS:
        (tree / "usr/bin" / command).symlink_to("../lib/warpline/bin/" + command)


def copyright_text(bundle):
    """Of Warpline and, word for word, of every package that libraries were copied from."""
    parts = [(bundle / "NOTICE").read_text(encoding="utf-8"),
             "The Apache License 2.0 is in /usr/share/common-licenses/Apache-2.0.\n"]
    licenses = bundle / "licenses"
    for path in [licenses / "PACKAGES.txt", *sorted(licenses.glob("*.copyright")),
                 licenses / "nvidia-cuda-runtime.txt"]:
        if path.is_file():
            parts.append("%s\n%s\n\n%s" % ("=" * 80, path.stem,
                                           path.read_text(encoding="utf-8", errors="replace")))
    return "\n".join(parts)


def compressed(text):
    return gzip.compress(text.encode("utf-8"), 9, mtime=0)


def add_texts(bundle, tree, stamp):
    doc = tree / "usr/share/doc/warpline"
    write(doc / "copyright", copyright_text(bundle))
    date = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(stamp))
    write(doc / "changelog.gz", compressed(
        "warpline (%s) unstable; urgency=medium\n\n  * %s\n\n"
        " -- The Warpline Authors <warpline@localhost>  %s\n"
        % (version(), (bundle / "BUNDLE.txt").read_text(encoding="utf-8").strip(), date)))
    readme = (bundle / "README.txt").read_text(encoding="utf-8")
    write(doc / "README.txt", "Installed in /%s; paths below are relative to it.\n\n%s"
          % (HOME, readme))
    own = ROOT / "deploy/debian/package"
    for service in SERVICES:
        unit = service + ".service"
        write(tree / "usr/lib/systemd/system" / unit, (own / unit).read_bytes())
        write(tree / "etc/default" / service, (own / (service + ".default")).read_bytes())
    for command in COMMANDS:
        write(tree / "usr/share/man" / man_pages.file_name(command),
              compressed(man_pages.make(command, bundle / "bin" / command)))
    write(tree / "usr/share/lintian/overrides/warpline", (own / "lintian-overrides").read_bytes())


def add_control(tree):
    files = [path for path in sorted(tree.rglob("*")) if path.is_file() and not path.is_symlink()]
    sums = ["%s  %s" % (hashlib.md5(path.read_bytes()).hexdigest(), path.relative_to(tree))
            for path in files if not str(path.relative_to(tree)).startswith("etc/")]
    size = sum(path.stat().st_size for path in files) // 1024
    write(tree / "DEBIAN/control", CONTROL.format(version=version(), size=size))
    write(tree / "DEBIAN/conffiles", "".join("/etc/default/%s\n" % name for name in SERVICES))
    write(tree / "DEBIAN/md5sums", "\n".join(sums) + "\n")


def make(bundle, out, stamp, compression="xz"):
    """Writes the package into the folder `out` and returns its path."""
    bundle = pathlib.Path(bundle).resolve()
    if not (bundle / "BUNDLE.txt").is_file():
        raise Error("%s is no bundle" % bundle)
    os.umask(0o022)
    out = pathlib.Path(out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    package = out / ("warpline_%s_amd64.deb" % version())
    with tempfile.TemporaryDirectory(dir=out) as folder:
        tree = pathlib.Path(folder) / "warpline"
        tree.mkdir(mode=0o755)
        add_bundle(bundle, tree)
        add_texts(bundle, tree, stamp)
        add_control(tree)
        done = subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Z" + compression, "--build", str(tree), str(package)],
            env={**os.environ, "SOURCE_DATE_EPOCH": str(stamp)}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise Error(done.stdout)
    return package


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle", help="folder that bundle.py made")
    parser.add_argument("--out", default=str(ROOT / "dist"), metavar="DIR")
    parser.add_argument("--stamp", type=int, default=int(time.time()),
                        help="seconds since 1970 that the package's files are at most old")
    parser.add_argument("--compression", default="xz", choices=("xz", "gzip"))
    args = parser.parse_args()
    try:
        package = make(args.bundle, args.out, args.stamp, args.compression)
    except (Error, OSError) as error:
        print("bundle: error: %s" % error, file=sys.stderr)
        return 1
    print("bundle: %s, %.1f MiB" % (package, package.stat().st_size / 2**20))
    return 0


if __name__ == "__main__":
    sys.exit(main())
