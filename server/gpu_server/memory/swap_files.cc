#include "server/gpu_server/memory/swap_files.h"

#include <utility>

namespace warpline::server {

SwapFiles::SwapFiles(std::string directory, SwapSpace* space)
    : directory_(std::move(directory)), space_(space) {}

void SwapFiles::Store(std::shared_ptr<AwayMemory> away, Moved moved) {
  stores_.Post(
      [this, away = std::move(away), moved = std::move(moved)] { moved(StoreNow(away.get())); });
}

void SwapFiles::Fetch(std::shared_ptr<AwayMemory> away, Moved moved) {
  fetches_.Post(
      [this, away = std::move(away), moved = std::move(moved)] { moved(FetchNow(away.get())); });
}

absl::Status SwapFiles::StoreNow(AwayMemory* away) const {
  const auto wanted = [away] { return away->wanted.load(std::memory_order_relaxed); };
  if (wanted()) return absl::CancelledError("it is wanted again");
  auto file = SwapFile::Create(directory_);
  if (!file.ok()) return file.status();
  if (absl::Status written = (*file)->Write(*space_, away->place, wanted); !written.ok()) {
    return written;
  }
  away->file = *std::move(file);
  away->place = SwapSpace::Place();
  return absl::OkStatus();
}

absl::Status SwapFiles::FetchNow(AwayMemory* away) const {
  auto place = space_->Take(away->file->bytes());
  if (!place.ok()) return place.status();
  if (absl::Status read = away->file->Read(*space_, *place, [] { return false; }); !read.ok()) {
    return read;
  }
  away->place = *std::move(place);
  away->file = nullptr;
  return absl::OkStatus();
}

}  // namespace warpline::server
