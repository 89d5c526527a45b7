"""Programs that need nothing but Python: CUDA through ctypes. A server's CPU device runs them too."""
import ctypes

from report import check, main, report

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 x, .param .u64 y, .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra done;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f1, [%rd4];
  ld.global.f32 %f2, [%rd5];
  add.f32 %f3, %f1, %f2;
  st.global.f32 [%rd5], %f3;
done:
  ret;
}
"""


def _opened():
    cuda = ctypes.CDLL("libcuda.so.1")
    check("init", cuda.cuInit(0) == 0)
    context = ctypes.c_void_p()
    check("retain", cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0)
    check("current", cuda.cuCtxSetCurrent(context) == 0)
    return cuda


def vector_add():
    cuda = _opened()
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    check("module", cuda.cuModuleLoadData(ctypes.byref(module), PTX) == 0)
    check("kernel", cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"add") == 0)
    count = 1000
    host = (ctypes.c_float * count)(*range(count))
    x, y, n = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint32(count)
    for pointer in (x, y):
        check("allocate", cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.sizeof(host)) == 0)
        check("copy", cuda.cuMemcpyHtoD_v2(pointer, host, ctypes.sizeof(host)) == 0)
    parameters = (ctypes.c_void_p * 3)(*(ctypes.addressof(value) for value in (x, y, n)))
    check("launch", cuda.cuLaunchKernel(kernel, 8, 1, 1, 128, 1, 1, 0, None, parameters, None) == 0)
    check("back", cuda.cuMemcpyDtoH_v2(host, y, ctypes.sizeof(host)) == 0)
    report("sum", list(host))
    check("too_big", cuda.cuMemAlloc_v2(ctypes.byref(x), ctypes.c_size_t(1 << 60)) == 2)


def device():
    cuda = _opened()
    name, value = ctypes.create_string_buffer(256), ctypes.c_int()
    check("name", cuda.cuDeviceGetName(name, 256, 0) == 0)
    report("device", name.value.decode())
    for attribute in (1, 10, 16, 75, 76):
        check("attribute", cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, 0) == 0)
        report("attribute%d" % attribute, value.value)


if __name__ == "__main__":
    main({name: function for name, function in globals().items()
          if callable(function) and getattr(function, "__module__", "") == "__main__"})
