#include "server/device/cpu/output/print_buffer.h"

#include <errno.h>
#include <unistd.h>

#include <utility>

namespace warpline::cpu {
namespace {

void WriteAll(int descriptor, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = write(descriptor, text.data() + at, text.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    at += static_cast<size_t>(written);
  }
}

}  // namespace

void PrintBuffer::set_capacity(uint64_t bytes) {
  MutexLock lock(&mu_);
  capacity_ = bytes;
}

uint64_t PrintBuffer::capacity() const {
  MutexLock lock(&mu_);
  return capacity_;
}

void PrintBuffer::Append(int descriptor, std::string text, uint64_t record_bytes) {
  MutexLock lock(&mu_);
  used_ += record_bytes;
  text_used_ += text.size();
  records_.push_back({descriptor, std::move(text), record_bytes});
  while (records_.size() > 1 &&
         (used_ > capacity_ || text_used_ > kTextPerRecordByte * capacity_)) {
    used_ -= records_.front().bytes;
    text_used_ -= records_.front().text.size();
    records_.pop_front();
  }
}

void PrintBuffer::Flush() {
  MutexLock write_lock(&writing_);
  std::deque<Record> records;
  {
    MutexLock lock(&mu_);
    records.swap(records_);
    used_ = 0;
    text_used_ = 0;
  }
  // Text that goes to the same descriptor in a row is written with one call.
  std::string text;
  for (size_t i = 0; i < records.size(); ++i) {
    text += records[i].text;
    if (i + 1 < records.size() && records[i + 1].descriptor == records[i].descriptor &&
        text.size() < (1 << 16)) {
      continue;
    }
    WriteAll(records[i].descriptor, text);
    text.clear();
  }
}

}  // namespace warpline::cpu
