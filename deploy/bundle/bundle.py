#!/usr/bin/env python3
"""Makes one folder with client, server, examples and benchmark that runs on other Linux machines.

  lib/             libcuda.so.1 with its core, and libnvidia-ml.so.1: what an application's
                   LD_LIBRARY_PATH names
  lib/guarded/     libcublas.so.13 and libcublasLt.so.13 for programs on the guarded tier
  lib/driver/      what NVIDIA's libraries find as libcuda.so.1 in a worker
  lib/warpline/    private copies of every library that core and server need outside glibc
  include/         warpline.h, what libcuda.so.1 offers beyond CUDA
  python/          warpline.py, the same for programs in Python
  bin/             the server's programs and the command line tool; bin/examples, bin/warpline_bench
  licenses/        of everything that was copied

The copies live inside other people's processes, so they must share nothing with libraries of the
same origin there: their SONAMEs get a prefix, they find each other by RPATH, and they have no unique
symbols. They are apart from libcuda.so.1 because the server looks for the machine's real libcuda.so.1
and its RPATH must not lead it to ours. Programs made by nvcc are copied as they are.
Needs: patchelf, binutils, ldd, and Debian's package database for the licences.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "local")]
import elf  # noqa: E402  (lies beside this file)
import licenses  # noqa: E402
import local_server  # noqa: E402

ROOT = HERE.parent.parent
PREFIX = "libwarpline-"
COMPAT = "libwarpline_compat.so"
# The host's: glibc, and libgcc_s, which must be the one that the host's C++ code unwinds with.
HOST = re.compile(r"^(ld-linux.*|linux-vdso.*|lib(c|m|dl|rt|pthread|resolv|util|anl)\.so.*"
                  r"|libgcc_s\.so\.1)$")
HOST_CPP = "libstdc++.so.6"  # For programs that are copied as they are.
# RHEL 9's glibc and libgcc_s. Programs that are copied as they are take the host's libstdc++ too;
# the two-thread example wants that of GCC 12, which Ubuntu 22.04 has.
NEWEST = {"GLIBC": (2, 34), "GCC": (7, 0, 0), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13)}
PROGRAMS = ("warpline_bench", "warpline_startup", "long_program", "model_worker")
# The example of a model server, for its image.
MODEL_SERVER = {"bin/model_server": "examples/model_server/model_server",
                "bin/model_client": "examples/model_server/model_client"}
MARKER = "BUNDLE.txt"
# Libraries that applications load in place of NVIDIA's, and one that NVIDIA's load in a worker.
SHIMS = ("lib/libcuda.so.1", "lib/libnvidia-ml.so.1", "lib/guarded/libcublas.so.13",
         "lib/guarded/libcublasLt.so.13", "lib/driver/libcuda.so.1")
# What a library needs without saying so: whoever is linked with it is with the other, too.
UNSAID = {"libucm.so.0": "libucs.so.0"}
# What these load, with the private copies.
GUESTS = ("lib/libwarpline_core.so", "lib/libwarpline_ucx.so")


class Error(Exception):
    """Why no bundle was made."""


def run(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Error("%s failed: %s" % (" ".join(str(word) for word in command), done.stdout))
    return done.stdout


def library_closure(paths):
    """SONAME -> file of every library outside glibc that the files need, directly or not."""
    found = {}
    for path in paths:
        for line in run("ldd", path).splitlines():
            missing = re.match(r"\s*(\S+) => not found", line)
            if missing:
                raise Error("%s needs %s, which is not here" % (path, missing[1]))
            match = re.match(r"\s*(\S+) => (\S+) \(", line)
            if match and not HOST.match(match[1]):
                found[match[1]] = pathlib.Path(match[2]).resolve()
    return found


def private_name(soname):
    return PREFIX + soname[len("lib"):]


def copy(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755)
    return target


def make_private(path, rpath, closure, soname=None):
    """One kind of change a call: patchelf 0.14 mixes up the values otherwise."""
    run("strip", "--strip-unneeded", path)
    run("patchelf", "--force-rpath", "--set-rpath", rpath, path)
    if soname:
        run("patchelf", "--set-soname", soname, path)
    renames = []
    for needed in run("patchelf", "--print-needed", path).split():
        if needed in closure:
            renames += ["--replace-needed", needed, private_name(needed)]
    if renames:
        run("patchelf", *renames, path)


def cure_libstdcxx(path):
    """Debian's libstdc++ wants arc4random@GLIBC_2.36 and nothing else of that version; lets it take
    COMPAT's on older systems. (A weak version would do too, but the loader warns of it.)"""
    run("patchelf", "--clear-symbol-version", "arc4random", path)
    run("patchelf", "--add-needed", COMPAT, path)
    elf.replace_version(path, "GLIBC_2.36", "GLIBC_2.34")


def add_libraries(out, bazel_bin):
    """Fills lib/ and bin/. Returns the copied libraries: name in the bundle -> original."""
    for shim in SHIMS:
        copied = copy(bazel_bin / local_server.CLIENT_LIBRARIES[shim], out / shim)
        run("strip", "--strip-unneeded", copied)
    (out / "lib/libcuda.so").symlink_to("libcuda.so.1")  # For linking with -lcuda.
    users = {to: bazel_bin / local_server.CLIENT_LIBRARIES[to] for to in GUESTS}
    users.update({to: bazel_bin / path for to, path in {**local_server.BINARIES, **MODEL_SERVER}.items()})
    closure = library_closure(users.values())
    for to, source in users.items():
        rpath = "$ORIGIN/warpline" if to in GUESTS else "$ORIGIN/../lib/warpline"
        make_private(copy(source, out / to), rpath, closure)
        elf.make_unique_symbols_global(out / to)
    folder = out / "lib/warpline"
    for soname, source in closure.items():
        name = private_name(soname)
        target = copy(source, folder / name)
        make_private(target, "$ORIGIN", closure, name)
        if soname == HOST_CPP:
            cure_libstdcxx(target)
        if soname in UNSAID:
            run("patchelf", "--add-needed", private_name(UNSAID[soname]), target)
        elf.make_unique_symbols_global(target)
    make_private(copy(bazel_bin / "deploy/bundle" / COMPAT, folder / COMPAT), "$ORIGIN", {})
    return {private_name(soname): source for soname, source in closure.items()}


