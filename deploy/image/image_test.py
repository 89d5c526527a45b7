#!/usr/bin/python3
"""Images from packages and a bundle that the test makes itself: the same content makes the same bytes, and
what does not fit together is refused."""
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "bundle")]
import image  # noqa: E402  (found by the path above)
import oci  # noqa: E402

STAMP = 1700000000


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def package(self, name, files, links=()):
        """A .deb with these files: path -> (content, mode)."""
        tree = self.folder / ("tree-" + name)
        for path, (content, mode) in files.items():
            target = tree / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(mode)
        for path, target in links:
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).symlink_to(target)
        (tree / "DEBIAN").mkdir()
        (tree / "DEBIAN/control").write_text(
            "Package: %s\nVersion: 1\nArchitecture: amd64\nMaintainer: T <t@localhost>\nDescription: t\n" % name)
        file = self.folder / (name + ".deb")
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "-b", str(tree), str(file)], check=True,
                       capture_output=True)
        return file


class TreeTest(Case):
    def test_packages_lie_in_a_merged_usr(self):
        file = self.package("tool", {"bin/tool": (b"#!", 0o4755), "lib/x.so": (b"x", 0o644),
                                     "usr/share/doc/tool/copyright": (b"free", 0o644),
                                     "usr/share/doc/tool/changelog": (b"long", 0o644),
                                     "usr/share/man/man1/tool.1": (b"page", 0o644)},
                            links=[("bin/alias", "tool")])
        tree = image.base_layer([file])
        self.assertEqual(tree.entries["bin"].target, "usr/bin")
        # Nothing changes its user.
        self.assertEqual(tree.entries["usr/bin/tool"].mode, 0o755)
        self.assertEqual(tree.entries["usr/bin/alias"].target, "tool")
        self.assertEqual(tree.entries["usr/lib/x.so"].content, b"x")
        self.assertIn("usr/share/doc/tool/copyright", tree.entries)
        for left_out in ("usr/share/doc/tool/changelog", "usr/share/man/man1/tool.1", "bin/tool"):
            self.assertNotIn(left_out, tree.entries)
        self.assertEqual(tree.entries["tmp"].mode, 0o1777)
        self.assertIn(b"65532", tree.entries["etc/passwd"].content)

    def test_links_are_followed_and_rings_end(self):
        tree = oci.Tree()
        tree.file("usr/lib/a/real.so", b"here")
        tree.link("usr/lib/one.so", "a/two.so")
        tree.link("usr/lib/a/two.so", "/lib/a/../a/real.so")
        tree.link("usr/lib/ring", "ring")
        self.assertEqual(tree.resolve("usr/lib/one.so").content, b"here")
        self.assertEqual(tree.resolve("lib/one.so").content, b"here")
        self.assertIsNone(tree.resolve("usr/lib/ring"))
        self.assertIsNone(tree.resolve("usr/lib/none"))

    def test_archives_with_other_things_are_refused(self):
        for kind, name in ((tarfile.CHRTYPE, "dev/x"), (tarfile.FIFOTYPE, "x"), (tarfile.REGTYPE, "../x")):
            raw = io.BytesIO()
            with tarfile.open(fileobj=raw, mode="w") as archive:
                info = tarfile.TarInfo(name)
                info.type = kind
                archive.addfile(info)
            raw.seek(0)
            with self.assertRaises(oci.Error):
                oci.Tree().add_archive(raw, lambda _: True)


