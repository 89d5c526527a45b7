#include "scheduler/store/key_value_store.h"

#include "absl/strings/str_cat.h"

namespace warpline::scheduler {

absl::Status CheckBatch(const WriteBatch& batch) {
  if (batch.size() > 0 && batch.size() <= KeyValueStore::kMaxBatch) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a batch has 1 to ", KeyValueStore::kMaxBatch, " changes, not ", batch.size()));
}

}  // namespace warpline::scheduler
