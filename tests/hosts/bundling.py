"""The bundle as users get it, made by deploy/bundle/bundle.py from what Bazel built for a test."""
import os
import pathlib
import subprocess
import sys
import tempfile

RUNFILES = pathlib.Path(os.environ.get("RUNFILES_DIR") or os.environ["TEST_SRCDIR"]) / "warpline"
sys.path.insert(0, str(RUNFILES / "tests"))
sys.path.insert(0, str(RUNFILES / "deploy/local"))


def temporary_folder():
    return tempfile.TemporaryDirectory(prefix="warpline-", dir=os.environ.get("TEST_TMPDIR"))


def make(folder):
    """Returns the path of the bundle in `folder`."""
    out = pathlib.Path(folder) / "warpline"
    done = subprocess.run(
        [sys.executable, str(RUNFILES / "deploy/bundle/bundle.py"), "--bazel_bin=%s" % RUNFILES,
         "--cuda_home=%s" % os.environ.get("CUDA_HOME", "/usr/local/cuda"), "--out=%s" % out],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stdout)
    return out


def programs():
    """The names of those that a bundle has as Bazel built them."""
    sys.path.insert(0, str(RUNFILES / "deploy/bundle"))
    import bundle  # pylint: disable=import-outside-toplevel
    return bundle.PROGRAMS


def elf_files(bundle):
    """Every dynamic ELF file of it."""
    sys.path.insert(0, str(RUNFILES / "deploy/bundle"))
    import elf  # pylint: disable=import-outside-toplevel
    return [path for path in sorted(bundle.rglob("*"))
            if path.is_file() and not path.is_symlink() and elf.is_elf(path)]
