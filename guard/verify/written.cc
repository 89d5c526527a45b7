#include "guard/verify/written.h"

#include <algorithm>

namespace warpline::guard {
namespace {

constexpr size_t kBits = 64;
constexpr size_t kMostStoredWords = size_t{1} << 24;

// Keeps in `bits` what is in `others` as well.
void Intersect(const std::vector<uint64_t>& others, std::vector<uint64_t>* bits) {
  bits->resize(std::min(bits->size(), others.size()));
  for (size_t i = 0; i < bits->size(); ++i) (*bits)[i] &= others[i];
}

bool Contains(const std::vector<uint64_t>& bits, const std::vector<uint64_t>& part) {
  for (size_t i = 0; i < part.size(); ++i) {
    const uint64_t has = i < bits.size() ? bits[i] : 0;
    if ((part[i] & ~has) != 0) return false;
  }
  return true;
}

void Remove(const std::vector<uint64_t>& part, std::vector<uint64_t>* bits) {
  for (size_t i = 0; i < std::min(part.size(), bits->size()); ++i) (*bits)[i] &= ~part[i];
}

void SetBit(size_t number, bool value, std::vector<uint64_t>* bits) {
  if (number / kBits >= bits->size()) bits->resize(number / kBits + 1);
  const uint64_t bit = uint64_t{1} << (number % kBits);
  if (value) {
    (*bits)[number / kBits] |= bit;
  } else {
    (*bits)[number / kBits] &= ~bit;
  }
}

}  // namespace

bool Written::Is(std::string_view name, int64_t offset) const {
  if (!reachable_) return true;
  const auto found = numbers_.find(std::make_pair(name, offset));
  if (found == numbers_.end()) return false;
  const size_t word = found->second / kBits;
  return word < now_.size() && (now_[word] >> (found->second % kBits) & 1) != 0;
}

size_t Written::Set(std::string_view name, int64_t offset, bool written) {
  const size_t number =
      numbers_.emplace(std::make_pair(name, offset), numbers_.size()).first->second;
  SetBit(number, written, &now_);
  return number;
}

void Written::Write(std::string_view name, bool is_passing) {
  const size_t number = Set(name, kRegister, true);
  if (is_passing) SetBit(number, true, &passing_);
}

void Written::WriteBytes(std::string_view name, int64_t offset, int64_t bytes, bool is_passing) {
  for (int64_t i = 0; i < bytes; ++i) {
    const size_t number = Set(name, offset + i, true);
    if (is_passing) SetBit(number, true, &passing_);
  }
}

void Written::ForgetBytes(std::string_view name, int64_t bytes) {
  for (int64_t i = 0; i < bytes; ++i) Set(name, i, false);
}

void Written::EndStart() {
  if (!in_start_) return;
  in_start_ = false;
  start_ = now_;
  Remove(passing_, &start_);
}

void Written::EndPath() {
  EndStart();
  reachable_ = false;
}

bool Written::HasBytes(std::string_view name, int64_t offset, int64_t bytes) const {
  for (int64_t i = 0; i < bytes; ++i) {
    if (!Is(name, offset + i)) return false;
  }
  return true;
}

Refusal Written::Store(Bits bits, Bits* to) {
  stored_words_ += bits.size();
  *to = std::move(bits);
  return stored_words_ <= kMostStoredWords ? Refusal() : "too many labels and registers";
}

Refusal Written::PlaceLabel(std::string_view label) {
  EndStart();
  const auto ahead = ahead_.find(label);
  if (ahead != ahead_.end()) {
    if (reachable_) {
      Intersect(ahead->second, &now_);
    } else {
      now_ = std::move(ahead->second);
    }
    ahead_.erase(ahead);
  } else if (!reachable_) {
    // If anything comes here it comes from below.
    now_ = start_;
  }
  Remove(passing_, &now_);
  reachable_ = true;
  return Store(now_, &behind_[label]);
}

Refusal Written::BranchTo(std::string_view label) {
  EndStart();
  if (!reachable_) return {};
  if (const auto behind = behind_.find(label); behind != behind_.end()) {
    return Contains(now_, behind->second)
               ? Refusal()
               : "a branch back to where something is read that may not have been written";
  }
  const auto [ahead, is_new] = ahead_.try_emplace(label);
  if (is_new) return Store(now_, &ahead->second);
  Intersect(now_, &ahead->second);
  return {};
}

}  // namespace warpline::guard
