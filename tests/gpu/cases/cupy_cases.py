"""CuPy programs."""
import cupy
import numpy

from report import check, main, report


def arrays():
    x = cupy.arange(10**6, dtype=cupy.float64).reshape(1000, 1000) / 1e6
    report("elementwise", cupy.sin(x) * 2 + cupy.sqrt(x))
    report("reduce", x.sum(axis=0))
    report("broadcast", x[:, None, :10] - x[None, :50, :10])
    report("product", x[:200, :300] @ x[:300, :100])
    report("where", cupy.where(x > 0.5, x, -x))
    report("fancy", x[cupy.arange(999, -1, -1), 5])
    report("cumulative", cupy.cumsum(x[3]))
    report("integers", cupy.bincount(cupy.arange(1000) % 7))
    report("einsum", cupy.einsum("ij,kj->ik", x[:50], x[50:90]))
    report("host", cupy.asnumpy(x).mean())
    report("strings", str(cupy.asarray(numpy.arange(5))))
    report("percentile", cupy.percentile(x, cupy.array([10.0, 50.0, 90.0])))
    add = cupy.ElementwiseKernel("float64 a, float64 b", "float64 c", "c = a * a + b", "square_add")
    report("elementwise_kernel", add(x, x[0]))
    norm = cupy.ReductionKernel("T a", "T b", "a * a", "a + b", "b = sqrt(a)", "0", "norm2")
    report("reduction_kernel", norm(x, axis=1))

    @cupy.fuse()
    def fused(a, b):
        return cupy.exp(-a * b) + a

    report("fused", fused(x, x.T.copy()))


def fft():
    x = cupy.sin(cupy.arange(4096, dtype=cupy.float32)).reshape(16, 256)
    report("fft", cupy.fft.fft(x).view(cupy.float32))
    report("rfft2", cupy.fft.rfft2(x).view(cupy.float32))
    report("odd", cupy.fft.fft(x[:, :251]).view(cupy.float32))
    report("back", cupy.fft.ifft(cupy.fft.fft(x)).real.copy())


def raw_kernel():
    source = r"""
    extern "C" __global__ void saxpy(const float* x, const float* y, float a, float* z, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) z[i] = a * x[i] + y[i];
    }
    template <typename T> __global__ void twice(T* x) { x[threadIdx.x] *= 2; }
    __constant__ float factors[4];
    extern "C" __global__ void scale(float* x) { x[threadIdx.x] *= factors[threadIdx.x % 4]; }
    """
    x = cupy.arange(1000, dtype=cupy.float32)
    z = cupy.empty_like(x)
    module = cupy.RawModule(code=source, options=("-std=c++17",),
                            name_expressions=("twice<float>", "twice<int>"))
    kernel = cupy.RawKernel(r"""
    extern "C" __global__ void add(const float* x, float* y) {
      y[blockIdx.x * blockDim.x + threadIdx.x] += x[blockIdx.x * blockDim.x + threadIdx.x];
    }""", "add")
    module.get_function("twice<float>")((1,), (100,), (x,))
    report("template", x)
    kernel((10,), (100,), (x, z.fill(1) or z))
    report("raw", z)
    plain = cupy.RawModule(code=source.replace("template <typename T>", "").replace("T*", "float*"))
    plain.get_function("saxpy")((4,), (256,), (x, x, cupy.float32(2.5), z, cupy.int32(1000)))
    report("saxpy", z)
    pointer = plain.get_global("factors")
    cupy.ndarray((4,), cupy.float32, pointer)[:] = cupy.arange(4)
    plain.get_function("scale")((1,), (256,), (z,))
    report("constant", z)
    report("registers", kernel.num_regs)
    check("threads", kernel.max_threads_per_block >= 256)


def sorting():
    x = cupy.sin(cupy.arange(100000, dtype=cupy.float64) * 12.9898)
    report("sort", cupy.sort(x))
    report("argsort", cupy.argsort(x))
    report("lexsort", cupy.lexsort(cupy.stack([x, -x])))
    report("partition", cupy.sort(cupy.partition(x, 100)[:100]))
    report("unique", cupy.unique((x * 100).astype(cupy.int32)))
    report("search", cupy.searchsorted(cupy.sort(x), cupy.linspace(-1, 1, 77)))