def add_programs(out, bazel_bin):
    listing = ROOT / "examples/programs.txt"
    names = [line.split()[0] for line in listing.read_text(encoding="utf-8").splitlines()
             if line.split("#")[0].strip()]
    for name in names:
        copy(bazel_bin / "examples" / name, out / "bin/examples" / name)
    shutil.copyfile(listing, out / "bin/examples/programs.txt")
    copy(ROOT / "client_stub/warpline.h", out / "include/warpline.h")
    copy(ROOT / "client_stub/warpline.py", out / "python/warpline.py")
    copy(bazel_bin / "examples/model_server/model_worker", out / "bin/model_worker")
    chaos = bazel_bin / "tests/chaos/long_program"
    if chaos.is_file():
        copy(chaos, out / "bin/long_program")
    bench = bazel_bin / "bench/cuda/warpline_bench"
    if bench.is_file():
        copy(bench, out / "bin/warpline_bench")
        copy(bazel_bin / "bench/cuda/startup", out / "bin/warpline_startup")
    for script in ("deploy/local/local_server.py", "deploy/local/demo.py", "deploy/local/bench.py",
                   "deploy/local/startup.py", "deploy/local/make_certs.sh", "bench/cuda/compare.py",
                   "bench/paired.py", "bench/goals.json"):
        if (ROOT / script).is_file():
            copy(ROOT / script, out / pathlib.Path(script).name)


def add_texts(out, libraries, cuda_home, commit):
    for name in ("LICENSE", "NOTICE"):
        shutil.copyfile(ROOT / name, out / name)
    shutil.copyfile(ROOT / "deploy/bundle/bundle_readme.txt", out / "README.txt")
    packages = licenses.collect_debian(libraries, out / "licenses")
    if not licenses.collect_cuda(cuda_home, out / "licenses"):
        print("bundle: no licence text in %s; NOTICE refers to NVIDIA's" % cuda_home)
    (out / MARKER).write_text("Warpline bundle, commit %s\n" % commit, encoding="utf-8")
    return packages


def version_tuple(text):
    return tuple(int(part) for part in text.split("."))


def too_new(path):
    """The symbol versions that the file requires and the oldest supported systems lack."""
    found = []
    for library, version in elf.required_versions(path):
        family, _, number = version.partition("_")
        if library.startswith(PREFIX) or not re.fullmatch(r"[0-9.]+", number):
            continue
        if family in NEWEST and version_tuple(number) > NEWEST[family]:
            found.append("%s of %s" % (version, library))
    return found


def verify(out):
    """Raises Error unless every file needs only the bundle and an old enough host."""
    faults = []
    inside = {path.name for path in (out / "lib/warpline").iterdir()}
    for path in sorted(out.rglob("*")):
        if path.is_symlink() or not path.is_file() or not elf.is_elf(path):
            continue
        name = path.relative_to(out)
        as_it_was = str(name).startswith("bin/examples/") or name.name in PROGRAMS
        faults += ["%s needs %s" % (name, version) for version in too_new(path)]
        for needed in run("patchelf", "--print-needed", path).split():
            on_host = HOST.match(needed) or (as_it_was and needed == HOST_CPP)
            if needed not in inside and not on_host:
                faults.append("%s needs %s, which is not in the bundle" % (name, needed))
        if not as_it_was:
            for line in run("ldd", "-r", path).splitlines():
                if "not found" in line or "undefined symbol" in line:
                    faults.append("%s: %s" % (name, line.strip()))
    for shim in SHIMS:
        if set(run("patchelf", "--print-needed", out / shim).split()) - {"libc.so.6"}:
            faults.append("%s needs more than libc.so.6" % shim)
    if faults:
        raise Error("the bundle would not run everywhere:\n  " + "\n  ".join(faults))


def replace(partial, out):
    if out.exists():
        if any(out.iterdir()) and not (out / MARKER).is_file():
            raise Error("%s holds something else than a bundle; name another folder" % out)
        shutil.rmtree(out)
    partial.rename(out)


def size_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*")
               if path.is_file() and not path.is_symlink())


def make(args):
    out = pathlib.Path(args.out).resolve()
    bazel_bin = pathlib.Path(args.bazel_bin).resolve()
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        libraries = add_libraries(partial, bazel_bin)
        add_programs(partial, bazel_bin)
        packages = add_texts(partial, libraries, args.cuda_home, args.commit)
        verify(partial)
        replace(partial, out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    print("bundle: %d libraries of %d Debian packages, %.1f MiB in %s"
          % (len(libraries), len(packages), size_of(out) / 2**20, out))


def main():
    parser = argparse.ArgumentParser(prog="./dev bundle", description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=str(ROOT / "dist/warpline"), metavar="DIR",
                        help="folder to make or to replace (default dist/warpline)")
    parser.add_argument("--bazel_bin", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--cuda_home", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--commit", default="unknown", help=argparse.SUPPRESS)
    try:
        make(parser.parse_args())
        return 0
    except (Error, OSError, LookupError) as error:
        print("bundle: error: %s" % error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
