"""Triton kernels after the subjects of its tutorials: vector add, softmax, product, layer norm."""
import torch
import triton
import triton.language as tl

from report import main, report

DEVICE = "cuda"


@triton.jit
def _add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


def vector_add():
    torch.manual_seed(0)
    for n in (1, 1000, 98432):
        x, y = torch.rand(n, device=DEVICE), torch.rand(n, device=DEVICE)
        out = torch.empty_like(x)
        _add[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
        report("n%d" % n, out)


@triton.jit
def _softmax(x, out, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * stride + at, mask=inside, other=-float("inf"))
    values = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * stride + at, values / tl.sum(values, 0), mask=inside)


def softmax():
    torch.manual_seed(0)
    x = torch.randn(1823, 781, device=DEVICE)
    out = torch.empty_like(x)
    _softmax[(1823,)](x, out, x.stride(0), 781, BLOCK=1024, num_warps=8)
    report("rows", out)


@triton.autotune(configs=[triton.Config({"M": 64, "N": 64, "K": 32}, num_stages=3, num_warps=4)],
                 key=["n"])
@triton.jit
def _product(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        left = tl.load(a + row[:, None] * k + start + inner[None, :],
                       mask=(row[:, None] < m) & (start + inner[None, :] < k), other=0.0)
        right = tl.load(b + (start + inner[:, None]) * n + column[None, :],
                        mask=(start + inner[:, None] < k) & (column[None, :] < n), other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + row[:, None] * n + column[None, :], total.to(tl.float16),
             mask=(row[:, None] < m) & (column[None, :] < n))


def matmul():
    torch.manual_seed(0)
    for m, n, k in ((512, 512, 512), (200, 300, 100)):
        a = torch.randn(m, k, device=DEVICE, dtype=torch.float16)
        b = torch.randn(k, n, device=DEVICE, dtype=torch.float16)
        c = torch.empty(m, n, device=DEVICE, dtype=torch.float16)
        _product[lambda meta: (triton.cdiv(m, meta["M"]), triton.cdiv(n, meta["N"]))](
            a, b, c, m, n, k)
        report("%dx%dx%d" % (m, n, k), c)


@triton.jit
def _norm(x, weight, bias, out, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(values, 0) / columns
    centred = tl.where(inside, values - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / columns + eps)
    result = centred * scale * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside)
    tl.store(out + row * columns + at, result, mask=inside)


def layer_norm():
    torch.manual_seed(0)
    x = torch.randn(1151, 1000, device=DEVICE)
    weight, bias = torch.rand(1000, device=DEVICE), torch.rand(1000, device=DEVICE)
    out = torch.empty_like(x)
    _norm[(1151,)](x, weight, bias, out, 1000, 1e-5, BLOCK=1024)
    report("rows", out)


def bench():
    """do_bench measures with events and clears the cache between runs."""
    x = torch.ones(1 << 20, device=DEVICE)
    found = triton.testing.do_bench(lambda: x.add_(1), warmup=5, rep=20)
    report("positive", found > 0)


if __name__ == "__main__":
    main({name: function for name, function in globals().items()
          if callable(function) and getattr(function, "__module__", "") == "__main__"})
