"""PyTorch's operations: what single calls compute."""
import torch
from torch import nn

from report import main, report

DEVICE = "cuda"


def randn(*shape, dtype=torch.float32, seed=0):
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return torch.randn(*shape, device=DEVICE, dtype=torch.float32, generator=generator).to(dtype)


def tensor_ops():
    a, b = randn(1000, 777), randn(1000, 777, seed=1)
    report("random", a)
    report("arithmetic", (a + b) * a.sin() - b.exp() / (1 + a.abs()).sqrt())
    report("sum", torch.cat([a.sum().reshape(1), a.sum(0), a.sum(1)]))
    report("mean_var", torch.stack(torch.var_mean(a, 0)))
    report("sort", a.sort(1).values)
    report("argsort", a.argsort(dim=0, stable=True))
    report("topk", a.topk(7, 1).indices)
    report("cumsum", a.cumsum(0))
    report("unique", (a * 3).round().to(torch.int32).unique())
    report("nonzero", (a > 1.5).nonzero())
    report("masked", a.masked_select(b > 0))
    report("gather", a.gather(1, b.argsort(1)))
    report("where", torch.where(a > b, a, b))
    report("softmax", a.softmax(1))
    report("cat", torch.cat([a, b.t().contiguous().view(1000, 777)], 1))
    report("histogram", torch.histc(a, 50, -3, 3), rtol=1e-6)
    index = torch.arange(1000, device=DEVICE).flip(0)
    report("index", a[index, :100])
    report("integers", torch.arange(10**6, device=DEVICE).remainder(977).bitwise_xor(0x55))
    report("complex", torch.view_as_real(torch.complex(a, b).exp().conj().resolve_conj()))
    report("half", (a.half() * b.half()).bfloat16())
    report("host_and_back", a.cpu().cuda().t().contiguous().cpu())
    torch.manual_seed(5)
    report("distributions", torch.stack([torch.rand(1000, device=DEVICE),
                                         torch.empty(1000, device=DEVICE).exponential_(),
                                         torch.bernoulli(torch.full((1000,), 0.3, device=DEVICE)),
                                         torch.randint(0, 99, (1000,), device=DEVICE).float()]))
    report("permutation", torch.randperm(100000, device=DEVICE))


def _products(dtype):
    for m, n, k in ((64, 64, 64), (1024, 1024, 1024), (129, 257, 1023), (4096, 16, 4096)):
        a, b = randn(m, k, dtype=dtype), randn(k, n, dtype=dtype, seed=1)
        report("%dx%dx%d" % (m, n, k), a @ b)
    a, b = randn(8, 100, 200, dtype=dtype), randn(8, 200, 300, dtype=dtype, seed=1)
    report("batched", torch.bmm(a, b))
    layer = nn.Linear(200, 300, device=DEVICE, dtype=dtype)
    with torch.no_grad():
        layer.weight.copy_(randn(300, 200, dtype=dtype, seed=2))
        layer.bias.copy_(randn(300, dtype=dtype, seed=3))
    report("linear", layer(a))
    q, k, v = (randn(2, 8, 128, 64, dtype=dtype, seed=s) for s in range(3))
    report("attention", nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))


def matmul_fp32():
    torch.backends.cuda.matmul.allow_tf32 = False
    _products(torch.float32)


def matmul_tf32():
    torch.backends.cuda.matmul.allow_tf32 = True
    _products(torch.float32)


def matmul_fp16():
    _products(torch.float16)


def matmul_bf16():
    _products(torch.bfloat16)


def matmul_fp64():
    a, b = randn(512, 512).double(), randn(512, 512, seed=1).double()
    report("double", a @ b)
    report("complex", torch.view_as_real(torch.complex(a, b) @ torch.complex(b, a)))


def matmul_fp8():
    one = torch.ones((), device=DEVICE)
    for n in (128, 1024):
        a = randn(n, n).clamp(-8, 8).to(torch.float8_e4m3fn)
        b = randn(n, n, seed=1).clamp(-8, 8).to(torch.float8_e4m3fn)
        for out in (torch.bfloat16, torch.float16):
            report("%d_%s" % (n, str(out)[6:]), torch._scaled_mm(
                a, b.t(), scale_a=one * 0.5, scale_b=one * 2, out_dtype=out))