def random():
    cupy.random.seed(7)
    report("uniform", cupy.random.random(1000))
    report("normal", cupy.random.standard_normal((10, 100), dtype=cupy.float32))
    report("integers", cupy.random.randint(0, 99, 1000))
    report("permutation", cupy.random.permutation(1000))
    generator = cupy.random.Generator(cupy.random.Philox4x3210(3))
    report("philox", generator.standard_exponential(1000))


def linalg():
    a = cupy.cos(cupy.arange(40000, dtype=cupy.float64)).reshape(200, 200) + 20 * cupy.eye(200)
    report("solve", cupy.linalg.solve(a, a[:, :3]))
    report("svd", cupy.linalg.svd(a)[1], rtol=1e-10)
    report("eigh", cupy.linalg.eigvalsh(a @ a.T), rtol=1e-10)
    report("qr", cupy.linalg.qr(a)[1])
    report("cholesky", cupy.linalg.cholesky(a @ a.T))
    import cupyx.scipy.sparse as sparse
    matrix = sparse.csr_matrix(a * (cupy.abs(a) > 0.9))
    report("sparse", matrix @ a[:, 0], rtol=1e-10)


def pools():
    pool, pinned = cupy.get_default_memory_pool(), cupy.get_default_pinned_memory_pool()
    x = cupy.zeros(1 << 20, dtype=cupy.float32)
    check("used", pool.used_bytes() >= 1 << 22)
    del x
    pool.free_all_blocks()
    report("free", pool.used_bytes())
    host = cupy.cuda.alloc_pinned_memory(1 << 16)
    view = numpy.frombuffer(host, numpy.float32, 1 << 14)
    view[:] = 3
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        y = cupy.empty(1 << 14, dtype=cupy.float32)
        y.set(view, stream=stream)
        y += 1
    stream.synchronize()
    report("pinned", y)
    del host, view
    pinned.free_all_blocks()
    with cupy.cuda.using_allocator(cupy.cuda.MemoryAsyncPool().malloc):
        z = cupy.ones(10**6) * 2
        report("async", z.sum())
        del z


def graph():
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = cupy.arange(1000, dtype=cupy.float32)
        y = cupy.empty_like(x)
        cupy.multiply(x, 2, out=y)
        stream.begin_capture()
        cupy.multiply(x, 2, out=y)
        cupy.add(y, 1, out=x)
        captured = stream.end_capture()
        for _ in range(5):
            captured.launch(stream)
    stream.synchronize()
    report("x", x)


def textures():
    """An array read through a texture object."""
    from cupy.cuda import runtime, texture
    channel = texture.ChannelFormatDescriptor(32, 0, 0, 0, runtime.cudaChannelFormatKindFloat)
    array = texture.CUDAarray(channel, 64, 32)
    data = cupy.arange(64 * 32, dtype=cupy.float32).reshape(32, 64)
    array.copy_from(data)
    resource = texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=array)
    description = texture.TextureDescriptor((runtime.cudaAddressModeClamp,) * 2,
                                            runtime.cudaFilterModePoint,
                                            runtime.cudaReadModeElementType)
    read = texture.TextureObject(resource, description)
    kernel = cupy.RawKernel(r"""
    extern "C" __global__ void copy(float* out, cudaTextureObject_t in, int width) {
      out[blockIdx.x * width + threadIdx.x] = tex2D<float>(in, threadIdx.x + 0.5f, blockIdx.x + 0.5f);
    }""", "copy")
    out = cupy.zeros_like(data)
    kernel((32,), (64,), (out, read, cupy.int32(64)))
    report("read", out)


if __name__ == "__main__":
    main({name: function for name, function in globals().items()
          if callable(function) and getattr(function, "__module__", "") == "__main__"})
