// The start of most sections: a context, the images that lie beside the program, and a loaded
// module. Each function returns false after printing a FAIL line.
#ifndef WARPLINE_TESTS_CONFORMANCE_SETTING_H_
#define WARPLINE_TESTS_CONFORMANCE_SETTING_H_

#include <climits>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "conformance.h"

namespace conformance {

inline CUdevice g_device = 0;
inline CUcontext g_context = nullptr;

// Calls cuInit and makes device 0's primary context current.
inline bool Begin() {
  Mark("cuInit", "setup");
  if (!Setup(CU(cuInit)(0))) return false;
  Mark("cuDeviceGet", "setup");
  if (!Setup(CU(cuDeviceGet)(&g_device, 0))) return false;
  Mark("cuDevicePrimaryCtxRetain", "setup");
  if (!Setup(CU(cuDevicePrimaryCtxRetain)(&g_context, g_device))) return false;
  Mark("cuCtxSetCurrent", "setup");
  return Setup(CU(cuCtxSetCurrent)(g_context));
}

inline std::string ImagePath(const std::string& name) {
  char self[PATH_MAX] = {};
  const ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
  std::string path(self, length > 0 ? static_cast<size_t>(length) : 0);
  path.resize(path.rfind('/') + 1);
  return path + name;
}

// Returns the bytes of an image, such as "ptx/kernels.ptx", with a NUL behind them; empty if it is
// missing.
inline std::vector<char> Image(const std::string& name) {
  std::ifstream file(ImagePath(name), std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (bytes.empty()) {
    Holds("image", name.c_str(), false, "%s is missing or empty", ImagePath(name).c_str());
    return {};
  }
  bytes.push_back('\0');
  return bytes;
}

inline bool LoadModule(CUmodule* module, const std::string& image = "ptx/kernels.ptx") {
  const std::vector<char> bytes = Image(image);
  Mark("cuModuleLoadData", "setup");
  return !bytes.empty() && Setup(CU(cuModuleLoadData)(module, bytes.data()));
}

inline bool Kernel(CUfunction* function, CUmodule module, const char* name) {
  Mark("cuModuleGetFunction", "setup");
  return Setup(CU(cuModuleGetFunction)(function, module, name));
}

// Iterations of kernel `busy` that take clearly longer than a few calls, and not a second.
inline unsigned BusyIterations() { return on_cpu() ? 100000 : 4000000; }

// A handle that no object has.
template <typename T>
T Garbage() {
  return reinterpret_cast<T>(uintptr_t{0x10});
}

// The wrapper that nvcc puts before a container in an object file.
struct Wrapper {
  uint32_t magic, version;
  const void* data;
  void* further;
};

inline constexpr CUdeviceptr kBadAddress = 0x10;

}  // namespace conformance

#endif  // WARPLINE_TESTS_CONFORMANCE_SETTING_H_
