"""The accomplice: a taken-over worker's descriptors, in the hands of a process outside (finding C3).

A worker without a jail hands on whatever it is given (accomplice.h). While its session lives, what it
holds must be found in its descriptors, or the row proves nothing. Then the session ends, another
tenant's fills its memory, and none of that may be found.
"""
import ctypes
import mmap
import os
import pathlib
import socket
import struct
import subprocess
import tempfile
import threading
import time

from suite import NOT_STOPPED, STOPPED, Row, is_zombie, program_of

import local_server

FORMER, NEXT = 0x5ec2e751, 0x5ec2e752
SCALE = {"cpu": "4", "cuda": "128"}
MOST_DESCRIPTORS = 253  # The kernel's, of one message.
WAIT_S = 300


def words_in_file(descriptor, pattern):
    """How often the word is in a file that can be mapped; 0 for others."""
    size = os.fstat(descriptor).st_size
    if not size:
        return 0
    try:
        with mmap.mmap(descriptor, size, prot=mmap.PROT_READ) as mapped:
            return mapped[:].count(struct.pack("<I", pattern))
    except (OSError, ValueError):
        return 0


class FileReader:
    """Reads chunks of the CPU device."""

    def count(self, descriptor, pattern):
        return words_in_file(descriptor, pattern)


class DeviceReader:
    """Reads chunks of a GPU as any process does that holds their descriptors, with the driver."""

    _FD, _PINNED, _ON_DEVICE, _READ_WRITE = 1, 1, 1, 3
    _LARGEST, _GRANULARITY = 1 << 31, 2 << 20

    def __init__(self):
        self._cuda = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        for result in (self._cuda.cuInit(0),
                       self._cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
                       self._cuda.cuCtxSetCurrent(context)):
            if result != 0:
                raise local_server.Error("the accomplice has no device: error %d" % result)

    def count(self, descriptor, pattern):
        handle = ctypes.c_uint64()
        if self._cuda.cuMemImportFromShareableHandle(
                ctypes.byref(handle), ctypes.c_void_p(descriptor), self._FD) != 0:
            return 0
        try:
            size = self._LARGEST
            while size >= self._GRANULARITY:
                found = self._count_mapped(handle, size, pattern)
                if found is not None:
                    return found
                size //= 2
            return 0
        finally:
            self._cuda.cuMemRelease(handle)

    def _count_mapped(self, handle, size, pattern):
        """None when the chunk is of another size."""
        at = ctypes.c_uint64()
        bytes_ = ctypes.c_size_t(size)
        if self._cuda.cuMemAddressReserve(ctypes.byref(at), bytes_, ctypes.c_size_t(0),
                                          ctypes.c_uint64(0), ctypes.c_uint64(0)) != 0:
            return None
        try:
            if self._cuda.cuMemMap(at, bytes_, ctypes.c_size_t(0), handle, ctypes.c_uint64(0)) != 0:
                return None
            access = struct.pack("<iii", self._ON_DEVICE, 0, self._READ_WRITE)
            found = 0
            if self._cuda.cuMemSetAccess(at, bytes_, access, ctypes.c_size_t(1)) == 0:
                copy = ctypes.create_string_buffer(size)
                if self._cuda.cuMemcpyDtoH_v2(copy, at, bytes_) == 0:
                    found = copy.raw.count(struct.pack("<I", pattern))
            self._cuda.cuMemUnmap(at, bytes_)
            return found
        finally:
            self._cuda.cuMemAddressFree(at, bytes_)


class Accomplice:
    """Keeps every descriptor that it is handed at the socket `path`."""

    def __init__(self, path):
        self._descriptors, self._lock = [], threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        os.chmod(path, 0o777)
        self._listener.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._keep, args=(peer,), daemon=True).start()

    def _keep(self, peer):
        with peer:
            while True:
                try:
                    said, descriptors, _, _ = socket.recv_fds(peer, 1, MOST_DESCRIPTORS)
                except OSError:
                    return
                with self._lock:
                    self._descriptors += descriptors
                if not said:
                    return

    def descriptors(self):
        with self._lock:
            return list(self._descriptors)

    def close(self):
        self._listener.close()
        for descriptor in self.descriptors():
            os.close(descriptor)


class AccompliceSuite:
    name = "accomplice"
    device = "cpu"

    def __init__(self, installation, server, _session):
        self._bin, self._server = installation.root / "bin", server
        self._env = installation.client_environment(server.endpoint)
        self._layers = {layer for line in subprocess.run(
            [str(self._bin / "warpline-worker"), "--list"], check=True, stdout=subprocess.PIPE,
            text=True).stdout.splitlines() for layer in line.split()[1].split(",")}
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="warpline-accomplice-"))
        self._folder.chmod(0o755)
        self._path = str(self._folder / "socket")

    def close(self):
        subprocess.run(["rm", "-rf", str(self._folder)], check=False)

    def _hold(self, pattern):
        """A session that has memory full of the pattern."""
        program = subprocess.Popen(
            [str(self._bin / "residue"), "hold", str(pattern), SCALE[self.device]],
            env=self._env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True)
        said = program.stdout.readline()
        if said.strip() != "held":
            program.kill()
            raise local_server.Error("no memory is held: " + said + program.communicate()[0][-300:])
        return program

    def _workers(self):
        return {pid for pid in local_server.descendants(self._server.pid)
                if program_of(pid) == "warpline-worker" and not is_zombie(pid)}

    def _let_go(self, program, workers):
        """Ends the session, and waits until its worker is gone."""
        program.communicate()
        deadline = time.monotonic() + WAIT_S
        while workers & self._workers() and time.monotonic() < deadline:
            time.sleep(0.05)
        return not workers & self._workers()

    def rows(self):
        accomplice = Accomplice(self._path)
        reader = DeviceReader() if self.device == "cuda" else FileReader()
        try:
            yield self._next_tenants_memory(accomplice, reader)
        finally:
            accomplice.close()

    def _next_tenants_memory(self, accomplice, reader):
        def found(pattern):
            return sum(reader.count(each, pattern) for each in accomplice.descriptors())

        row = Row(self.name, "memory_of_the_next_tenant", NOT_STOPPED, "C3; ")
        before = self._workers()
        (self._bin / "layers_off").write_text("\n".join(self._layers) + "\n")
        (self._bin / "accomplice").write_text(self._path + "\n")
        try:
            former = self._hold(FORMER)
        finally:
            (self._bin / "accomplice").unlink()
            (self._bin / "layers_off").unlink()
        own = found(FORMER)
        if not self._let_go(former, self._workers() - before):
            row.detail += "the worker did not end"
            return row
        following = self._hold(NEXT)
        others = found(NEXT)
        self._let_go(following, set())
        row.detail += ("%d descriptors show %d words of their own session and %d of the next one"
                       % (len(accomplice.descriptors()), own, others))
        if not own:
            row.detail += ": nothing is proved"
        elif not others:
            row.verdict = STOPPED
        return row
