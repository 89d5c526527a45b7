"""PyTorch programs of several processes. Each starts its others by its own name and a role."""
import os
import subprocess
import sys

import torch
import torch.multiprocessing as multiprocessing

import models
from report import check, main, report


def _child(role, *arguments, **more):
    return subprocess.Popen([sys.executable, os.path.abspath(__file__), role, *arguments],
                            stdout=subprocess.PIPE, text=True, **more)


def two_processes():
    """Two independent trainings at once."""
    children = [_child("train_alone", str(number)) for number in range(2)]
    for number, child in enumerate(children):
        output, _ = child.communicate()
        check("exit%d" % number, child.returncode == 0)
        report("losses%d" % number, output.strip())


def train_alone():
    torch.manual_seed(int(sys.argv[2]))
    model = models.tiny_mlp().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(256, 32, device="cuda")
    losses = [models.train_step(model, optimizer, lambda m: m(x).square().mean()).item()
              for _ in range(50)]
    print(" ".join("%.9g" % loss for loss in losses))


def _double(tasks, answers):
    tensor = tasks.get()
    tensor.mul_(2)
    torch.cuda.synchronize()
    answers.put(tensor.sum().item())
    del tensor
    tasks.get()


def sharing():
    """A CUDA tensor that another process changes."""
    context = multiprocessing.get_context("spawn")
    tasks, answers = context.Queue(), context.Queue()
    child = context.Process(target=_double, args=(tasks, answers))
    child.start()
    tensor = torch.arange(1000, device="cuda", dtype=torch.float32)
    tasks.put(tensor)
    report("sum_there", answers.get(timeout=90))
    report("tensor_here", tensor)
    tasks.put("end")
    child.join(60)
    check("exit", child.exitcode == 0)


def forked():
    """A process forked before CUDA's start uses the GPU; one forked after it is refused."""
    pid = os.fork()
    if pid == 0:
        value = torch.ones(10, device="cuda").sum().item()
        os._exit(0 if value == 10 else 1)
    check("before", os.waitpid(pid, 0)[1] == 0)
    x = torch.full((10,), 3.0, device="cuda")
    pid = os.fork()
    if pid == 0:
        try:
            torch.ones(1, device="cuda")
        except RuntimeError:
            os._exit(7)
        os._exit(0)
    check("after", os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 7)
    report("parent", x.sum())


def ddp():
    """DistributedDataParallel over NCCL, one process a GPU."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2",
               os.path.abspath(__file__), "ddp_rank"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    check("exit", done.returncode == 0)
    report("losses", [line for line in done.stdout.splitlines() if line.startswith("losses")],
           rtol=0)


def ddp_rank():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl")
    torch.manual_seed(0)
    model = models.tiny_mlp().cuda()
    parallel = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    x = torch.randn(64, 32, device="cuda")
    losses = [models.train_step(parallel, optimizer, lambda m: m(x).square().mean()).item()
              for _ in range(10)]
    total = torch.tensor(losses, device="cuda", dtype=torch.float64)
    torch.distributed.all_reduce(total)
    if rank == 0:
        print("losses " + " ".join("%.9g" % value for value in total.tolist()), flush=True)
    torch.distributed.destroy_process_group()


def nccl_alone():
    """NCCL with one rank: it still asks libcuda and NVML about the machine."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("nccl", store=store, rank=0, world_size=1)
    x = torch.arange(1000, device="cuda", dtype=torch.float32)
    torch.distributed.all_reduce(x)
    report("reduced", x)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main({name: function for name, function in globals().items()
          if callable(function) and getattr(function, "__module__", "") == "__main__"})
