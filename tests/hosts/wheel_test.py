#!/usr/bin/env python3
"""The Python wheel: what is in it, and that programs and notebooks get a GPU from it."""
import base64
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
import zipfile

import bundling

import harness

# Calls the driver as libraries do: by its name.
DRIVER = """
import ctypes
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
total = ctypes.c_size_t()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
assert cuda.cuDeviceTotalMem_v2(ctypes.byref(total), 0) == 0
print("devices", count.value, "MiB", total.value >> 20, flush=True)
"""


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = bundling.temporary_folder()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.bundle = bundling.make(cls.folder)
        cls.path = cls.make("first")
        cls.site = cls.folder / "site"
        with zipfile.ZipFile(cls.path) as wheel:
            cls.entries = wheel.infolist()
            wheel.extractall(cls.site)
            for entry in cls.entries:  # As pip does, and extractall() does not.
                (cls.site / entry.filename).chmod(entry.external_attr >> 16 & 0o777)

    @classmethod
    def make(cls, name):
        out = cls.folder / name
        subprocess.run(
            [sys.executable, str(bundling.RUNFILES / "deploy/wheel/wheel.py"), str(cls.bundle),
             "--out=%s" % out, "--stamp=1700000000"], check=True, stdout=subprocess.DEVNULL)
        path, = out.glob("*.whl")
        return path

    def python(self, text, *arguments, **variables):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("WARPLINE_") and k not in ("LD_LIBRARY_PATH", "PYTHONPATH")}
        env.update(variables, PYTHONPATH=str(self.site))
        command = [sys.executable, *(["-c", text] if text else []), *arguments]
        return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False, timeout=harness.GIVE_UP_S)

    def server(self):
        installation = harness.install([])
        self.addCleanup(installation.close)
        return harness.server(installation)

    def test_the_tag_is_that_of_the_glibc_that_it_needs(self):
        self.assertRegex(self.path.name, r"^warpline-[0-9.]+-py3-none-manylinux_2_34_x86_64\.whl$")
        text, = self.site.glob("warpline-*.dist-info/WHEEL")
        self.assertIn("Tag: py3-none-manylinux_2_34_x86_64\n", text.read_text())

    def test_the_record_has_every_file(self):
        record, = self.site.glob("warpline-*.dist-info/RECORD")
        lines = dict(line.split(",", 1) for line in record.read_text().splitlines())
        self.assertEqual({entry.filename for entry in self.entries}, set(lines))
        for name, rest in lines.items():
            if name.endswith("/RECORD"):
                continue
            raw = hashlib.sha256((self.site / name).read_bytes()).digest()
            self.assertEqual("sha256=" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode(),
                             rest.split(",")[0], name)

    def test_it_has_the_client_and_no_server(self):
        names = {entry.filename for entry in self.entries}
        self.assertIn("warpline/_bundle/lib/libcuda.so.1", names)
        self.assertEqual(["warpline/_bundle/bin/warpline"],
                         [name for name in names if name.startswith("warpline/_bundle/bin/")])
        self.assertFalse([name for name in names if re.search("_bundle/.*(sqlite|prometheus)", name)])
        self.assertTrue([name for name in names if name.endswith("licenses/LICENSE")])

    def test_the_same_bundle_gives_the_same_wheel(self):
        self.assertEqual(self.path.read_bytes(), self.make("second").read_bytes())

    def test_the_command_is_the_bundle_s(self):
        done = self.python(None, "-m", "warpline", "--version")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertRegex(done.stdout, r"^warpline [0-9.]+\n$")

    def test_a_process_and_its_children_get_a_gpu(self):
        text = ("import subprocess, sys, warpline\n"
                "warpline.connect(sys.argv[1], memory='256MiB')\n"
                "warpline.connect()\n" + DRIVER +
                "subprocess.run([sys.executable, '-c', sys.argv[2]], check=True)\n")
        with self.server() as server:
            done = self.python(text, server.endpoint, DRIVER)
            self.assertEqual((0, ""), (done.returncode, done.stderr))
            self.assertEqual(2 * "devices 1 MiB 256\n", done.stdout)
            # The lease has ended with the process.
            listed = self.python(None, "-m", "warpline", "ps", "--endpoint=" + server.endpoint)
            self.assertIn("no sessions", listed.stdout)

    def test_the_command_runs_programs(self):
        with self.server() as server:
            done = self.python(None, "-m", "warpline", "run", "--endpoint=" + server.endpoint,
                               "--memory=512MiB", "--", sys.executable, "-c", DRIVER)
        self.assertEqual((0, "devices 1 MiB 512\n"), (done.returncode, done.stdout), done.stderr)

    def test_without_a_server_there_is_an_error_that_says_so(self):
        done = self.python("import warpline\n"
                           "try: warpline.connect('127.0.0.1:1')\n"
                           "except warpline.Error as error: print(error)\n")
        self.assertIn("no scheduler or server answers at 127.0.0.1:1", done.stdout, done.stderr)

    def test_a_folder_that_the_linker_cannot_be_told_of_is_an_error(self):
        odd = self.folder / "a:b"
        shutil.copytree(self.site / "warpline", odd / "warpline")
        done = self.python("import sys\n"
                           "sys.path.insert(0, sys.argv[1])\n"
                           "import warpline\n"
                           "try: warpline.connect('127.0.0.1:1')\n"
                           "except warpline.Error as error: print(error)\n", str(odd))
        self.assertIn(str(odd), done.stdout, done.stderr)
        self.assertIn("LD_LIBRARY_PATH", done.stdout)

    def test_another_driver_that_is_loaded_already_is_an_error(self):
        other = self.folder / "other/libcuda.so.1"
        other.parent.mkdir()
        other.write_bytes((self.site / "warpline/_bundle/lib/libcuda.so.1").read_bytes())
        done = self.python("import ctypes, sys, warpline\n"
                           "ctypes.CDLL(sys.argv[1])\n"
                           "try: warpline.connect('127.0.0.1:1')\n"
                           "except warpline.Error as error: print(error)\n", str(other))
        self.assertIn("has loaded %s already" % other, done.stdout, done.stderr)

    def test_a_kernel_for_jupyter(self):
        home = self.folder / "jupyter"
        done = self.python(None, "-m", "warpline.notebook", "--endpoint=gpuhost:14000",
                           "--memory=4GiB", "--name=remote", JUPYTER_DATA_DIR=str(home))
        self.assertEqual(0, done.returncode, done.stderr)
        kernel = json.loads((home / "kernels/remote/kernel.json").read_text())
        self.assertEqual("python", kernel["language"])
        self.assertEqual([str(self.site / "warpline/_bundle/bin/warpline"), "run",
                          "--endpoint=gpuhost:14000", "--memory=4GiB", "--", sys.executable,
                          "-m", "ipykernel_launcher", "-f", "{connection_file}"], kernel["argv"])
        for wrong in (["--name=../up"], ["gpuhost:14000"]):
            done = self.python(None, "-m", "warpline.notebook", *wrong, JUPYTER_DATA_DIR=str(home))
            self.assertEqual(2, done.returncode)
            self.assertIsNone(re.search("Traceback", done.stderr))


if __name__ == "__main__":
    unittest.main()
