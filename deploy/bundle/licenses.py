"""Collects the licences of the Debian libraries that a bundle carries, and of NVIDIA's runtime."""
import pathlib
import re
import shutil
import subprocess

_COMMON = pathlib.Path("/usr/share/common-licenses")
# Packages whose headers are part of programs, and of which no library is copied.
_COMPILED_IN = ("nlohmann-json3-dev",)


def _owner(path):
    """The Debian package that installed the file. Its record may name it below / or /usr."""
    names = [str(path)]
    if names[0].startswith("/usr/"):
        names.append(names[0][len("/usr"):])
    for name in names:
        found = subprocess.run(["dpkg-query", "-S", name], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, check=False)
        if found.returncode == 0:
            return found.stdout.split(": ")[0].split(",")[0]
    raise LookupError("no Debian package owns %s, so its licence is unknown" % path)


def _describe(package):
    return subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${Version} (source ${source:Package} "
         "${source:Version})", package], stdout=subprocess.PIPE, text=True, check=True).stdout


def collect_debian(libraries, folder):
    """Writes to `folder` the copyright file of each package that owns one of `libraries` (name in
    the bundle -> file it was copied from), the licences these refer to, and PACKAGES.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    packages = {}
    for name, source in sorted(libraries.items()):
        packages.setdefault(_owner(source), []).append(name)
    for package in _COMPILED_IN:
        packages.setdefault(package, []).append("compiled into warpline-scheduler")
    lines = ["Libraries copied from Debian packages. Debian publishes the sources of every version",
             "at https://snapshot.debian.org.", ""]
    referred = set()
    for package, names in sorted(packages.items()):
        short = package.split(":")[0]
        text = pathlib.Path("/usr/share/doc", short, "copyright").read_text(
            encoding="utf-8", errors="replace")
        (folder / (short + ".copyright")).write_text(text, encoding="utf-8")
        referred |= set(re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.-]*[A-Za-z0-9])", text))
        lines.append("%s: %s" % (_describe(package), ", ".join(names)))
    (folder / "PACKAGES.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for licence in sorted(referred):
        if (_COMMON / licence).is_file():
            shutil.copyfile(_COMMON / licence, folder / licence)
    return sorted(packages)


def collect_cuda(cuda_home, folder):
    """NVIDIA's licence for the static runtime inside the programs. Returns whether it was found:
    the toolkit's installers put it at the top, the wheels beside their folder."""
    home = pathlib.Path(cuda_home).resolve()
    candidates = [home / "EULA.txt", home / "LICENSE",
                  *sorted(home.parent.parent.glob("nvidia_cuda_runtime-*/licenses/License.txt"))]
    for candidate in candidates:
        if candidate.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(candidate, folder / "nvidia-cuda-runtime.txt")
            return True
    return False
