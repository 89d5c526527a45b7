"""Cuts a program's connection through shared memory: its socket, as if the other end were gone.

    cuts = shm_cuts.cut(process.pid)  # How many were cut: 0 or 1.
"""
import ctypes
import os
import socket

_PIDFD_OPEN = 434
_PIDFD_GETFD = 438
_libc = ctypes.CDLL(None, use_errno=True)


def _sockets(pid):
    """Duplicates of the process's sockets, which the caller closes."""
    pidfd = _libc.syscall(_PIDFD_OPEN, pid, 0)
    if pidfd < 0:
        return
    try:
        for name in os.listdir("/proc/%d/fd" % pid):
            fd = _libc.syscall(_PIDFD_GETFD, pidfd, int(name), 0)
            if fd < 0:
                continue
            try:
                yield socket.socket(fileno=fd)
            except OSError:
                os.close(fd)
    except FileNotFoundError:
        pass  # It has ended.
    finally:
        os.close(pidfd)


def cut(pid):
    done = 0
    for each in _sockets(pid):
        with each:
            if each.family != socket.AF_UNIX or each.type != socket.SOCK_SEQPACKET:
                continue
            try:
                name = os.fsencode(each.getpeername())
                if b"warpline-shm" in name or b"warpline@" in name:
                    each.shutdown(socket.SHUT_RDWR)
                    done += 1
            except OSError:
                pass  # It is being closed.
    return done
