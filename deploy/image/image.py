#!/usr/bin/env python3
"""Makes container images from a bundle and Debian's packages, as OCI layouts: a folder and a tar archive
for each image of images.toml.

No daemon, no root and no network but Debian's packages is needed: these are fetched by apt-get at the
versions of packages.lock, checked against its sums and unpacked; nothing of them is executed. With
--relock the lock is written anew, with the versions that apt-get offers now.
"""
import argparse
import io
import pathlib
import re
import subprocess
import sys
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "bundle")]
import elf  # noqa: E402  (lies in that folder)
import oci  # noqa: E402

ROOT = HERE.parent.parent
HOME = "usr/lib/warpline"
LOCK = HERE / "packages.lock"
USER = 65532
# What a container's programs read; Debian's packages make these when they are configured.
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/sbin/nologin\n"
                  "warpline:x:%d:%d:Warpline:/nonexistent:/sbin/nologin\n" % (USER, USER),
    "etc/group": "root:x:0:\nwarpline:x:%d:\n" % USER,
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n",
}
FOLDERS = {"tmp": 0o1777, "run": 0o755, "var/tmp": 0o1777, "dev": 0o755, "proc": 0o755, "sys": 0o755,
           "etc/ld.so.conf.d": 0o755}
# Of packages: what explains and what translates; licences stay.
LEFT_OUT = re.compile(r"usr/share/(doc/[^/]+/(?!copyright$).|man/.|info/.|locale/.|lintian/.|bug/.)"
                      r"|usr/lib/x86_64-linux-gnu/gconv/.|.*/__pycache__/.")
# By their loader's own rules.
DEFAULT_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib")
# The driver's, which the container's runtime mounts.
FROM_OUTSIDE = {"libcuda.so.1", "libnvidia-ml.so.1"}


class Error(Exception):
    """Why no image was made."""


def version():
    text = (ROOT / "common/version.h").read_text(encoding="utf-8")
    return re.search(r'kVersion\[\] = "([^"]+)"', text)[1]


# --- Debian's packages.