class LayoutTest(Case):
    def make(self, name, order):
        tree = oci.Tree()
        for path in order:
            tree.file(path, path.encode(), 0o755, mtime=STAMP + 100)
        layout = oci.Layout(self.folder / name)
        digest = layout.write([tree.archive(STAMP)], {"User": "1:1"}, "x:1", STAMP)
        layout.pack(self.folder / (name + ".tar"), STAMP)
        return digest

    def test_the_same_content_makes_the_same_bytes(self):
        first = self.make("first", ["etc/a", "usr/bin/b"])
        self.assertEqual(self.make("second", ["usr/bin/b", "etc/a"]), first)
        self.assertEqual((self.folder / "first.tar").read_bytes(), (self.folder / "second.tar").read_bytes())
        self.assertNotEqual(self.make("third", ["etc/a", "usr/bin/c"]), first)

    def test_a_layout_is_what_the_specification_says(self):
        self.make("made", ["etc/a"])
        folder = self.folder / "made"
        self.assertEqual(json.loads((folder / "oci-layout").read_text()), {"imageLayoutVersion": "1.0.0"})
        index = json.loads((folder / "index.json").read_text())
        self.assertEqual((index["schemaVersion"], len(index["manifests"])), (2, 1))
        self.assertEqual(index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], "1")
        for blob in (folder / "blobs/sha256").iterdir():
            self.assertEqual(oci.digest(blob.read_bytes()), "sha256:" + blob.name)
        target = self.folder / "out"
        config = oci.unpack(folder, target)
        self.assertEqual(config["config"], {"User": "1:1"})
        self.assertEqual((target / "etc/a").read_text(), "etc/a")
        self.assertEqual(int((target / "etc/a").stat().st_mtime), STAMP)
        self.assertEqual((target / "etc/a").stat().st_mode & 0o777, 0o755)

    def test_a_damaged_layout_is_found(self):
        self.make("made", ["etc/a"])
        largest = max((self.folder / "made/blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
        largest.write_bytes(largest.read_bytes()[:-1] + b"?")
        with self.assertRaises(oci.Error):
            oci.unpack(self.folder / "made", self.folder / "out")


class ImageTest(Case):
    """Whole images, with a bundle of this machine's programs."""

    def setUp(self):
        super().setUp()
        self.bundle = self.folder / "bundle"
        for path in ("bin", "lib/warpline", "licenses"):
            (self.bundle / path).mkdir(parents=True)
        for name in ("LICENSE", "NOTICE", "BUNDLE.txt", "licenses/PACKAGES.txt"):
            (self.bundle / name).write_text("Warpline bundle, commit abc\n")
        self.true = pathlib.Path("/usr/bin/true").read_bytes()
        (self.bundle / "bin/program").write_bytes(self.true)
        (self.bundle / "lib/warpline/libwarpline-unused.so").write_bytes(self.true)
        libc = pathlib.Path("/usr/lib/x86_64-linux-gnu/libc.so.6").resolve().read_bytes()
        loader = pathlib.Path("/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2").resolve().read_bytes()
        file = self.package("libc6", {"lib/x86_64-linux-gnu/libc.so.6": (libc, 0o755),
                                      "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2": (loader, 0o755)})
        checksum = oci.digest(file.read_bytes()).partition(":")[2]
        self.lock = {"libc6": ("1", checksum)}
        self.cache = self.folder / "cache"
        self.cache.mkdir()
        file.rename(self.cache / ("libc6_%s.deb" % checksum[:16]))
        self.description = {"name": "tried", "title": "T", "packages": ["base"], "programs": ["bin/program"]}

    def make(self, out="out", groups=None):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            image.make_image(self.description, groups or {"base": ["libc6"]}, self.bundle, self.lock,
                             self.cache, self.folder / out, STAMP)
        return said.getvalue()

    def test_an_image_has_the_program_what_it_needs_and_nothing_else(self):
        self.assertIn("tried:", self.make())
        config = oci.unpack(self.folder / "out/tried", self.folder / "root")
        self.assertEqual(config["config"]["User"], "65532:65532")
        self.assertEqual(config["config"]["Labels"]["org.opencontainers.image.revision"], "abc")
        self.assertEqual((self.folder / "root/usr/lib/warpline/bin/program").read_bytes(), self.true)
        self.assertFalse((self.folder / "root/usr/lib/warpline/lib").exists())

    def test_it_is_made_twice_alike(self):
        self.make("a")
        self.make("b")
        self.assertEqual((self.folder / "a/tried/index.json").read_bytes(),
                         (self.folder / "b/tried/index.json").read_bytes())

    def assert_refused(self, words, **options):
        with self.assertRaises(image.Error) as caught:
            self.make(**options)
        self.assertIn(words, str(caught.exception))

    def test_what_would_not_run_is_refused(self):
        self.assert_refused("usr/lib/warpline/bin/program needs libc.so.6", groups={"base": []})

    def test_a_package_that_is_not_the_locked_one_is_refused(self):
        file = next(self.cache.iterdir())
        file.write_bytes(file.read_bytes() + b"?")
        self.assert_refused("is not the file that packages.lock has")
        self.assertFalse(file.exists())

    def test_a_package_without_a_lock_is_refused(self):
        self.assert_refused("packages.lock has no other", groups={"base": ["libc6", "other"]})

    def test_a_program_that_the_bundle_lacks_is_refused(self):
        self.description["programs"] = ["bin/none"]
        self.assert_refused("the bundle has no bin/none")


class LockTest(unittest.TestCase):
    def test_every_package_is_locked_and_no_other(self):
        import tomllib
        description = tomllib.loads((HERE / "images.toml").read_text(encoding="utf-8"))
        wanted = {name for group in description["packages"].values() for name in group}
        lock = image.read_lock()
        self.assertEqual(set(lock), wanted)
        for number, checksum in lock.values():
            self.assertRegex(checksum, "^[0-9a-f]{64}$")
            self.assertTrue(number)


if __name__ == "__main__":
    unittest.main()
