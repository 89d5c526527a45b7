// The seam between the scheduler's state (store.h) and what keeps it: keys with their values.
#ifndef WARPLINE_SCHEDULER_STORE_KEY_VALUE_STORE_H_
#define WARPLINE_SCHEDULER_STORE_KEY_VALUE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpline::scheduler {

// Changes that are made together. A key may be in it once.
struct WriteBatch {
  std::vector<std::pair<std::string, std::string>> puts = {};
  std::vector<std::string> deletes = {};

  size_t size() const { return puts.size() + deletes.size(); }
};

// Thread-compatible. A call returns UNAVAILABLE when what keeps the keys fails.
class KeyValueStore {
 public:
  // The most changes of one batch.
  static constexpr size_t kMaxBatch = 100;

  using Visitor = std::function<absl::Status(absl::string_view key, const std::string& value)>;

  virtual ~KeyValueStore() = default;

  // Where the keys are, for people.
  virtual std::string name() const = 0;
  // Puts an `error` of reading or writing the state into words for the person that starts the
  // scheduler: names where the state is and says what can be done.
  virtual absl::Status Explain(const absl::Status& error) const = 0;

  // The number of the term in which this store writes; it grows with each scheduler that leads.
  // Where there is only one scheduler, it is 0, or what it was when there were several.
  virtual uint64_t epoch() const = 0;
  // How often a call, changes included, has learned that no other scheduler has led until then.
  virtual uint64_t confirmations() const = 0;
  // Returns OK if no other scheduler has led until some moment since confirmations() was `mark`:
  // what was read since then was right at that moment. FAILED_PRECONDITION once another one leads,
  // UNAVAILABLE when it cannot be known now.
  virtual absl::Status ConfirmSince(uint64_t mark) = 0;

  // Returns nothing for a key that is not there.
  virtual absl::StatusOr<std::optional<std::string>> Get(const std::string& key) = 0;
  // Calls `visit` with every key in the order of their bytes, and ends with its first error. All
  // are of one moment, and only a part of them is in memory at a time. `visit` does not write to
  // this store.
  virtual absl::Status ForEach(const Visitor& visit) = 0;

  // Makes all changes of the batch or none. They are kept when the call returns, even if this
  // process is killed next. Deleting a key that is not there changes nothing. INVALID_ARGUMENT for
  // an empty batch and for more than kMaxBatch changes. FAILED_PRECONDITION, and nothing has
  // changed, once another scheduler leads. After UNAVAILABLE nothing has changed, or, with several
  // schedulers, this store takes no further change.
  virtual absl::Status Write(const WriteBatch& batch) = 0;
};

// INVALID_ARGUMENT for a batch that no store takes.
absl::Status CheckBatch(const WriteBatch& batch);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_STORE_KEY_VALUE_STORE_H_