def read_lock(path=LOCK):
    """Package -> (version, SHA-256)."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, number, checksum = line.split()
            found[name] = (number, checksum)
    return found


def offered(names):
    """What apt-get would fetch: package -> (version, SHA-256)."""
    done = subprocess.run(["apt-get", "download", "--print-uris", *names], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise Error("apt-get: %s" % done.stderr.strip())
    found = {}
    for line in done.stdout.splitlines():
        match = re.match(r"'[^']*' (\S+?)_(\S+)_(?:amd64|all)\.deb \d+ SHA256:([0-9a-f]{64})$", line)
        if match:
            found[match[1]] = (match[2].replace("%3a", ":"), match[3])
    missing = sorted(set(names) - set(found))
    if missing:
        raise Error("apt-get offers no %s" % ", ".join(missing))
    return found


def write_lock(names):
    lines = ["# Debian 12's packages in the images: name, version, SHA-256 of the file. ./dev image --relock",
             "# writes this file anew; do so when Debian has replaced one of them."]
    lines += ["%s %s %s" % (name, *found) for name, found in sorted(offered(names).items())]
    LOCK.write_text("\n".join(lines) + "\n", encoding="utf-8")


def fetch(names, lock, cache):
    """Package -> the file, fetched unless it is in `cache`."""
    cache.mkdir(parents=True, exist_ok=True)
    files = {}
    for name in names:
        if name not in lock:
            raise Error("packages.lock has no %s: run ./dev image --relock" % name)
        number, checksum = lock[name]
        file = cache / ("%s_%s.deb" % (name, checksum[:16]))
        if not file.is_file():
            done = subprocess.run(["apt-get", "download", "%s=%s" % (name, number)], cwd=cache,
                                  capture_output=True, text=True, check=False)
            fetched = sorted(cache.glob("%s_*_*.deb" % name))
            if done.returncode != 0 or len(fetched) != 1:
                raise Error("%s=%s cannot be fetched, perhaps because Debian has replaced it (then: ./dev "
                            "image --relock): %s" % (name, number, done.stderr.strip()))
            fetched[0].rename(file)
        if oci.digest(file.read_bytes()) != "sha256:" + checksum:
            file.unlink()
            raise Error("%s=%s is not the file that packages.lock has" % (name, number))
        files[name] = file
    return files


def add_package(tree, file):
    done = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(file)], capture_output=True, check=False)
    if done.returncode != 0:
        raise Error("%s: %s" % (file, done.stderr.decode(errors="replace").strip()))
    tree.add_archive(io.BytesIO(done.stdout), lambda path: not LEFT_OUT.match(path))


def base_layer(files):
    tree = oci.Tree()
    for path, mode in FOLDERS.items():
        tree.folder(path, mode)
    for file in files:
        add_package(tree, file)
    for path, mode in FOLDERS.items():  # base-files has some of them, for its own configuration.
        tree.entries[tree.place(path)].mode = mode
    for path, text in FILES.items():
        tree.file(path, text.encode())
    return tree


# --- The bundle.

def closure(bundle, programs):
    """The programs with all private libraries that they need, as paths in the bundle."""
    private = {path.name: path.relative_to(bundle) for path in (bundle / "lib/warpline").iterdir()}
    wanted, waiting = set(), [pathlib.Path(program) for program in programs]
    while waiting:
        path = waiting.pop()
        if path in wanted:
            continue
        if not (bundle / path).exists():
            raise Error("the bundle has no %s" % path)
        wanted.add(path)
        if not (bundle / path).is_symlink():
            waiting += [private[name] for name in elf.needed_libraries((bundle / path).read_bytes())
                        if name in private]
    return sorted(wanted)


def bundle_layer(bundle, programs, files):
    tree = oci.Tree()
    for path in closure(bundle, programs) if programs else []:
        source = bundle / path
        if source.is_symlink():
            tree.link("%s/%s" % (HOME, path), str(source.readlink()))
        else:
            tree.file("%s/%s" % (HOME, path), source.read_bytes(), 0o644 if ".so" in path.name else 0o755)
    for file in files:
        tree.file(file["to"], (ROOT / file["from"]).read_bytes())
    for name in ("LICENSE", "NOTICE"):
        tree.file("usr/share/doc/warpline/" + name, (bundle / name).read_bytes())
    if programs:
        for path in sorted((bundle / "licenses").iterdir()):
            tree.file("usr/share/doc/warpline/licenses/" + path.name, path.read_bytes())
    return tree


def missing_libraries(trees):
    """What ELF files of the image need and nobody brings, as texts."""
    whole = oci.Tree()
    for tree in trees:
        whole.entries.update(tree.entries)
    for path, entry in sorted(whole.entries.items()):
        if not entry.content.startswith(b"\x7fELF\x02"):
            continue
        folder = str(pathlib.PurePosixPath(path).parent)
        folders = [part.replace("$ORIGIN", folder) for part in elf.library_folders(entry.content)]
        for name in elf.needed_libraries(entry.content):
            if name in FROM_OUTSIDE:
                continue
            if not any(whole.resolve("%s/%s" % (part, name)) for part in (*folders, *DEFAULT_FOLDERS)):
                yield "%s needs %s" % (path, name)


# --- Images.

def make_image(image, groups, bundle, lock, cache, out, stamp):
    names = [name for group in image["packages"] for name in groups[group]]
    base = base_layer(fetch(names, lock, cache).values())
    own = bundle_layer(bundle, image["programs"], image.get("files", []))
    missing = list(missing_libraries([base, own]))
    if missing:
        raise Error("%s would not run:\n  %s" % (image["name"], "\n  ".join(missing)))
    reference = "%s:%s" % (image["name"], version())
    commit = (bundle / "BUNDLE.txt").read_text(encoding="utf-8").strip().rpartition(" ")[2]
    layout = oci.Layout(out / image["name"])
    name = layout.write(
        [base.archive(stamp), own.archive(stamp)],
        {"User": "%d:%d" % (USER, USER), "WorkingDir": "/",
         "Env": ["PATH=/%s/bin:/usr/bin" % HOME],
         "Labels": {"org.opencontainers.image.title": image["title"],
                    "org.opencontainers.image.version": version(),
                    "org.opencontainers.image.revision": commit,
                    "org.opencontainers.image.licenses": "Apache-2.0",
                    "org.opencontainers.image.base.name": "debian:12 packages (packages.lock)"}},
        reference, stamp)
    archive = out / ("%s-%s.oci.tar" % (image["name"], version()))
    layout.pack(archive, stamp)
    print("image: %s %s, %.1f MiB in %s" % (reference, name, archive.stat().st_size / 2**20, archive))


def main():
    parser = argparse.ArgumentParser(prog="./dev image", description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", default=str(ROOT / "dist/warpline"), metavar="DIR",
                        help="of ./dev bundle (default dist/warpline)")
    parser.add_argument("--out", default=str(ROOT / "dist/images"), metavar="DIR",
                        help="where the images go (default dist/images)")
    parser.add_argument("--cache", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--stamp", type=int, default=int(time.time()), help=argparse.SUPPRESS)
    parser.add_argument("--relock", action="store_true", help="write packages.lock anew, and make no image")
    args = parser.parse_args()
    description = tomllib.loads((HERE / "images.toml").read_text(encoding="utf-8"))
    groups = description["packages"]
    try:
        if args.relock:
            write_lock(sorted({name for group in groups.values() for name in group}))
            print("image: wrote %s" % LOCK)
            return 0
        bundle = pathlib.Path(args.bundle).resolve()
        if not (bundle / "BUNDLE.txt").is_file():
            raise Error("%s is no bundle: run ./dev bundle" % bundle)
        for image in description["image"]:
            make_image(image, groups, bundle, read_lock(), pathlib.Path(args.cache),
                       pathlib.Path(args.out).resolve(), args.stamp)
        return 0
    except (Error, oci.Error, OSError) as error:
        print("image: error: %s" % error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
