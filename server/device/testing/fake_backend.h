// A backend for tests: its memory is really shared, but it executes nothing.
#ifndef WARPLINE_SERVER_DEVICE_TESTING_FAKE_BACKEND_H_
#define WARPLINE_SERVER_DEVICE_TESTING_FAKE_BACKEND_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "server/device/device.h"

namespace warpline::device {

struct FakeBackendOptions {
  int device_count = 1;
  uint64_t total_bytes = 1ull << 30;
  // What its chunk sources answer for FreeBytes(); null for nothing.
  std::function<std::optional<uint64_t>()> free_bytes = nullptr;
  bool pageable_access = false;  // Whether it says that it reaches pageable memory.
};

// Chunks are sealed memory files, so their contents and their lifetime can be checked.
// OpenContexts() and OpenShared() return UNIMPLEMENTED.
std::unique_ptr<Backend> NewFakeBackend(const FakeBackendOptions& options);

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_TESTING_FAKE_BACKEND_H_
