#!/usr/bin/env python3
"""An application whose kernels do not end by themselves: it waits with deadlines, and cancels.

    application.py TEST [ARGUMENT...]      with PYTHONPATH naming the folder of warpline.py

It uses the driver's API and warpline.py alone, so that it shows what a program in Python may write.
Its last line is "application: ok".
"""
import ctypes
import random
import sys
import threading

import warpline

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 word)
{
  .reg .pred %p1;
  .reg .b32 %r1;
  .reg .b64 %rd1;
  ld.param.u64 %rd1, [word];
  mov.u32 %r1, 1;
  st.volatile.global.u32 [%rd1+4], %r1;
AGAIN:
  ld.volatile.global.u32 %r1, [%rd1];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra AGAIN;
  ret;
}
.visible .entry count(.param .u64 word)
{
  .reg .b32 %r1;
  .reg .b64 %rd1;
  ld.param.u64 %rd1, [word];
  atom.global.add.u32 %r1, [%rd1], 1;
  ret;
}
"""
NON_BLOCKING = 1
LAUNCH_TIMEOUT = 702
# Where the words of the kernels are in the program's memory: the one that ends a spin, the one that
# says that it has begun, and what is counted.
SPIN, BEGUN, COUNT = 0, 4, 4096
BYTES = 8192
SOON = 0.005
# A wait that is to be in time on any machine.
LONG = 200


class Cuda:
    """The driver, one context, memory, and the two kernels."""

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.context = context
        self.enter()
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), PTX)
        self.kernels = {}
        for name in ("spin", "count"):
            kernel = ctypes.c_void_p()
            self.call("cuModuleGetFunction", ctypes.byref(kernel), module, name.encode())
            self.kernels[name] = kernel
        memory = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(BYTES))
        self.memory = memory.value
        self.call("cuMemsetD8_v2", memory, ctypes.c_ubyte(0), ctypes.c_size_t(BYTES))
        assert warpline.wait_stream(None, LONG)

    def enter(self):
        """The context becomes that of this thread."""
        self.call("cuCtxSetCurrent", self.context)

    def result(self, function, *arguments):
        return getattr(self.driver, function)(*arguments)

    def call(self, function, *arguments):
        result = self.result(function, *arguments)
        assert result == 0, "%s: %d" % (function, result)

    def stream(self, flags=NON_BLOCKING):
        made = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(made), flags)
        return made

    def event(self, stream):
        made = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(made), 2)
        self.call("cuEventRecord", made, stream)
        return made

    def launch(self, name, stream, offset):
        address = ctypes.c_uint64(self.memory + offset)
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(address))
        self.call("cuLaunchKernel", self.kernels[name], 1, 1, 1, 1, 1, 1, 0, stream, parameters, None)

    def spin(self, stream):
        self.launch("spin", stream, SPIN)

    def await_spin(self, stream, other):
        """Launches one and returns when it runs, as another stream sees."""
        self.write(BEGUN, 0, other)
        self.spin(stream)
        while self.read(BEGUN, other) == 0:
            pass

    def count(self, stream):
        self.launch("count", stream, COUNT)

    def read(self, offset, stream):
        """The word there, once the stream has come so far."""
        word = ctypes.c_uint32()
        self.call("cuMemcpyDtoHAsync_v2", ctypes.byref(word), ctypes.c_uint64(self.memory + offset),
                  ctypes.c_size_t(4), stream)
        assert warpline.wait_stream(stream, LONG)
        return word.value

    def write(self, offset, value, stream):
        word = ctypes.c_uint32(value)
        self.call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(self.memory + offset), ctypes.byref(word),
                  ctypes.c_size_t(4), stream)
        assert warpline.wait_stream(stream, LONG)


def deadlines(cuda):
    """Waits end, the device's work goes on, and what is complete is seen."""
    hung, other = cuda.stream(), cuda.stream()
    cuda.spin(hung)
    event = cuda.event(hung)
    for _ in range(10):
        assert not warpline.wait_stream(hung, SOON)
        assert not warpline.wait_event(event, SOON)
    cuda.count(other)
    assert warpline.wait_stream(other, LONG)
    cuda.write(SPIN, 1, other)
    assert warpline.wait_event(event, LONG)
    assert warpline.wait_stream(hung)
    assert cuda.read(COUNT, other) == 1


def stop(cuda):
    """A cancelled stream is usable again, its work before that is dropped, and others go on."""
    hung, neighbour, other = cuda.stream(), cuda.stream(), cuda.stream()
    for round_ in range(5):
        cuda.await_spin(hung, other)
        cuda.await_spin(neighbour, other)
        event = cuda.event(hung)
        warpline.cancel_stream(hung)
        assert warpline.wait_stream(hung, LONG)
        assert warpline.wait_event(event, LONG)
        assert not warpline.wait_stream(neighbour, SOON)
        cuda.count(hung)
        assert cuda.read(COUNT, hung) == round_ + 1
        cuda.write(SPIN, 1, other)
        assert warpline.wait_stream(neighbour, LONG)
        cuda.write(SPIN, 0, other)


