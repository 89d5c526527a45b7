#include "server/worker/executors/image.h"

#include <sys/mman.h>
#include <zstd.h>

#include <cstring>

namespace warpline::worker {

Image::Image(uint64_t total, ImageFiles* files) : total_(total) {
  if (files == nullptr || total == 0 || !files->Take()) return;
  files_ = files;
  UniqueFd memory(memfd_create("warpline-image", MFD_CLOEXEC));
  if (!memory.valid() || ftruncate(memory.get(), static_cast<off_t>(total)) != 0) return;
  void* const map = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (map == MAP_FAILED) return;
  base_ = static_cast<char*>(map);
  memory_ = std::move(memory);
}

Image::~Image() {
  if (base_ != nullptr) munmap(base_, total_);
  memory_.Reset(-1);
  if (files_ != nullptr) files_->Give();
}

char* Image::Room(uint64_t bytes) {
  if (bytes > total_ - size_) return nullptr;
  if (base_ != nullptr) return base_ + size_;
  // The buffer grows with what has arrived, so that a size alone takes no memory.
  heap_.resize(size_ + bytes);
  return heap_.data() + size_;
}

bool Image::Append(std::string_view part) {
  char* const room = Room(part.size());
  if (room == nullptr) return false;
  std::memcpy(room, part.data(), part.size());
  size_ += part.size();
  return true;
}

bool Image::AppendZstd(std::string_view frame, uint64_t raw) {
  char* const room = Room(raw);
  if (room == nullptr) return false;
  if (ZSTD_decompress(room, raw, frame.data(), frame.size()) != raw) return false;
  size_ += raw;
  return true;
}

bool Image::Adopt(const UniqueFd& memory) {
  if (size_ != 0 || base_ != nullptr || total_ == 0) return false;
  void* const map = mmap(nullptr, total_, PROT_READ, MAP_PRIVATE, memory.get(), 0);
  if (map == MAP_FAILED) return false;
  base_ = static_cast<char*>(map);
  size_ = total_;
  adopted_ = true;
  return true;
}

}  // namespace warpline::worker
