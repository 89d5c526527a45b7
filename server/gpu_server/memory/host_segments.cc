#include "server/gpu_server/memory/host_segments.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/sealed_memory.h"
#include "proto/frames.h"

namespace warpline::server {
namespace {

template <typename... Words>
HostSegments::Result NoRoom(const Words&... words) {
  return {CudaResult::kOutOfMemory, -1, absl::StrCat(words...)};
}

}  // namespace

bool HostSegments::Fits(uint64_t va, uint64_t bytes) const {
  if (bytes == 0 || va % kHostPageBytes != 0 || bytes % kHostPageBytes != 0 || !InHostArena(va) ||
      bytes > kHostArenaBytes - (va - kHostArenaBase)) {
    return false;
  }
  const auto next = segments_.lower_bound(va);
  if (next != segments_.end() && next->first < va + bytes) return false;
  return next == segments_.begin() || std::prev(next)->first + std::prev(next)->second.bytes <= va;
}

void HostSegments::Request(const warpline_internal::HostMemoryRequest& request, Answer answer) {
  const uint64_t va = request.va();
  if (request.give_back()) {
    const auto segment = segments_.find(va);
    if (segment == segments_.end() || segment->second.bytes != request.bytes()) {
      return answer({CudaResult::kInvalidValue, -1, {}});
    }
    for (const auto& [id, pending] : pending_) {
      if (pending.va == va && pending.answer) return answer({CudaResult::kInvalidValue, -1, {}});
    }
    return SendUnmap(va, std::move(answer));
  }
  if (!Fits(va, request.bytes())) return answer({CudaResult::kInvalidValue, -1, {}});
  Result made = Make(request, UniqueFd());
  if (made.result != CudaResult::kSuccess) return answer(made);
  SendMap(va, std::move(answer));
}

absl::Status HostSegments::Adopt(uint64_t va, uint64_t bytes, bool outlives, UniqueFd memory) {
  const auto sealed = SealedBytes(memory.get());
  if (!Fits(va, bytes) || !sealed.ok() || *sealed != bytes) {
    return absl::InvalidArgumentError("host memory that no session has");
  }
  warpline_internal::HostMemoryRequest request;
  request.set_va(va);
  request.set_bytes(bytes);
  request.set_outlives(outlives);
  const Result made = Make(request, std::move(memory));
  return made.result == CudaResult::kSuccess ? absl::OkStatus()
                                             : absl::ResourceExhaustedError(made.why);
}

HostSegments::Result HostSegments::Make(const warpline_internal::HostMemoryRequest& request,
                                        UniqueFd memory) {
  if (segments_.size() >= kMostSegments) {
    return NoRoom("the session has ", kMostSegments, " segments of host memory");
  }
  const auto outliving = static_cast<size_t>(std::count_if(
      segments_.begin(), segments_.end(), [](const auto& entry) { return entry.second.outlives; }));
  if (request.outlives() && outliving >= kMostOutliving) {
    return {CudaResult::kNotSupported, -1, {}};
  }
  HostSegment segment;
  segment.bytes = request.bytes();
  segment.outlives = request.outlives();
  segment.tenant_charge = tenant_quota_->Reserve(segment.bytes, segment.bytes, kHostPageBytes);
  segment.charge = quota_->Reserve(segment.bytes, segment.bytes, kHostPageBytes);
  if (segment.tenant_charge.bytes() != segment.bytes) {
    return NoRoom("the host memory of its tenant has no room for ", segment.bytes,
                  " bytes of pinned memory");
  }
  if (segment.charge.bytes() != segment.bytes) {
    return NoRoom("the host memory that the server shares with all clients has no room for ",
                  segment.bytes, " bytes");
  }
  segment.fd = std::move(memory);
  if (!segment.fd.valid()) {
    absl::StatusOr<UniqueFd> made = NewSealedMemory("warpline-host", segment.bytes);
    if (!made.ok()) return NoRoom("the server's host has no memory to share");
    segment.fd = *std::move(made);
  }
  const int fd = segment.fd.get();
  segments_[request.va()] = std::move(segment);
  return {CudaResult::kSuccess, fd, {}};
}

void HostSegments::SendMap(uint64_t va, Answer answer) {
  const HostSegment& segment = segments_[va];
  warpline_internal::ToWorker message;
  message.mutable_host()->set_id(next_id_);
  message.mutable_host()->set_va(va);
  message.mutable_host()->set_bytes(segment.bytes);
  pending_[next_id_++] = {va, false, std::move(answer)};
  const int fd = segment.fd.get();
  // What a dead worker did not get the next one is sent.
  if (!suspended_) (void)worker_->Send(message, {&fd, 1});
}

void HostSegments::SendUnmap(uint64_t va, Answer answer) {
  warpline_internal::ToWorker message;
  message.mutable_host()->set_id(next_id_);
  message.mutable_host()->set_va(va);
  message.mutable_host()->set_bytes(segments_[va].bytes);
  message.mutable_host()->set_unmap(true);
  pending_[next_id_++] = {va, true, std::move(answer)};
  if (!suspended_) (void)worker_->Send(message, {});
}

absl::Status HostSegments::OnDone(const warpline_internal::MemoryDone& done) {
  const auto found = pending_.find(done.id());
  if (found == pending_.end()) return absl::InvalidArgumentError("an answer that was not due");
  const Pending pending = std::move(found->second);
  pending_.erase(found);
  const auto result = static_cast<CudaResult>(done.error());
  const auto segment = segments_.find(pending.va);
  if (pending.unmap) {
    Drop(segment);
    pending.answer({result, -1, {}});
    return absl::OkStatus();
  }
  if (result == CudaResult::kSuccess) {
    if (pending.answer) pending.answer({result, segment->second.fd.get(), {}});
    return absl::OkStatus();
  }
  if (!pending.answer) return absl::AbortedError("cannot map the host memory again");
  Drop(segment);
  pending.answer({result, -1, {}});
  return absl::OkStatus();
}

void HostSegments::Drop(std::map<uint64_t, HostSegment>::iterator segment) {
  segment->second.Empty();
  segments_.erase(segment);
}

void HostSegments::AnswerAll(CudaResult result) {
  suspended_ = true;
  std::map<uint64_t, Pending> left;
  left.swap(pending_);
  for (auto& [id, pending] : left) {
    if (pending.answer) pending.answer({result, -1, {}});
  }
}

void HostSegments::Abandon() { AnswerAll(CudaResult::kLaunchFailed); }

void HostSegments::MapAgain() {
  suspended_ = false;
  std::map<uint64_t, Pending> left;
  left.swap(pending_);
  std::map<uint64_t, Answer> answers;
  for (auto& [id, pending] : left) {
    if (pending.unmap) {
      Drop(segments_.find(pending.va));
      pending.answer({CudaResult::kSuccess, -1, {}});
    } else if (pending.answer) {
      answers[pending.va] = std::move(pending.answer);
    }
  }
  for (const auto& [va, segment] : segments_) {
    const auto answer = answers.find(va);
    SendMap(va, answer == answers.end() ? nullptr : std::move(answer->second));
  }
}

KeptSegments HostSegments::End() {
  if (handed_over_) {
    pending_.clear();
    segments_.clear();
  }
  AnswerAll(CudaResult::kDeinitialized);
  KeptSegments kept;
  while (!segments_.empty()) {
    const auto first = segments_.begin();
    if (first->second.outlives) {
      kept.Add(first->first, std::move(first->second));
    } else {
      first->second.Empty();
    }
    segments_.erase(first);
  }
  return kept;
}

bool HostSegments::has_requests() const {
  return std::any_of(pending_.begin(), pending_.end(),
                     [](const auto& entry) { return entry.second.answer != nullptr; });
}

std::vector<HostSegments::Shared> HostSegments::Show() const {
  std::set<uint64_t> asked;
  for (const auto& [id, pending] : pending_) {
    if (pending.answer && !pending.unmap) asked.insert(pending.va);
  }
  std::vector<Shared> shared;
  for (const auto& [va, segment] : segments_) {
    if (asked.contains(va)) continue;
    shared.push_back({va, segment.bytes, segment.outlives, segment.fd.get()});
  }
  return shared;
}

uint64_t HostSegments::bytes() const {
  uint64_t sum = 0;
  for (const auto& [va, segment] : segments_) sum += segment.bytes;
  return sum;
}

}  // namespace warpline::server
