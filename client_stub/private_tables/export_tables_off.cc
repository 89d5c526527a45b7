// Used by the build without private tables: all tables are refused.
#include "client_stub/private_tables/export_tables.h"
#include "common/log/log.h"

namespace warpline {

CUresult GetExportTable(DriverView*, const CUuuid* id, const void** table) {
  if (id == nullptr || table == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *table = nullptr;
  static const bool logged = [] {
    LogWarning("cuGetExportTable is refused: this build has no private tables");
    return true;
  }();
  (void)logged;
  return CUDA_ERROR_INVALID_VALUE;
}

void ForgetContext(CUcontext) {}

std::shared_ptr<const std::string> PtxBehind(std::string_view) { return nullptr; }

}  // namespace warpline
