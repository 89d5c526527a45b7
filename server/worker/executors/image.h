// The image of a module while its parts arrive and until it is loaded.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_IMAGE_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_IMAGE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/unique_fd.h"

namespace warpline::worker {

// Counts the images of a session that have a descriptor each, of which the process has not many.
// Thread-safe.
class ImageFiles {
 public:
  static constexpr int kMost = 16;

  // Returns false when there are as many as there may be.
  bool Take() {
    if (count_.fetch_add(1, std::memory_order_relaxed) < kMost) return true;
    Give();
    return false;
  }
  void Give() { count_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  std::atomic<int> count_{0};
};

// Thread-compatible: the decoder fills it, then the control executor reads it.
class Image {
 public:
  // Makes an image of `total` bytes, none of which has arrived. With `files` (borrowed; null for
  // none) it lies in memory that a descriptor names, so that it can be handed on without a copy;
  // when the session has as many as it may, or the system has none, it lies in other memory.
  Image(uint64_t total, ImageFiles* files);
  ~Image();
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  uint64_t total() const { return total_; }
  // The bytes that have arrived.
  std::string_view bytes() const { return {base_ == nullptr ? heap_.data() : base_, size_}; }
  bool complete() const { return size_ == total_; }

  // True when the server was asked for it by hash and does not have it; then it comes under another
  // handle.
  bool missing() const { return missing_; }
  void set_missing() { missing_ = true; }

  // Adds a part that fits. Returns false when there is no memory for it.
  bool Append(std::string_view part);
  // Adds a part of `raw` bytes that fits, from one zstd frame. Returns false when `frame` is no
  // such frame.
  bool AppendZstd(std::string_view frame, uint64_t raw);
  // Takes the whole image from memory that does not change any more. Returns false when it cannot
  // be mapped.
  bool Adopt(const UniqueFd& memory);

  bool adopted() const { return adopted_; }

  // The descriptor of a complete image that the server does not have; -1 for others.
  int fd() const { return memory_.get(); }

 private:
  // Makes room for `bytes` more after what has arrived; returns null when there is no memory for
  // them.
  char* Room(uint64_t bytes);

  const uint64_t total_;
  uint64_t size_ = 0;
  bool missing_ = false;
  bool adopted_ = false;
  std::string heap_;
  ImageFiles* files_ = nullptr;  // To which it gives its descriptor back.
  UniqueFd memory_;
  char* base_ = nullptr;  // Start of the mapping, if it is one.
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_IMAGE_H_
