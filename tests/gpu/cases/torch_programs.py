"""PyTorch programs: compilers, graphs, loaders, training and generation, threads."""
import os
import threading

import torch
from torch import nn

import models
from report import check, main, report

DEVICE = "cuda"


def deterministic():
    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


def compile():  # noqa: A001  (the case's name)
    deterministic()

    @torch.compile
    def normalized(x, w):
        y = (x @ w).relu()
        return (y - y.mean(1, keepdim=True)) / (y.var(1, keepdim=True) + 1e-5).sqrt()

    x, w = torch.randn(256, 512, device=DEVICE), torch.randn(512, 300, device=DEVICE)
    report("function", normalized(x, w))
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 8)).cuda()
    fast = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    batch = torch.randn(32, 64, device=DEVICE)
    losses = [models.train_step(fast, optimizer, lambda m: m(batch).square().mean()).item()
              for _ in range(5)]
    # The compiler chooses among kernels by their time: natively 2 of 8 runs gave other last bits.
    report("losses", losses, rtol=1e-6)


def compile_reduce_overhead():
    """Inductor with CUDA graphs of its own."""
    deterministic()
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 8)).cuda()
    fast = torch.compile(model, mode="reduce-overhead")
    with torch.no_grad():
        for number in range(5):
            batch = torch.full((16, 64), 0.1 * number, device=DEVICE)
            last = fast(batch).clone()
    report("last", last)


def graph():
    deterministic()
    x = torch.randn(64, 64, device=DEVICE)
    w = torch.randn(64, 64, device=DEVICE) / 8
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            y = (x @ w).tanh() + x
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        y = (x @ w).tanh() + x
        x.copy_(y * 0.9)
    for _ in range(100):
        captured.replay()
    report("replayed", y)


def green_contexts():
    """Products on some of the multiprocessors; what is made there outlives them."""
    deterministic()
    x = torch.randn(256, 256, device=DEVICE)
    results = []
    for multiprocessors in (8, 16, 64):
        context = torch.cuda.GreenContext.create(num_sms=multiprocessors, device_id=0)
        context.set_context()
        results.append((x @ x).tanh() + multiprocessors)
        context.pop_context()
        del context
    torch.cuda.synchronize()
    for result in results:
        report("product", result)


def graph_training():
    """A whole step in a graph, as PyTorch's documentation shows it."""
    deterministic()
    model = models.tiny_mlp().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    x = torch.randn(128, 32, device=DEVICE)
    target = torch.randint(0, 10, (128,), device=DEVICE)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        loss = step()
    losses = []
    for number in range(20):
        x.copy_(torch.full_like(x, 0.05 * number))
        captured.replay()
        losses.append(loss.item())
    report("losses", losses)
    graphed = torch.cuda.make_graphed_callables(models.tiny_mlp().cuda(), (x,))
    graphed(x).square().mean().backward()
    report("callable", next(graphed.parameters()).grad)


def expandable_segments():
    """The case's environment switches them on: the allocator then maps memory piece by piece."""
    deterministic()
    kept = [torch.full((1024, 1024, n), float(n), device=DEVICE) for n in range(1, 12)]
    report("sums", torch.stack([part.sum() for part in kept]))
    del kept[::2]
    torch.cuda.empty_cache()
    big = torch.ones(1024, 1024, 64, device=DEVICE)
    report("after", big.sum() + sum(part.sum() for part in kept))
    check("uses_segments", torch.cuda.memory_reserved() > 0)


def allocator():
    """Statistics and an out-of-memory error that the program survives."""
    x = torch.ones(64, 1024, 1024, device=DEVICE)
    report("allocated", torch.cuda.memory_allocated())
    try:
        torch.empty(1 << 46, dtype=torch.uint8, device=DEVICE)
        check("refused", False)
    except torch.OutOfMemoryError:
        check("refused", True)
    report("sum", x.sum())
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        y = torch.full((1000,), 2.0, device=DEVICE)
    report("pool", y.sum())


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        return torch.full((64,), float(index)), index * index


def data_loader():
    """Pinned batches from four worker processes, which are forked after CUDA's start."""
    total = torch.zeros(64, device=DEVICE, dtype=torch.float64)
    loader = torch.utils.data.DataLoader(Squares(), batch_size=16, num_workers=4, pin_memory=True,
                                         persistent_workers=True)
    for _ in range(2):
        for x, y in loader:
            x, y = x.to(DEVICE, non_blocking=True), y.to(DEVICE, non_blocking=True)
            total += (x.double() * y[:, None]).sum(0)
    check("pinned", x.is_cuda and torch.ones(1).pin_memory().is_pinned())
    report("total", total)