def conv():
    torch.backends.cudnn.deterministic = True
    for dtype in (torch.float32, torch.float16):
        for channels, size, kernel, stride in ((3, 224, 7, 2), (64, 56, 3, 1), (128, 28, 1, 1)):
            layer = nn.Conv2d(channels, 64, kernel, stride, kernel // 2, device=DEVICE, dtype=dtype)
            with torch.no_grad():
                layer.weight.copy_(randn(*layer.weight.shape, dtype=dtype, seed=2) * 0.05)
                layer.bias.zero_()
            x = randn(8, channels, size, size, dtype=dtype).requires_grad_()
            y = layer(x)
            y.square().sum().backward()
            tag = "%s_%dx%d" % (str(dtype)[6:], channels, kernel)
            report(tag, y)
            report(tag + "_dx", x.grad, rtol=1e-3)
            report(tag + "_dw", layer.weight.grad, rtol=1e-3)
    last = randn(8, 64, 28, 28, dtype=torch.float16).to(memory_format=torch.channels_last)
    report("channels_last", nn.functional.conv2d(last, randn(32, 64, 3, 3, dtype=torch.float16)))
    report("conv1d", nn.functional.conv1d(randn(4, 16, 1000), randn(32, 16, 5, seed=1)))
    report("conv3d", nn.functional.conv3d(randn(2, 4, 16, 16, 16), randn(8, 4, 3, 3, 3, seed=1)))
    report("transposed", nn.functional.conv_transpose2d(randn(2, 8, 20, 20),
                                                        randn(8, 6, 4, 4, seed=1), stride=2))
    rnn = nn.LSTM(32, 64, 2).cuda()
    with torch.no_grad():
        for number, weight in enumerate(rnn.parameters()):
            weight.copy_(randn(*weight.shape, seed=number) * 0.1)
    report("lstm", rnn(randn(20, 4, 32))[0])
    report("batch_norm", nn.functional.batch_norm(randn(16, 8, 32, 32), None, None, training=True))


def fft():
    for shape in ((1024,), (1000,), (1009,), (64, 4096), (32, 100, 100)):
        x = randn(*shape)
        spectrum = torch.fft.rfft(x)
        report("rfft_%s" % "x".join(map(str, shape)), torch.view_as_real(spectrum))
        report("back_%s" % "x".join(map(str, shape)), torch.fft.irfft(spectrum, n=shape[-1]))
    image = torch.complex(randn(128, 96), randn(128, 96, seed=1))
    report("fft2", torch.view_as_real(torch.fft.fft2(image)))
    report("fftn_double", torch.view_as_real(torch.fft.fftn(image.to(torch.complex128))))
    report("half", torch.view_as_real(torch.fft.rfft(randn(8, 1024).half()).to(torch.complex64)))
    report("stft", torch.view_as_real(torch.stft(randn(16000), 400, 160, return_complex=True,
                                                 window=torch.hann_window(400, device=DEVICE))))


def sparse():
    dense = randn(512, 768) * (randn(512, 768, seed=1) > 1.2)
    right = randn(768, 64, seed=2)
    coo = dense.to_sparse().coalesce()
    csr = dense.to_sparse_csr()
    report("csr_values", csr.values())
    report("coo_product", torch.sparse.mm(coo, right), rtol=1e-5)
    report("csr_product", csr @ right, rtol=1e-5)
    report("csr_vector", csr @ right[:, 0].contiguous(), rtol=1e-5)
    square = torch.sparse.mm(csr, dense.t().contiguous().to_sparse_csr())
    report("sparse_times_sparse", square.to_dense(), rtol=1e-5)
    report("sum", torch.sparse.sum(coo, 1).to_dense(), rtol=1e-5)
    report("sampled", torch.sparse.sampled_addmm(csr, randn(512, 64, seed=3),
                                                 right.t().contiguous(), beta=0.0).to_dense(),
           rtol=1e-5)


def linalg():
    a = randn(200, 200) + 20 * torch.eye(200, device=DEVICE)
    batch = randn(16, 32, 32, seed=1) + 8 * torch.eye(32, device=DEVICE)
    symmetric = a @ a.t()
    report("solve", torch.linalg.solve(a, randn(200, 7, seed=2)))
    report("solve_batch", torch.linalg.solve(batch, randn(16, 32, 3, seed=2)))
    report("lu", torch.linalg.lu_factor(a)[0])
    report("cholesky", torch.linalg.cholesky(symmetric))
    report("qr", torch.linalg.qr(a)[1])
    report("inverse", torch.linalg.inv(batch))
    report("determinant", torch.linalg.slogdet(batch)[1])
    report("svd", torch.linalg.svd(a)[1], rtol=1e-5)
    report("svd_batch", torch.linalg.svd(batch)[1], rtol=1e-5)
    values, vectors = torch.linalg.eigh(symmetric)
    report("eigh", values, rtol=1e-5)
    report("eigh_vectors", (vectors * values) @ vectors.t(), rtol=1e-4)
    report("eigh_batch", torch.linalg.eigvalsh(batch @ batch.transpose(1, 2)), rtol=1e-5)
    report("lstsq", torch.linalg.lstsq(randn(100, 20), randn(100, 2, seed=1)).solution, rtol=1e-5)
    report("pinv", torch.linalg.pinv(randn(60, 40)), rtol=1e-4)
    report("matrix_exp", torch.linalg.matrix_exp(batch * 0.01), rtol=1e-5)


def eig():
    batch = randn(16, 32, 32, seed=1)
    report("absolute", torch.linalg.eigvals(batch).abs().sort(1).values, rtol=1e-4)


def autograd():
    x = randn(64, 100).requires_grad_()
    w = randn(100, 50, seed=1).requires_grad_()
    loss = (x @ w).tanh().square().mean() + (x.exp().log1p() * 0.1).sum()
    loss.backward()
    report("loss", loss)
    report("x", x.grad)
    report("w", w.grad)
    second = torch.autograd.functional.hessian(lambda v: (v.sin() * v.square()).sum(), randn(20))
    report("hessian", second)
    jacobian = torch.func.vmap(torch.func.jacrev(lambda v: (v * v.flip(0)).cumsum(0)))(randn(5, 9))
    report("jacobian", jacobian)

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            ctx.save_for_backward(value)
            return value**3

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3 * ctx.saved_tensors[0]**2

    y = randn(30).requires_grad_()
    Cube.apply(y).sum().backward()
    report("own_function", y.grad)
    z = randn(32, 64).requires_grad_()
    torch.utils.checkpoint.checkpoint(lambda v: (v @ v.t()).relu(), z,
                                      use_reentrant=False).sum().backward()
    report("checkpointed", z.grad)


def amp():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cuda")
    x, y = randn(128, 64), torch.arange(128, device=DEVICE) % 10
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    report("losses", losses)
    report("weights", model[0].weight)
    report("scale", scaler.get_scale())


if __name__ == "__main__":
    import torch.utils.checkpoint  # noqa: F401  (autograd's last check)
    main({name: function for name, function in globals().items()
          if callable(function) and getattr(function, "__module__", "") == "__main__"})
