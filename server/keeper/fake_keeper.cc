// A keeper process over the fake device. Its arguments set its behaviour: `--devices=N`,
// `--total_mib=N`, `--pageable_access`, and `--free_file=PATH`, a file with the MiB that are free,
// as text.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/match.h"
#include "common/log/log.h"
#include "server/device/testing/fake_backend.h"
#include "server/hostlink/process/child_process.h"
#include "server/keeper/keeper.h"

int main(int argc, char** argv) {
  warpline::SetLogName("keeper");
  warpline::device::FakeBackendOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const char* value = argv[i] + arg.find('=') + 1;
    if (absl::StartsWith(arg, "--devices=")) options.device_count = std::atoi(value);
    if (arg == "--pageable_access") options.pageable_access = true;
    if (absl::StartsWith(arg, "--total_mib=")) {
      options.total_bytes = std::strtoull(value, nullptr, 10) << 20;
    }
    if (absl::StartsWith(arg, "--free_file=")) {
      options.free_bytes = [path = std::string(value)] {
        uint64_t mib = 0;
        std::ifstream(path) >> mib;
        return std::optional<uint64_t>(mib << 20);
      };
    }
  }
  warpline::Keeper keeper(
      [&](std::string_view name) -> absl::StatusOr<std::unique_ptr<warpline::device::Backend>> {
        if (name == "cuda") return absl::UnavailableError("no driver here");
        return warpline::device::NewFakeBackend(options);
      });
  return keeper.Serve(warpline::kChildSocketFd).ok() ? 0 : 1;
}