def resnet50():
    deterministic()
    model = models.resnet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x = torch.randn(16, 3, 224, 224, device=DEVICE)
    y = torch.randint(0, 1000, (16,), device=DEVICE)
    losses = [models.train_step(model, optimizer,
                                lambda m: nn.functional.cross_entropy(m(x), y)).item()
              for _ in range(6)]
    report("losses", losses, rtol=1e-3)
    model.eval()
    with torch.no_grad():
        report("outputs", model(x), rtol=1e-2)


def _gpt2(dtype):
    deterministic()
    return models.GPT2().cuda().to(dtype)


def gpt2_train():
    model = _gpt2(torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    tokens = torch.randint(0, 50257, (4, 257), device=DEVICE)
    losses = [models.train_step(model, optimizer, models.gpt2_loss(tokens)).item()
              for _ in range(6)]
    # The embedding's gradient is summed by atomic additions on some paths.
    report("losses", losses, rtol=1e-4)


def gpt2_generate_fp32():
    deterministic()
    tokens = torch.randint(0, 50257, (1, 32), device=DEVICE)
    report("tokens", _gpt2(torch.float32).generate(tokens, 64))


def gpt2_generate_fp16():
    deterministic()
    tokens = torch.randint(0, 50257, (2, 32), device=DEVICE)
    report("tokens", _gpt2(torch.float16).generate(tokens, 64))


def two_threads():
    results = [None, None]

    def work(number):
        generator = torch.Generator(DEVICE).manual_seed(number)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            x = torch.randn(300, 300, device=DEVICE, generator=generator)
            for _ in range(50):
                x = (x @ x.t()).softmax(1) + 0.1 * x
            stream.synchronize()
            results[number] = x.cpu()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(2):
        report("thread%d" % number, results[number])


def streams_and_events():
    deterministic()
    first, second = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
    done = torch.cuda.Event()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    x = torch.randn(1000, 1000, device=DEVICE)
    torch.cuda.synchronize()
    with torch.cuda.stream(first):
        start.record()
        y = x @ x
        done.record()
    with torch.cuda.stream(second):
        second.wait_event(done)
        z = y.sum(0)
        end.record()
    end.synchronize()
    check("time", 0 < start.elapsed_time(end) < 60000)
    report("sum", z)
    host = torch.empty(1000, pin_memory=True)
    host.copy_(z, non_blocking=True)
    torch.cuda.synchronize()
    report("copied", host)


def profiler():
    """Without activity records of the GPU a profile must still be made."""
    x = torch.ones(512, 512, device=DEVICE)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        y = (x @ x).sum()
        torch.cuda.synchronize()
    report("sum", y)
    check("recorded", any("aten::mm" in event.key for event in profile.key_averages()))
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), "trace.%d.json" % os.getpid())
    profile.export_chrome_trace(path)
    check("trace", os.path.getsize(path) > 1000)
    os.unlink(path)


def properties():
    found = torch.cuda.get_device_properties(0)
    report("name", found.name)
    report("capability", torch.cuda.get_device_capability())
    report("processors", found.multi_processor_count)
    report("count", torch.cuda.device_count())
    check("memory", 0 < found.total_memory)
    check("free", torch.cuda.mem_get_info()[0] <= torch.cuda.mem_get_info()[1])


def extension():
    """A CUDA kernel that the program brings as source, by NVRTC."""
    source = """
    template <typename T> T twice_and(T x, T y) { return x * 2 + y; }
    """
    function = torch.cuda.jiterator._create_jit_fn(source)
    a = torch.arange(1000, device=DEVICE, dtype=torch.float32)
    report("jiterator", function(a, a.flip(0)))
    kernel = torch.cuda._compile_kernel("""
        extern "C" __global__ void fill(float* out, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) out[i] = i * 0.5f;
        }""", "fill")
    kernel((4, 1, 1), (256, 1, 1), (a, 1000))
    report("nvrtc", a)


def two_gpus():
    """An explicit program on two GPUs, and DataParallel."""
    deterministic()
    a = torch.randn(1000, 1000, device="cuda:0")
    b = a.to("cuda:1")
    report("copied", b)
    report("product", (b @ b).to("cuda:0") + a)
    torch.cuda.synchronize(1)
    report("access", torch.cuda.can_device_access_peer(0, 1))
    model = nn.DataParallel(models.tiny_mlp().cuda())
    x = torch.randn(64, 32, device="cuda:0")
    y = model(x)
    y.square().mean().backward()
    report("parallel", y)
    report("gradient", next(model.parameters()).grad)


if __name__ == "__main__":
    main({name: function for name, function in globals().items()
          if callable(function) and getattr(function, "__module__", "") == "__main__"})
