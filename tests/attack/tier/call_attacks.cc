// Calls of the driver's API with a neighbour's addresses. Each is made with the attacker's own
// memory first: what works there, and nowhere else, is refused for its address.
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/attack/tier/attack.h"

namespace warpline::attack {
namespace {

constexpr size_t kBytes = 256, kWords = kBytes / 4;

// Where a call's bytes go to, or come from.
struct Side {
  std::vector<uint32_t> host = std::vector<uint32_t>(kWords);
  CUdeviceptr own = 0;  // Of at least kBytes.
  CUcontext context = nullptr;

  void* data() { return host.data(); }
};

struct Call {
  absl::string_view name;
  CUresult (*make)(CUdeviceptr there, Side* side);
  bool tells = false;  // It must not even succeed.
};

void* Pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

CUresult CopyRows(CUdeviceptr to, CUdeviceptr from) {
  CUDA_MEMCPY2D rows = {};
  rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.srcDevice = from;
  rows.dstDevice = to;
  rows.srcPitch = rows.dstPitch = rows.WidthInBytes = kBytes / 2;
  rows.Height = 2;
  return DRIVER(cuMemcpy2D_v2)(&rows);
}

CUresult CopyBox(CUdeviceptr to, CUdeviceptr from) {
  CUDA_MEMCPY3D box = {};
  box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = from;
  box.dstDevice = to;
  box.srcPitch = box.dstPitch = box.WidthInBytes = kBytes / 4;
  box.srcHeight = box.dstHeight = box.Height = box.Depth = 2;
  return DRIVER(cuMemcpy3D_v2)(&box);
}

constexpr Call kCopies[] = {
    {"cuMemcpyDtoH",
     [](CUdeviceptr there, Side* side) {
       return DRIVER(cuMemcpyDtoH_v2)(side->data(), there, kBytes);
     }},
    {"cuMemcpyHtoD",
     [](CUdeviceptr there, Side* side) {
       return DRIVER(cuMemcpyHtoD_v2)(there, side->data(), kBytes);
     }},
    {"cuMemcpyDtoHAsync",
     [](CUdeviceptr there, Side* side) {
       return DRIVER(cuMemcpyDtoHAsync_v2)(side->data(), there, kBytes, nullptr);
     }},
    {"cuMemcpyHtoDAsync",
     [](CUdeviceptr there, Side* side) {
       return DRIVER(cuMemcpyHtoDAsync_v2)(there, side->data(), kBytes, nullptr);
     }},
    {"cuMemcpyDtoD from there",
     [](CUdeviceptr there, Side* side) {
       return DRIVER(cuMemcpyDtoD_v2)(side->own, there, kBytes);
     }},
    {"cuMemcpyDtoD to there",
     [](CUdeviceptr there, Side* side) {
       return DRIVER(cuMemcpyDtoD_v2)(there, side->own, kBytes);
     }},
    {"cuMemcpyPeer from there",
     [](CUdeviceptr there, Side* side) {
       return DRIVER(cuMemcpyPeer)(side->own, side->context, there, side->context, kBytes);
     }},
    {"cuMemcpyPeer to there",
     [](CUdeviceptr there, Side* side) {
       return DRIVER(cuMemcpyPeer)(there, side->context, side->own, side->context, kBytes);
     }},
    {"cuMemcpy2D from there",
     [](CUdeviceptr there, Side* side) { return CopyRows(side->own, there); }},
    {"cuMemcpy2D to there",
     [](CUdeviceptr there, Side* side) { return CopyRows(there, side->own); }},
    {"cuMemcpy3D from there",
     [](CUdeviceptr there, Side* side) { return CopyBox(side->own, there); }},
    {"cuMemcpy3D to there",
     [](CUdeviceptr there, Side* side) { return CopyBox(there, side->own); }},
};

constexpr Call kFills[] = {
    {"cuMemsetD8",
     [](CUdeviceptr there, Side*) { return DRIVER(cuMemsetD8_v2)(there, 1, kBytes); }},
    {"cuMemsetD16",
     [](CUdeviceptr there, Side*) { return DRIVER(cuMemsetD16_v2)(there, 1, kWords); }},
    {"cuMemsetD32",
     [](CUdeviceptr there, Side*) { return DRIVER(cuMemsetD32_v2)(there, 1, kWords); }},
    {"cuMemsetD8Async",
     [](CUdeviceptr there, Side*) { return DRIVER(cuMemsetD8Async)(there, 1, kBytes, nullptr); }},
    {"cuMemsetD32Async",
     [](CUdeviceptr there, Side*) { return DRIVER(cuMemsetD32Async)(there, 1, kWords, nullptr); }},
    {"cuMemsetD2D32",
     [](CUdeviceptr there, Side*) { return DRIVER(cuMemsetD2D32_v2)(there, 64, 1, 8, 2); }},
    {"cuStreamWriteValue32",
     [](CUdeviceptr there, Side*) {
       return DRIVER(cuStreamWriteValue32_v2)(nullptr, there, 1, 0);
     }},
    {"cuStreamWriteValue64",
     [](CUdeviceptr there, Side*) {
       return DRIVER(cuStreamWriteValue64_v2)(nullptr, there, 1, 0);
     }},
};

// What tells of memory, or takes it. None of it may succeed at a neighbour's address, but for what
// is about the host's memory, where the attacker may have anything at that address.
constexpr Call kClaims[] = {
    {"cuPointerGetAttribute",
     [](CUdeviceptr there, Side* side) {
       return DRIVER(cuPointerGetAttribute)(side->data(), CU_POINTER_ATTRIBUTE_RANGE_SIZE, there);
     },
     true},
    {"cuPointerGetAttributes",
     [](CUdeviceptr there, Side*) {
       CUpointer_attribute which = CU_POINTER_ATTRIBUTE_RANGE_SIZE;
       size_t bytes = 0;
       void* data[] = {&bytes};
       const CUresult result = DRIVER(cuPointerGetAttributes)(1, &which, data, there);
       // It takes any address; of one that is unknown it says nothing.
       return result == CUDA_SUCCESS && bytes == 0 ? CUDA_ERROR_INVALID_VALUE : result;
     },
     true},
    {"cuMemGetAddressRange",
     [](CUdeviceptr there, Side*) {
       CUdeviceptr base = 0;
       size_t bytes = 0;
       return DRIVER(cuMemGetAddressRange_v2)(&base, &bytes, there);
     },
     true},
    {"cuIpcGetMemHandle",
     [](CUdeviceptr there, Side*) {
       CUipcMemHandle handle = {};
       return DRIVER(cuIpcGetMemHandle)(&handle, there);
     },
     true},
    {"cuMemRetainAllocationHandle",
     [](CUdeviceptr there, Side*) {
       CUmemGenericAllocationHandle handle = 0;
       return DRIVER(cuMemRetainAllocationHandle)(&handle, Pointer(there));
     },
     true},
    {"cuMemGetHandleForAddressRange",
     [](CUdeviceptr there, Side* side) {
       return DRIVER(cuMemGetHandleForAddressRange)(side->data(), there, 2 << 20,
                                                    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
     },
     true},
    {"cuMemPoolExportPointer",
     [](CUdeviceptr there, Side*) {
       CUmemPoolPtrExportData data = {};
       return DRIVER(cuMemPoolExportPointer)(&data, there);
     },
     true},
    {"cuMemHostRegister",
     [](CUdeviceptr there, Side*) {
       return DRIVER(cuMemHostRegister_v2)(Pointer(there), 4096, CU_MEMHOSTREGISTER_DEVICEMAP);
     }},
    {"cuMemHostGetDevicePointer",
     [](CUdeviceptr there, Side*) {
       CUdeviceptr device = 0;
       return DRIVER(cuMemHostGetDevicePointer_v2)(&device, Pointer(there), 0);
     },
     true},
    {"cuMemPrefetchAsync",
     [](CUdeviceptr there, Side*) {
       return DRIVER(cuMemPrefetchAsync_v2)(there, kBytes, {CU_MEM_LOCATION_TYPE_HOST, 0}, 0,
                                            nullptr);
     },
     true},
    {"cuMemUnmap", [](CUdeviceptr there, Side*) { return DRIVER(cuMemUnmap)(there, 2 << 20); },
     true},
    {"cuMemAddressFree",
     [](CUdeviceptr there, Side*) { return DRIVER(cuMemAddressFree)(there, 2 << 20); }, true},
    {"cuMemHostUnregister",
     [](CUdeviceptr there, Side*) { return DRIVER(cuMemHostUnregister)(Pointer(there)); }},
    {"cuMemFreeHost",
     [](CUdeviceptr there, Side*) { return DRIVER(cuMemFreeHost)(Pointer(there)); }, true},
    {"cuMemFreeAsync",
     [](CUdeviceptr there, Side*) { return DRIVER(cuMemFreeAsync)(there, nullptr); }, true},
    // Last: what is the attacker's own is free then.
    {"cuMemFree", [](CUdeviceptr there, Side*) { return DRIVER(cuMemFree_v2)(there); }, true},
};

// Makes the call at the attacker's own memory and at each of the neighbour's addresses.
void Make(const Call& call, Home* home, const NeighbourState& state, Side* side, Loot* loot) {
  CUdeviceptr own = 0;
  DRIVER(cuMemAlloc_v2)(&own, 2 << 20);
  absl::StrAppend(&loot->detail, loot->detail.empty() ? "" : "; ", call.name, " ",
                  int{call.make(own, side)}, " at home");
  for (const uint64_t there : {state.memory, state.variable, state.constants, state.pool_memory}) {
    const CUresult result = call.make(there, side);
    home->Wait();
    absl::StrAppend(&loot->detail, " ", int{result});
    loot->got_through = loot->got_through || (call.tells && result == CUDA_SUCCESS);
    loot->words.insert(loot->words.end(), side->host.begin(), side->host.end());
  }
}

template <const auto& kCalls>
absl::StatusOr<Loot> MakeAll(Home* home, const TierTarget& target) {
  Side side;
  side.own = home->memory();
  DRIVER(cuCtxGetCurrent)(&side.context);
  Loot loot;
  for (const Call& call : kCalls) Make(call, home, *target.neighbour, &side, &loot);
  const std::vector<uint32_t> memory = home->ReadMemory();
  loot.words.insert(loot.words.end(), memory.begin(), memory.end());
  return loot;
}

// Handles for other processes, made of what a neighbour's address would be in one.
absl::StatusOr<Loot> ForgedSharing(Home* home, const TierTarget& target) {
  Loot loot;
  for (const uint64_t address : {target.neighbour->memory, uint64_t{0}, ~uint64_t{0}}) {
    std::array<uint64_t, 8> words;
    words.fill(address);
    CUipcMemHandle memory = {};
    CUipcEventHandle event = {};
    CUmemPoolPtrExportData exported = {};
    static_assert(sizeof(memory) == sizeof(words) && sizeof(event) == sizeof(words) &&
                  sizeof(exported) == sizeof(words));
    std::memcpy(&memory, &words, sizeof(words));
    std::memcpy(&event, &words, sizeof(words));
    std::memcpy(&exported, &words, sizeof(words));
    CUdeviceptr mapped = 0, imported = 0;
    CUevent opened = nullptr;
    CUmemGenericAllocationHandle allocation = 0;
    const CUresult results[] = {
        DRIVER(cuIpcOpenMemHandle_v2)(&mapped, memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
        DRIVER(cuIpcOpenEventHandle)(&opened, event),
        DRIVER(cuMemPoolImportPointer)(
            &imported, reinterpret_cast<CUmemoryPool>(target.neighbour->pool), &exported),
        DRIVER(cuMemImportFromShareableHandle)(&allocation, Pointer(0),
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
    };
    for (const CUresult result : results) {
      absl::StrAppend(&loot.detail, loot.detail.empty() ? "" : " ", int{result});
      loot.got_through = loot.got_through || result == CUDA_SUCCESS;
    }
  }
  loot.detail = absl::StrCat("memory, event, pool's memory, descriptor: ", loot.detail);
  loot.words = home->ReadMemory();
  return loot;
}

constexpr TierAttack kAttacks[] = {
    {"calls_that_copy", &MakeAll<kCopies>},
    {"calls_that_fill", &MakeAll<kFills>},
    {"calls_that_tell_or_take", &MakeAll<kClaims>},
    {"calls_with_forged_sharing", &ForgedSharing},
};

}  // namespace

absl::Span<const TierAttack> CallAttacks() { return kAttacks; }

}  // namespace warpline::attack
