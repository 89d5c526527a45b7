"""What programs learn of the GPU through NVML: pynvml, nvidia-smi, PyTorch."""
import os
import subprocess
import sys

from report import check, main, report, skip


def _pynvml():
    try:
        import pynvml
    except ImportError:
        skip("no module pynvml")
    pynvml.nvmlInit()
    return pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)


def same_device():
    """What does not change is as it is natively."""
    nvml, device = _pynvml()
    for name in ("Name", "UUID", "CudaComputeCapability", "Brand", "Architecture", "VbiosVersion",
                 "NumGpuCores", "MemoryBusWidth", "MaxPcieLinkGeneration", "MaxPcieLinkWidth",
                 "PowerManagementDefaultLimit", "PowerManagementLimitConstraints", "EccMode",
                 "PersistenceMode", "ComputeMode", "MultiGpuBoard"):
        try:
            value = getattr(nvml, "nvmlDeviceGet" + name)(device)
        except nvml.NVMLError as error:
            value = str(error)
        report(name, repr(value))
    for clock in range(4):
        report("MaxClock%d" % clock, repr(nvml.nvmlDeviceGetMaxClockInfo(device, clock)))
    pci = nvml.nvmlDeviceGetPciInfo(device)
    report("pci", [pci.domain, pci.bus, pci.device, pci.pciDeviceId, pci.pciSubSystemId])
    report("driver", repr(nvml.nvmlSystemGetDriverVersion()))
    report("cuda", repr(nvml.nvmlSystemGetCudaDriverVersion()))
    report("nvml", repr(nvml.nvmlSystemGetNVMLVersion()))


def links():
    nvml, device = _pynvml()
    for link in range(18):
        try:
            value = [nvml.nvmlDeviceGetNvLinkState(device, link)]
            if value[0]:
                value += [nvml.nvmlDeviceGetNvLinkVersion(device, link),
                          nvml.nvmlDeviceGetNvLinkCapability(device, link, 0)]
        except nvml.NVMLError as error:
            value = str(error)
        report("link%d" % link, repr(value))


def readings():
    """What changes is there, and makes sense."""
    nvml, device = _pynvml()
    check("temperature", 0 < nvml.nvmlDeviceGetTemperature(device, 0) < 110)
    check("power", 0 < nvml.nvmlDeviceGetPowerUsage(device) < 2000000)
    check("clock", 0 < nvml.nvmlDeviceGetClockInfo(device, 1) < 5000)
    check("utilization", 0 <= nvml.nvmlDeviceGetUtilizationRates(device).gpu <= 100)
    check("state", 0 <= nvml.nvmlDeviceGetPerformanceState(device) <= 15)
    memory = nvml.nvmlDeviceGetMemoryInfo(device)
    check("memory", 0 < memory.total and memory.used + memory.free <= memory.total)


def torch_asks():
    """PyTorch counts devices by NVML, so that its children may use CUDA after a fork."""
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    try:
        import torch
    except ImportError:
        skip("no module torch")
    report("count", torch.cuda.device_count())
    report("available", torch.cuda.is_available())
    pid = os.fork()
    if pid == 0:
        os._exit(0 if torch.ones(10, device="cuda").sum().item() == 10 else 1)
    check("child", os.waitpid(pid, 0)[1] == 0)
    x = torch.ones(1 << 20, device="cuda")
    check("temperature", 0 < torch.cuda.temperature() < 110)
    check("utilization", 0 <= torch.cuda.utilization() <= 100)
    check("processes", "process" in torch.cuda.list_gpu_processes())
    report("sum", x.sum().item())


def nvidia_smi():
    """The machine's own nvidia-smi, while this process holds memory."""
    import torch
    kept = torch.ones(256 << 20, device="cuda", dtype=torch.uint8)
    torch.cuda.synchronize()

    def run(*arguments):
        done = subprocess.run(["nvidia-smi", *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        sys.stderr.write(done.stdout)
        check("exit " + " ".join(arguments), done.returncode == 0)
        return done.stdout

    try:
        table = run()
    except FileNotFoundError:
        skip("no nvidia-smi")
    check("table", "Driver Version" in table and "MiB" in table)
    report("list", run("-L"))
    report("query", run("--query-gpu=name,uuid,pci.bus_id,compute_cap,driver_version",
                        "--format=csv"))
    used = run("--query-gpu=memory.used", "--format=csv,noheader,nounits")
    check("used", int(used.split()[0]) >= 256)
    run("-q")
    # It registers for events and waits for them between its rounds.
    with subprocess.Popen(["nvidia-smi", "-l", "1", "-q", "-d", "TEMPERATURE"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as watch:
        rounds = 0
        for line in watch.stdout:
            rounds += line.startswith("Timestamp")
            if rounds == 3:
                break
        watch.terminate()
    check("goes on", rounds == 3)
    report("kept", kept.sum().item())


if __name__ == "__main__":
    main({name: function for name, function in globals().items()
          if callable(function) and getattr(function, "__module__", "") == "__main__"})
