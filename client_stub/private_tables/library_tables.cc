#include "client_stub/private_tables/library_tables.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <utility>
#include <vector>

#include "client_stub/private_tables/table_slots.h"

namespace warpline {
namespace {

constexpr char kToolsContext[] = "TOOLS_CONTEXT";
constexpr char kToolsModule[] = "TOOLS_MODULE";
constexpr char kDeviceTopology[] = "1734dc26";

// ---- TOOLS_CONTEXT: keys under which libraries keep what belongs to a context or stream.

CUresult ContextId(CUcontext context, uint64_t* id) {
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // This is the answer for a thread without a context: libraries ask before they do anything in it.
  *id = 0;
  return context == nullptr ? CUDA_SUCCESS : View().ContextId(context, id);
}

// The object behind a stream's handle is only ever handed to the next function, so it may be the
// stream's number, which is never 0.
CUresult StreamObject(CUcontext context, CUstream stream, void** object, int per_thread) {
  if (object == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t id = 0;
  const CUresult result = View().StreamId(context, stream, per_thread != 0, &id);
  if (result == CUDA_SUCCESS) *object = reinterpret_cast<void*>(id);
  return result;
}

CUresult StreamIdOf(CUcontext, void* object, uint64_t* id) {
  if (id == nullptr || object == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = reinterpret_cast<uint64_t>(object);
  return CUDA_SUCCESS;
}

// ---- TOOLS_MODULE

// Returns 1 when `visit` has seen every kernel of the module; callers take any other value for an
// error.
int VisitKernels(CUcontext, CUmodule module, void (*visit)(void*, CUfunction), void* data) {
  if (visit == nullptr) return 0;
  std::vector<CUfunction> functions;
  if (View().Functions(module, &functions) != CUDA_SUCCESS) return 0;
  for (const CUfunction function : functions) visit(data, function);
  return 1;
}

// ---- 1734dc26: something about the device that cuBLASLt does without when it is not there.

CUresult NoTopology(void** list, size_t* count) {
  if (list != nullptr) *list = nullptr;
  if (count != nullptr) *count = 0;
  return CUDA_ERROR_NOT_SUPPORTED;
}

// ---- The tables.

template <size_t kSlots>
using Slots = std::array<void*, kSlots>;

template <const char* kTable, size_t kSlots, size_t... kSlot>
Slots<kSlots> MakeTable(std::index_sequence<kSlot...>,
                        std::initializer_list<std::pair<size_t, void*>> answered) {
  Slots<kSlots> table = {Slot(Refused<kTable, static_cast<int>(kSlot)>)...};
  table[0] = Size(kSlots);
  for (const auto& [slot, function] : answered) table[slot] = function;
  return table;
}

template <const char* kTable, size_t kSlots>
void* const* Table(std::initializer_list<std::pair<size_t, void*>> answered) {
  static const auto* const table =
      new Slots<kSlots>(MakeTable<kTable, kSlots>(std::make_index_sequence<kSlots>(), answered));
  return table->data();
}

constexpr uint8_t kToolsContextId[16] = {0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48,
                                         0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2};
constexpr uint8_t kToolsModuleId[16] = {0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d,
                                        0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99, 0x1e};
constexpr uint8_t kDeviceTopologyId[16] = {0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45,
                                           0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b, 0xca};

}  // namespace

void* const* LibraryTable(const CUuuid& id) {
  const auto is = [&id](const uint8_t* other) {
    return std::memcmp(id.bytes, other, sizeof(id.bytes)) == 0;
  };
  if (is(kToolsContextId)) {
    return Table<kToolsContext, 64>(
        {{4, Slot(ContextId)}, {39, Slot(StreamIdOf)}, {51, Slot(StreamObject)}});
  }
  if (is(kToolsModuleId)) return Table<kToolsModule, 16>({{7, Slot(VisitKernels)}});
  if (is(kDeviceTopologyId)) return Table<kDeviceTopology, 16>({{4, Slot(NoTopology)}});
  return nullptr;
}

}  // namespace warpline
