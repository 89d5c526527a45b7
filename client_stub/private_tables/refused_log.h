// Logs once for each table that it was refused. Thread-safe.
#ifndef WARPLINE_CLIENT_STUB_PRIVATE_TABLES_REFUSED_LOG_H_
#define WARPLINE_CLIENT_STUB_PRIVATE_TABLES_REFUSED_LOG_H_

#include <set>
#include <string>

#include "common/mutex.h"
#include "cuda.h"

namespace warpline {

class RefusedLog {
 public:
  // Logs "cuGetExportTable <uuid> is not supported" the first time for `id`. After kMaxTables
  // different ones, which no library asks for, further ones go unnamed. Returns whether it logged.
  bool Add(const CUuuid& id);

  static constexpr size_t kMaxTables = 64;

 private:
  Mutex mu_;
  std::set<std::string> seen_ ABSL_GUARDED_BY(mu_);
};

// "6bd5fb6c-5bf4-e74a-8987-d93912fd9df9": the bytes in order.
std::string UuidText(const CUuuid& id);

}  // namespace warpline

#endif  // WARPLINE_CLIENT_STUB_PRIVATE_TABLES_REFUSED_LOG_H_
