// Tells which kernels of PTX files the CPU device takes, and why it refuses the others:
//   ptx_support_main FILE... ; ends with 1 when one is refused.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "server/device/cpu/memory/memory_map.h"
#include "server/device/cpu/modules/cpu_module.h"

int main(int argc, char** argv) {
  namespace cpu = warpline::cpu;
  int taken = 0, refused = 0;
  for (int i = 1; i < argc; ++i) {
    std::ifstream in(argv[i]);
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    cpu::MemoryMap memory;
    std::shared_ptr<cpu::CpuModule> module;
    // The log has the reasons.
    std::fprintf(stderr, "%s\n", argv[i]);
    std::string error;
    if (cpu::CpuModule::Load(text, &memory, &module, &error) != warpline::CudaResult::kSuccess) {
      std::fprintf(stderr, "%s\n", error.c_str());
      ++refused;
      continue;
    }
    for (const std::string& name : module->KernelNames()) {
      std::shared_ptr<cpu::Kernel> kernel;
      const bool ok = module->FindKernel(name, &kernel) == warpline::CudaResult::kSuccess;
      ++(ok ? taken : refused);
    }
  }
  std::printf("%d taken, %d refused\n", taken, refused);
  return refused == 0 ? 0 : 1;
}
