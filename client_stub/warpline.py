"""What Warpline's libcuda.so.1 offers beyond CUDA (include/warpline.h), for programs in Python.

    import warpline

    if not warpline.wait_stream(stream.cuda_stream, seconds=0.5):  # PyTorch; CuPy has stream.ptr
        warpline.cancel_stream(stream.cuda_stream)
        warpline.wait_stream(stream.cuda_stream)

Streams and events are handles as CUDA's own functions take them, numbers; 0 is the legacy stream.
The module needs nothing but Python. With NVIDIA's driver available() is false.
"""
import ctypes
import math

TIMEOUT = 909  # CUDA_ERROR_TIMEOUT
CANCEL_WAITING = 1


class Error(RuntimeError):
    """A call returned something else than success; `result` is the CUresult."""

    def __init__(self, function, result):
        super().__init__("%s returned %d" % (function, result))
        self.result = result


def _function(name, *types):
    try:
        found = getattr(ctypes.CDLL("libcuda.so.1"), name)
    except (OSError, AttributeError):
        raise NotImplementedError("libcuda.so.1 has no %s: it is not Warpline's" % name) from None
    found.argtypes = types
    return found


def _call(name, types, *values):
    result = _function(name, *types)(*values)
    if result not in (0, TIMEOUT):
        raise Error(name, result)
    return result == 0


def available():
    """Whether this process has Warpline's library, of a version with these functions."""
    try:
        _function("warplineStreamCancel")
    except NotImplementedError:
        return False
    return True


def wait_stream(stream, seconds=math.inf):
    """Waits for the stream's work, so long at most. Returns whether all of it is complete."""
    return _call("warplineStreamWait", (ctypes.c_void_p, ctypes.c_double), stream, seconds)


def wait_event(event, seconds=math.inf):
    """The same for what an event has recorded."""
    return _call("warplineEventWait", (ctypes.c_void_p, ctypes.c_double), event, seconds)


def cancel_stream(stream, waiting_only=False):
    """Cancels the work that the stream has been given so far; see warplineStreamCancel."""
    _call("warplineStreamCancel", (ctypes.c_void_p, ctypes.c_uint), stream,
          CANCEL_WAITING if waiting_only else 0)


def read_back(address, size):
    """Returns bytes of device memory after an error that ended the session."""
    target = ctypes.create_string_buffer(size)
    _call("warplineMemoryReadback", (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t), target,
          address, size)
    return target.raw
