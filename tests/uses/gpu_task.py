"""Work on a GPU through the driver alone, for the processes of uses_test.py."""
import ctypes
import os

KERNEL = b"""
.version 7.0
.target sm_52
.address_size 64
.visible .entry square(.param .u64 data) {
  .reg .u64 %a, %o;
  .reg .u32 %i, %v;
  mov.u32 %i, %tid.x;
  ld.param.u64 %a, [data];
  mul.wide.u32 %o, %i, 4;
  add.u64 %a, %a, %o;
  ld.global.u32 %v, [%a];
  mul.lo.u32 %v, %v, %v;
  st.global.u32 [%a], %v;
  ret;
}
"""
THREADS = 64
_cuda = None
_square = None


class Error(Exception):
    """A call failed: its name and the CUresult."""


def call(name, *arguments):
    result = getattr(driver(), name)(*arguments)
    if result != 0:
        raise Error(name, result)


def driver():
    global _cuda
    if _cuda is None:
        _cuda = ctypes.CDLL("libcuda.so.1")
    return _cuda


def _start():
    global _square
    context, module, square = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), KERNEL)
    call("cuModuleGetFunction", ctypes.byref(square), module, b"square")
    _square = square


def compute(first):
    """The sum of the squares of THREADS numbers from `first` on."""
    if _square is None:
        _start()
    numbers = (ctypes.c_uint32 * THREADS)(*range(first, first + THREADS))
    data = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(data), ctypes.c_size_t(ctypes.sizeof(numbers)))
    call("cuMemcpyHtoD_v2", data, numbers, ctypes.c_size_t(ctypes.sizeof(numbers)))
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(data))
    call("cuLaunchKernel", _square, 1, 1, 1, THREADS, 1, 1, 0, None, parameters, None)
    call("cuMemcpyDtoH_v2", numbers, data, ctypes.c_size_t(ctypes.sizeof(numbers)))
    call("cuMemFree_v2", data)
    return sum(numbers)


def expected(first):
    return sum(n * n for n in range(first, first + THREADS))


def check(first):
    """Whether the GPU computes right; and who computed."""
    return compute(first) == expected(first), os.getpid()
