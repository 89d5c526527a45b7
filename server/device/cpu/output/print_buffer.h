// What kernels print, kept until the end of a launch as on a GPU: a first-in first-out buffer that
// loses its oldest records when it is full. Thread-safe.
#ifndef WARPLINE_SERVER_DEVICE_CPU_OUTPUT_PRINT_BUFFER_H_
#define WARPLINE_SERVER_DEVICE_CPU_OUTPUT_PRINT_BUFFER_H_

#include <cstdint>
#include <deque>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace warpline::cpu {

class PrintBuffer {
 public:
  static constexpr uint64_t kDefaultCapacity = 1 << 20;
  static constexpr uint64_t kMaxCapacity = 32 << 20;

  PrintBuffer() = default;
  PrintBuffer(const PrintBuffer&) = delete;
  PrintBuffer& operator=(const PrintBuffer&) = delete;

  // CUDA's FIFO holds arguments, not text, so `record_bytes` counts against the capacity. The text
  // itself may take at most kTextPerRecordByte times as much.
  void set_capacity(uint64_t bytes);
  uint64_t capacity() const;

  // `descriptor` is 1 for printf and 2 for a failed assert.
  void Append(int descriptor, std::string text, uint64_t record_bytes);

  // Writes everything to its descriptors, in order. Text that a descriptor does not take is lost.
  void Flush();

 private:
  static constexpr uint64_t kTextPerRecordByte = 8;

  struct Record {
    int descriptor;
    std::string text;
    uint64_t bytes;
  };

  Mutex writing_;  // Held while writing, so that two flushes keep their order.
  mutable Mutex mu_;
  uint64_t capacity_ ABSL_GUARDED_BY(mu_) = kDefaultCapacity;
  uint64_t used_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t text_used_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<Record> records_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_OUTPUT_PRINT_BUFFER_H_
