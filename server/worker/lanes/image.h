// A module's image while its parts arrive and until it is loaded.
#ifndef WARPLINE_SERVER_WORKER_LANES_IMAGE_H_
#define WARPLINE_SERVER_WORKER_LANES_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/unique_fd.h"

namespace warpline::worker {

// Thread-compatible: the decoder fills it, then the control lane reads it.
class Image {
 public:
  // Of `total` bytes, none of which is there. With `for_cache` in memory that a descriptor names,
  // so that it can be handed on without a copy; where the system has none, as other memory.
  Image(uint64_t total, bool for_cache);
  ~Image();
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  uint64_t total() const { return total_; }
  // What is there.
  std::string_view bytes() const { return {base_ == nullptr ? heap_.data() : base_, size_}; }
  bool complete() const { return size_ == total_; }

  // The server was asked for it by hash and does not have it: it comes under another handle.
  bool missing() const { return missing_; }
  void set_missing() { missing_ = true; }

  // Adds a part that fits. False when there is no memory for it.
  bool Append(std::string_view part);
  // Adds a part of `raw` bytes that fits, from one zstd frame. False for what is no such frame.
  bool AppendZstd(std::string_view frame, uint64_t raw);
  // Takes the whole image from memory that nobody changes any more. False when it cannot be mapped.
  bool Adopt(const UniqueFd& memory);

  // The descriptor of a complete image that the server does not have; -1 for others.
  int fd() const { return memory_.get(); }

 private:
  // Room for `bytes` more at the end of what is there; null when there is no memory for it.
  char* Room(uint64_t bytes);

  const uint64_t total_;
  uint64_t size_ = 0;
  bool missing_ = false;
  std::string heap_;
  UniqueFd memory_;
  char* base_ = nullptr;  // Of the mapping, if it is one.
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_LANES_IMAGE_H_
