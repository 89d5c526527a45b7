"""Container images without a daemon: layers as tar archives and an OCI image layout around them.

The same content makes the same bytes: entries are sorted, owned by root and no newer than the stamp, and
the compression has no time in it. After the OCI image specification 1.0 (layout, manifest, config).
"""
import dataclasses
import gzip
import hashlib
import io
import json
import pathlib
import shutil
import tarfile
import time

CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
# Debian's packages of 12 still have files in these, and everything is in usr/ there.
MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


class Error(Exception):
    """Why no image was made."""


@dataclasses.dataclass
class Entry:
    kind: bytes  # One of tarfile's: REGTYPE, DIRTYPE, SYMTYPE.
    mode: int
    mtime: int
    content: bytes = b""
    target: str = ""


class Tree:
    """What a layer holds: path without a leading slash -> Entry."""

    def __init__(self):
        self.entries = {}
        for name in ("bin", "sbin", "lib", "lib64"):
            self.link(name, "usr/" + name)

    @staticmethod
    def place(path):
        """Where a path lies in a system whose usr/ is merged."""
        path = path.removeprefix("./").strip("/")
        first, slash, rest = path.partition("/")
        return "usr/%s%s%s" % (first, slash, rest) if first in MERGED else path

    def folder(self, path, mode=0o755, mtime=0):
        path = self.place(path)
        if path and path not in self.entries:
            self._parents(path)
            self.entries[path] = Entry(tarfile.DIRTYPE, mode, mtime)

    def file(self, path, content, mode=0o644, mtime=0):
        path = self.place(path)
        self._parents(path)
        self.entries[path] = Entry(tarfile.REGTYPE, mode, mtime, content)

    def link(self, path, target, mtime=0):
        if path not in MERGED:
            path = self.place(path)
        self._parents(path)
        self.entries[path] = Entry(tarfile.SYMTYPE, 0o777, mtime, target=target)

    def _parents(self, path):
        for parent in reversed(pathlib.PurePosixPath(path).parents):
            if str(parent) != "." and str(parent) not in self.entries:
                self.entries[str(parent)] = Entry(tarfile.DIRTYPE, 0o755, 0)

    def add_archive(self, stream, wanted):
        """The entries of a tar archive whose path `wanted` accepts. Raises Error for kinds that an image
        of programs has no use for."""
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                path = member.name.removeprefix("./").rstrip("/")
                if ".." in path.split("/"):
                    raise Error("the archive holds %s" % member.name)
                if path in ("", ".") or not wanted(path):
                    continue
                mtime = int(member.mtime)
                if member.isdir():
                    if self.place(path) not in ("usr/" + name for name in MERGED):
                        self.folder(path, member.mode & 0o1777, mtime)
                elif member.isfile():
                    # Nothing in the image changes its user when it is executed.
                    self.file(path, archive.extractfile(member).read(), member.mode & 0o777, mtime)
                elif member.issym():
                    self.link(path, member.linkname, mtime)
                elif member.islnk():
                    source = self.entries[self.place(member.linkname)]
                    self.file(path, source.content, source.mode, mtime)
                else:
                    raise Error("%s is neither file, folder nor link" % member.name)

    def resolve(self, path):
        """The entry that the path leads to through links, or None."""
        waiting, done = path.strip("/").split("/"), []
        for _ in range(256):  # A ring of links ends here.
            if not waiting:
                return self.entries.get("/".join(done))
            part = waiting.pop(0)
            if part in ("", "."):
                continue
            if part == "..":
                done[-1:] = []
                continue
            entry = self.entries.get("/".join(done + [part]))
            if entry is not None and entry.kind == tarfile.SYMTYPE:
                if entry.target.startswith("/"):
                    done = []
                waiting = entry.target.split("/") + waiting
            else:
                done.append(part)
        return None

    def archive(self, stamp):
        """The tar archive, uncompressed."""
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for path in sorted(self.entries):
                entry = self.entries[path]
                info = tarfile.TarInfo(path)
                info.type, info.mode, info.linkname = entry.kind, entry.mode, entry.target
                info.mtime = min(entry.mtime, stamp)
                info.size = len(entry.content)
                archive.addfile(info, io.BytesIO(entry.content))
        return raw.getvalue()


def digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


class Layout:
    """An OCI image layout with one image, in a folder that it replaces."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "blobs/sha256").mkdir(parents=True)

    def _blob(self, content, kind):
        name = digest(content)
        (self.folder / "blobs/sha256" / name.partition(":")[2]).write_bytes(content)
        return {"mediaType": kind, "digest": name, "size": len(content)}

    def write(self, layers, config, reference, stamp):
        """`layers` are tar archives, the lowest first; `config` is the part of that name of an image's
        configuration; `reference` is NAME:TAG. Returns the manifest's digest."""
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(stamp))
        described = []
        for layer in layers:
            packed = io.BytesIO()
            with gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=0, compresslevel=9) as file:
                file.write(layer)
            described.append(self._blob(packed.getvalue(), LAYER))
        image = self._blob(_json({
            "created": created, "architecture": "amd64", "os": "linux", "config": config,
            "rootfs": {"type": "layers", "diff_ids": [digest(layer) for layer in layers]},
            "history": [{"created": created, "created_by": "./dev image"} for _ in layers]}), CONFIG)
        manifest = self._blob(_json({"schemaVersion": 2, "mediaType": MANIFEST, "config": image,
                                     "layers": described}), MANIFEST)
        manifest["annotations"] = {"org.opencontainers.image.ref.name": reference.rpartition(":")[2],
                                   "io.containerd.image.name": reference}
        (self.folder / "index.json").write_bytes(
            _json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest]}))
        (self.folder / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
        return manifest["digest"]

    def pack(self, path, stamp):
        """The layout as one archive, as `ctr image import` and `podman load` take it."""
        files = sorted(self.folder.rglob("*"))
        with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
            for file in files:
                info = tarfile.TarInfo(str(file.relative_to(self.folder)))
                info.mtime = stamp
                if file.is_dir():
                    info.type, info.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(info)
                else:
                    info.size, info.mode = file.stat().st_size, 0o644
                    with open(file, "rb") as content:
                        archive.addfile(info, content)


def _json(value):
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def unpack(folder, target):
    """Writes the file system of a layout's image, which this program made, into `target`, and returns its
    configuration. Checks every digest on the way. Raises Error for a layout that does not fit
    together."""
    folder, target = pathlib.Path(folder), pathlib.Path(target)

    def read(part):
        content = (folder / "blobs/sha256" / part["digest"].partition(":")[2]).read_bytes()
        if digest(content) != part["digest"] or len(content) != part["size"]:
            raise Error("blob %s is damaged" % part["digest"])
        return content

    index = json.loads((folder / "index.json").read_bytes())
    manifest = json.loads(read(index["manifests"][0]))
    config = json.loads(read(manifest["config"]))
    layers = [gzip.decompress(read(layer)) for layer in manifest["layers"]]
    if [digest(layer) for layer in layers] != config["rootfs"]["diff_ids"]:
        raise Error("the layers are not those of the configuration")
    for layer in layers:
        with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
            for member in archive:
                archive.extract(member, target)
    return config
