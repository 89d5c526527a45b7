#include "client_stub/session/memory/grant_table.h"

#include <utility>

#include "proto/frames.h"

namespace warpline::stub {

uint64_t GrantTable::Expect(GrantWaiter* waiter, CudaResult* error) {
  MutexLock lock(&mu_);
  if (error_ != CudaResult::kSuccess) {
    *error = error_;
    return 0;
  }
  const uint64_t id = ++last_id_;
  waiters_[id] = waiter;
  return id;
}

bool GrantTable::Answer(uint64_t id, const Grant& grant, CudaResult error, std::string token) {
  GrantWaiter* waiter;
  {
    MutexLock lock(&mu_);
    const auto it = waiters_.find(id);
    if (it == waiters_.end()) return false;
    waiter = it->second;
    if (grant.bytes != 0 && !waiter->for_token &&
        (grant.va != waiter->va || grant.bytes < waiter->min_bytes ||
         grant.bytes > waiter->want_bytes || grant.bytes % kChunkGranularity != 0)) {
      return false;
    }
    waiters_.erase(it);
  }
  if (grant.bytes == 0) {
    waiter->result = error == CudaResult::kSuccess ? CudaResult::kOutOfMemory : error;
  }
  waiter->grant = grant;
  waiter->token = std::move(token);
  waiter->done.Signal();
  return true;
}

void GrantTable::Fail(CudaResult error) {
  absl::flat_hash_map<uint64_t, GrantWaiter*> orphans;
  {
    MutexLock lock(&mu_);
    if (error_ == CudaResult::kSuccess) error_ = error;
    orphans.swap(waiters_);
  }
  for (auto& [id, waiter] : orphans) {
    waiter->result = error;
    waiter->done.Signal();
  }
}

}  // namespace warpline::stub