def end(cuda):
    """What cannot be stopped alone ends the session, and its memory is readable."""
    hung, other = cuda.stream(), cuda.stream()
    cuda.count(other)
    assert warpline.wait_stream(other, LONG)
    cuda.await_spin(hung, other)
    warpline.cancel_stream(hung, waiting_only=True)
    assert not warpline.wait_stream(hung, SOON)
    cuda.count(other)
    assert cuda.read(COUNT, other) == 2
    warpline.cancel_stream(other)  # Nothing runs there: the session goes on.
    assert warpline.wait_stream(other, LONG)
    warpline.cancel_stream(hung)
    try:
        warpline.wait_stream(hung, LONG)
        raise AssertionError("it does not end")
    except warpline.Error as error:
        assert error.result == LAUNCH_TIMEOUT, error
    assert cuda.result("cuStreamSynchronize", other) == LAUNCH_TIMEOUT
    assert warpline.read_back(cuda.memory + COUNT, 4) == (2).to_bytes(4, "little")


def environment(cuda):
    """CUDA's own waits end by WARPLINE_WAIT_SECONDS, and may be tried again."""
    hung, other = cuda.stream(flags=0), cuda.stream()
    cuda.spin(hung)
    event = cuda.event(hung)
    word = ctypes.c_uint32()
    copy = (ctypes.byref(word), ctypes.c_uint64(cuda.memory + SPIN), ctypes.c_size_t(4))
    for _ in range(2):
        assert cuda.result("cuStreamSynchronize", hung) == warpline.TIMEOUT
        assert cuda.result("cuEventSynchronize", event) == warpline.TIMEOUT
        assert cuda.result("cuCtxSynchronize") == warpline.TIMEOUT
        assert cuda.result("cuMemcpyDtoH_v2", *copy) == warpline.TIMEOUT
        assert cuda.result("cuMemFree_v2", ctypes.c_uint64(cuda.memory)) == warpline.TIMEOUT
    cuda.write(SPIN, 7, other)
    assert warpline.wait_stream(hung, LONG)
    cuda.call("cuStreamSynchronize", hung)
    cuda.call("cuMemcpyDtoH_v2", *copy)
    assert word.value == 7


def steps(cuda, seed, count):
    """Random waits and cancels, of streams that hang and of streams that do not."""
    choose = random.Random(int(seed))
    streams = [cuda.stream() for _ in range(3)]
    event = cuda.event(streams[0])
    for step in range(int(count)):
        if step == 20:
            print("application: goes on", flush=True)
        stream = choose.choice(streams)
        what = choose.randrange(8)
        if what == 0:
            cuda.spin(stream)
        elif what == 1:
            cuda.count(stream)
        elif what == 2:
            cuda.call("cuEventRecord", event, stream)
        elif what == 3:
            cuda.call("cuStreamWaitEvent", stream, event, 0)
        elif what == 4:
            warpline.wait_event(event, choose.uniform(0, 0.002))
        elif what == 5:
            warpline.wait_stream(stream, choose.uniform(0, 0.002))
        elif what == 6:
            warpline.cancel_stream(stream, waiting_only=True)
        else:
            warpline.cancel_stream(stream)
    for stream in streams:
        warpline.cancel_stream(stream)
    for stream in streams:
        assert warpline.wait_stream(stream, LONG)
        cuda.call("cuStreamDestroy_v2", stream)
    cuda.call("cuMemFree_v2", ctypes.c_uint64(cuda.memory))


def flood(cuda, count):
    """Cancels from several threads, as fast as they go."""
    streams = [cuda.stream() for _ in range(4)]

    def cancel(stream):
        cuda.enter()
        for round_ in range(int(count)):
            if round_ % 100 == 0:
                cuda.spin(stream)
            warpline.cancel_stream(stream)

    threads = [threading.Thread(target=cancel, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for stream in streams:
        assert warpline.wait_stream(stream, LONG)


def neighbour(cuda, count):
    """A session that cancels nothing has all its work done."""
    stream = cuda.stream()
    print("application: goes on", flush=True)
    for done in range(int(count)):
        cuda.count(stream)
        assert cuda.read(COUNT, stream) == done + 1


if __name__ == "__main__":
    assert warpline.available()
    globals()[sys.argv[1]](Cuda(), *sys.argv[2:])
    print("application: ok")
