#include "client_stub/core/managed/mirror_edge.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

namespace warpline::stub {
namespace {

constexpr uint64_t kPage = Mirror::kPageBytes;
constexpr uint64_t kWord = sizeof(uint64_t);

// Copies host memory. Returns false when the application has unmapped it, which it may before it
// unregisters it.
bool ReadHost(uint64_t at, uint64_t bytes, std::string* copy) {
  copy->resize(bytes);
  const iovec to = {copy->data(), bytes};
  const iovec from = {reinterpret_cast<void*>(at), bytes};
  const ssize_t got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
  if (got == static_cast<ssize_t>(bytes)) return true;
  if (got >= 0 || errno == EFAULT) return false;
  // The system does not allow that call.
  std::memcpy(copy->data(), reinterpret_cast<const void*>(at), bytes);
  return true;
}

// Replaces bytes of the word at `address`, those where `mask` has ones. Other threads may write the
// other bytes meanwhile, and see the new ones at once.
void ReplaceInWord(uint64_t address, uint64_t mask, uint64_t value) {
  const std::atomic_ref<uint64_t> word(*reinterpret_cast<uint64_t*>(address));
  uint64_t before = word.load(std::memory_order_relaxed);
  while (!word.compare_exchange_weak(before, (before & ~mask) | (value & mask),
                                     std::memory_order_release, std::memory_order_relaxed)) {
  }
}

}  // namespace

CUresult MirrorEdge::GiveToDevice() {
  std::string now;
  if (!ReadHost(host_, bytes_, &now) || now == both_) return CUDA_SUCCESS;
  if (both_.empty()) {
    const CUresult pushed = link_->Push(device_, now);
    if (pushed == CUDA_SUCCESS) both_ = now;
    return pushed;
  }
  for (size_t begin = 0; begin < bytes_;) {
    size_t end = begin;
    while (end < bytes_ && now[end] != both_[end]) ++end;
    if (end > begin) {
      const std::string_view run(now.data() + begin, end - begin);
      const CUresult pushed = link_->Push(device_ + begin, run);
      if (pushed != CUDA_SUCCESS) return pushed;
      both_.replace(begin, run.size(), run);
    }
    begin = end + 1;
  }
  return CUDA_SUCCESS;
}

void MirrorEdge::Take(std::string theirs) {
  std::string now;
  if (theirs == both_ || !ReadHost(host_, bytes_, &now)) return;
  const uint64_t end = host_ + bytes_;
  for (uint64_t at = host_ / kWord * kWord; at < end; at += kWord) {
    unsigned char mask[kWord] = {};
    unsigned char value[kWord] = {};
    bool changed = false;
    for (uint64_t byte = std::max(at, host_); byte < std::min(at + kWord, end); ++byte) {
      const size_t i = byte - host_;
      if (theirs[i] == both_[i]) continue;
      mask[byte - at] = 0xff;
      value[byte - at] = static_cast<unsigned char>(theirs[i]);
      changed = true;
    }
    if (!changed) continue;
    uint64_t mask_word;
    uint64_t value_word;
    std::memcpy(&mask_word, mask, kWord);
    std::memcpy(&value_word, value, kWord);
    ReplaceInWord(at, mask_word, value_word);
  }
  both_ = std::move(theirs);
}

std::vector<MirrorEdge> EdgesOf(uint64_t host, uint64_t device, uint64_t bytes, MirrorLink* link) {
  const uint64_t end = host + bytes;
  const uint64_t whole = (host + kPage - 1) / kPage * kPage;
  const uint64_t last = end / kPage * kPage;
  std::vector<MirrorEdge> edges;
  if (host < whole) edges.emplace_back(host, device, std::min(whole, end) - host, link);
  if (last < end && whole <= last) {
    edges.emplace_back(last, device + (last - host), end - last, link);
  }
  return edges;
}

}  // namespace warpline::stub
