#include "client_stub/private_tables/refused_log.h"

#include <cstdio>

#include "common/log/log.h"

namespace warpline {

std::string UuidText(const CUuuid& id) {
  std::string text;
  for (size_t i = 0; i < sizeof(id.bytes); ++i) {
    char hex[4];
    const bool dash = i == 4 || i == 6 || i == 8 || i == 10;
    std::snprintf(hex, sizeof(hex), "%s%02x", dash ? "-" : "",
                  static_cast<unsigned char>(id.bytes[i]));
    text += hex;
  }
  return text;
}

bool RefusedLog::Add(const CUuuid& id) {
  const std::string text = UuidText(id);
  {
    MutexLock lock(&mu_);
    if (seen_.size() >= kMaxTables || !seen_.insert(text).second) return false;
  }
  LogWarning("cuGetExportTable ", text, " is not supported");
  return true;
}

}  // namespace warpline
