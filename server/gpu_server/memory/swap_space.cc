#include "server/gpu_server/memory/swap_space.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/mapped_memory.h"
#include "common/parallel_for.h"
#include "common/sealed_memory.h"

namespace warpline::server {
namespace {

// Returns the bytes that the system can give without taking them from programs; nothing where it
// does not say.
std::optional<uint64_t> AvailableBytes() {
  std::ifstream info("/proc/meminfo");
  std::string name, unit;
  for (uint64_t kib = 0; info >> name >> kib && std::getline(info, unit);) {
    if (name == "MemAvailable:") return kib << 10;
  }
  return std::nullopt;
}

// The system gives pages to one thread at about a GiB a second.
absl::Status PopulateAll(const std::vector<std::pair<int, uint64_t>>& blocks, int threads) {
  return ParallelFor(threads, blocks.size(), [&blocks](uint64_t i) {
    auto mapped = MappedMemory::Map(blocks[i].first, blocks[i].second);
    return mapped.ok() ? mapped->Populate() : mapped.status();
  });
}

}  // namespace

SwapSpace::Place::Place(Place&& other) noexcept
    : space_(std::exchange(other.space_, nullptr)), extents_(std::exchange(other.extents_, {})) {}

SwapSpace::Place& SwapSpace::Place::operator=(Place&& other) noexcept {
  std::swap(space_, other.space_);
  std::swap(extents_, other.extents_);
  return *this;
}

void SwapSpace::Place::GiveBack() {
  if (space_ != nullptr) space_->GiveBack(extents_);
  space_ = nullptr;
  extents_.clear();
}

SwapSpace::SwapSpace(std::vector<Block> blocks, uint64_t bytes)
    : blocks_(std::move(blocks)), bytes_(bytes), free_bytes_(bytes) {
  for (const Block& block : blocks_) taken_.emplace_back(block.bytes / kGranule, false);
}

absl::StatusOr<std::unique_ptr<SwapSpace>> SwapSpace::Open(uint64_t bytes, int threads,
                                                           std::vector<UniqueFd> former) {
  bytes = (bytes + kGranule - 1) / kGranule * kGranule;
  std::vector<Block> blocks;
  uint64_t had = 0;
  for (UniqueFd& fd : former) {
    const auto size = SealedBytes(fd.get());
    if (!size.ok()) return size.status();
    if (*size == 0 || *size > kBlockBytes || *size % kGranule != 0) {
      return absl::InvalidArgumentError("not a block of host memory for what is moved");
    }
    had += *size;
    blocks.push_back({std::move(fd), *size});
  }
  bytes = std::max(bytes, had);
  const std::optional<uint64_t> available = AvailableBytes();
  if (available.has_value() && bytes - had > *available) {
    // It would give them, and then end programs for want of memory.
    return absl::ResourceExhaustedError(absl::StrCat(
        "of the ", bytes - had, " bytes to move device memory to the host has ", *available));
  }
  std::vector<std::pair<int, uint64_t>> sizes;
  for (uint64_t left = bytes - had; left > 0; left -= blocks.back().bytes) {
    const uint64_t size = std::min(left, kBlockBytes);
    auto fd = NewSealedMemory("warpline-swap", size);
    if (!fd.ok()) return fd.status();
    sizes.emplace_back(fd->get(), size);
    blocks.push_back({*std::move(fd), size});
  }
  const absl::Status populated = PopulateAll(sizes, std::max(1, threads));
  if (!populated.ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the host has no ", bytes,
                     " bytes to move device memory to: ", std::string(populated.message())));
  }
  return std::unique_ptr<SwapSpace>(new SwapSpace(std::move(blocks), bytes));
}

absl::StatusOr<SwapSpace::Place> SwapSpace::Take(uint64_t bytes) {
  Place place;
  MutexLock lock(&mu_);
  if (bytes > free_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("of the ", bytes_, " bytes of host memory for moved device memory ",
                     free_bytes_, " are free, and ", bytes, " are wanted"));
  }
  free_bytes_ -= bytes;
  place.space_ = this;
  for (size_t block = 0; block < taken_.size() && bytes > 0; ++block) {
    std::vector<bool>& taken = taken_[block];
    for (size_t i = 0; i < taken.size() && bytes > 0; ++i) {
      if (taken[i]) continue;
      Extent extent = {block, i * kGranule, 0};
      for (; i < taken.size() && !taken[i] && bytes > 0; ++i) {
        taken[i] = true;
        extent.bytes += kGranule;
        bytes -= kGranule;
      }
      place.extents_.push_back(extent);
    }
  }
  return place;
}

absl::StatusOr<SwapSpace::Place> SwapSpace::TakeAt(std::vector<Extent> extents) {
  const auto granules = [](uint64_t bytes) {
    return static_cast<std::ptrdiff_t>(bytes / kGranule);
  };
  Place place;
  MutexLock lock(&mu_);
  for (const Extent& extent : extents) {
    if (extent.block >= taken_.size() || extent.bytes == 0 || extent.offset % kGranule != 0 ||
        extent.bytes % kGranule != 0 || extent.offset > blocks_[extent.block].bytes ||
        extent.bytes > blocks_[extent.block].bytes - extent.offset) {
      return absl::InvalidArgumentError("there is no such host memory for what is moved");
    }
  }
  // They are given back after an error.
  std::vector<Extent> so_far;
  for (const Extent& extent : extents) {
    const auto begin = taken_[extent.block].begin() + granules(extent.offset);
    const auto end = begin + granules(extent.bytes);
    if (std::find(begin, end, true) != end) {
      GiveBackLocked(so_far);
      return absl::InvalidArgumentError("host memory for what is moved is taken twice");
    }
    std::fill(begin, end, true);
    free_bytes_ -= extent.bytes;
    so_far.push_back(extent);
  }
  place.space_ = this;
  place.extents_ = std::move(extents);
  return place;
}

void SwapSpace::GiveBack(const std::vector<Extent>& extents) {
  MutexLock lock(&mu_);
  GiveBackLocked(extents);
}

void SwapSpace::GiveBackLocked(const std::vector<Extent>& extents) {
  for (const Extent& extent : extents) {
    const auto begin =
        taken_[extent.block].begin() + static_cast<std::ptrdiff_t>(extent.offset / kGranule);
    std::fill_n(begin, extent.bytes / kGranule, false);
    free_bytes_ += extent.bytes;
  }
}

uint64_t SwapSpace::free_bytes() const {
  MutexLock lock(&mu_);
  return free_bytes_;
}

}  // namespace warpline::server
