#include "client_stub/shim/entry_points.h"

#include <algorithm>
#include <iterator>

namespace warpline {
namespace {

struct Entry {
  std::string_view name;
  int version;
  const char* symbol;
  const char* per_thread_symbol;  // nullptr where there is none.
  int per_thread_version;
};

// Ordered by name, then by version.
constexpr Entry kEntries[] = {
#define WARPLINE_ENTRY(name, version, symbol, per_thread_symbol, per_thread_version) \
  {name, version, symbol, per_thread_symbol, per_thread_version},
#include "client_stub/shim/resolution.inc"
#undef WARPLINE_ENTRY
};

}  // namespace

const char* ResolveSymbol(std::string_view name, int version, uint64_t flags,
                          CUdriverProcAddressQueryResult* status) {
  CUdriverProcAddressQueryResult unused;
  if (status == nullptr) status = &unused;
  *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;

  const Entry* entry =
      std::lower_bound(std::begin(kEntries), std::end(kEntries), name,
                       [](const Entry& e, std::string_view n) { return e.name < n; });
  const Entry* found = nullptr;
  bool known = false;
  for (; entry != std::end(kEntries) && entry->name == name; ++entry) {
    known = true;
    if (entry->version <= version) found = entry;
  }
  if (found == nullptr) {
    if (known) *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    return nullptr;
  }
  *status = CU_GET_PROC_ADDRESS_SUCCESS;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0 &&
                          found->per_thread_symbol != nullptr &&
                          found->per_thread_version <= version;
  return per_thread ? found->per_thread_symbol : found->symbol;
}

}  // namespace warpline
