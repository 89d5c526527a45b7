// The keys of a scheduler that is the only one, in a file of SQLite: one table.
#ifndef WARPLINE_SCHEDULER_STORE_SQLITE_KEY_VALUE_STORE_H_
#define WARPLINE_SCHEDULER_STORE_SQLITE_KEY_VALUE_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scheduler/store/key_value_store.h"
#include "scheduler/store/sqlite.h"

namespace warpline::scheduler {

// Thread-compatible.
class SqliteKeyValueStore : public KeyValueStore {
 public:
  // Opens the file, or makes it readable for its owner only. DATA_LOSS for a file that is damaged
  // or is no state, UNAVAILABLE for one that cannot be opened. The message is that of Explain().
  // `epoch` is that of a state that was in etcd before: no smaller than any that servers have seen.
  static absl::StatusOr<std::unique_ptr<SqliteKeyValueStore>> Open(const std::string& path,
                                                                   uint64_t epoch = 0);

  std::string name() const override { return path_; }
  absl::Status Explain(const absl::Status& error) const override;
  uint64_t epoch() const override { return epoch_; }
  uint64_t confirmations() const override { return 0; }
  absl::Status ConfirmSince(uint64_t) override { return absl::OkStatus(); }
  absl::StatusOr<std::optional<std::string>> Get(const std::string& key) override;
  absl::Status ForEach(const Visitor& visit) override;
  absl::Status Write(const WriteBatch& batch) override;

 private:
  SqliteKeyValueStore(std::string path, uint64_t epoch) : path_(std::move(path)), epoch_(epoch) {}
  // Returns DATA_LOSS unless the whole file is sound: damage may lie in a place that is not read
  // for months.
  absl::Status CheckFile();
  // Makes the table in a new file. DATA_LOSS for one that lacks it.
  absl::Status MakeTable();

  const std::string path_;
  const uint64_t epoch_;
  std::unique_ptr<Database> database_;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_STORE_SQLITE_KEY_VALUE_STORE_H_
