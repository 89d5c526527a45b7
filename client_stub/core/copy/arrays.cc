#include "client_stub/core/copy/arrays.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/tier/tier_watch.h"
#include "common/cuda/array_format.h"
#include "common/mutex.h"

namespace warpline::stub {
namespace {

using ArrayTable = HandleTable<Array, HandleKind::kArray, true>;
using MipmappedTable = HandleTable<Array, HandleKind::kMipmappedArray, true>;

// Names a part that was asked for.
struct PartKey {
  uint64_t whole;
  uint32_t what;  // The value of ArrayPart::what.
  uint32_t index;

  bool operator<(const PartKey& other) const {
    return std::tie(whole, what, index) < std::tie(other.whole, other.what, other.index);
  }
};

struct Tables {
  ArrayTable arrays;
  MipmappedTable mipmapped;
  Mutex mu;
  std::map<PartKey, uint64_t> parts ABSL_GUARDED_BY(mu);
};

Tables& tables() {
  static Tables* const made = new Tables;
  return *made;
}

constexpr uint32_t kLevel = 0;
constexpr uint32_t kPlane = 1;

template <typename Reply>
bool TakeShape(const std::string& reply, CUDA_ARRAY3D_DESCRIPTOR* shape, unsigned int* levels) {
  std::string_view rest = reply;
  Reply fields;
  if (!TakeStruct(&rest, &fields)) return false;
  shape->Width = fields.width;
  shape->Height = fields.height;
  shape->Depth = fields.depth;
  shape->Format = static_cast<CUarray_format>(fields.format);
  shape->NumChannels = fields.channels;
  shape->Flags = fields.flags;
  *levels = fields.levels;
  return true;
}

template <typename Table>
CUresult Create(Table* table, Context* context, CUDA_ARRAY3D_DESCRIPTOR shape, unsigned int levels,
                uint64_t* handle) {
  // The application would map the memory of these arrays itself.
  if ((shape.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  Commands& commands = *runtime().commands;
  const uint64_t wire = runtime().NewNumber(*context->device);
  const cmd::ArrayCreate command = {wire,
                                    shape.Width,
                                    shape.Height,
                                    shape.Depth,
                                    static_cast<uint32_t>(shape.Format),
                                    shape.NumChannels,
                                    shape.Flags,
                                    levels};
  std::string reply;
  const CudaResult made = commands.Call(WaitKind::kRoundTrip, command, {}, &reply);
  if (runtime().tier_watch != nullptr) runtime().tier_watch->OnCall(made, "arrays");
  CUresult result = ToCu(made);
  if (result == CUDA_SUCCESS && !TakeShape<cmd::ArrayCreateReply>(reply, &shape, &levels)) {
    result = CUDA_ERROR_UNKNOWN;
  }
  *handle = 0;
  const uint64_t charged_bytes = ArrayChargedBytes({shape.Width, shape.Height, shape.Depth,
                                                    static_cast<uint32_t>(shape.Format),
                                                    shape.NumChannels, shape.Flags, levels});
  if (result == CUDA_SUCCESS) {
    *handle = table->Add([&](Array& array, uint64_t) {
      array.wire = wire;
      array.shape = shape;
      array.levels = levels;
      array.charged_bytes = charged_bytes;
      array.context = context;
      array.whole = 0;
    });
    if (*handle == 0) result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result != CUDA_SUCCESS) {
    commands.Send(cmd::ArrayDestroy{wire});
    return result;
  }
  context->device->allocator->Charge(charged_bytes);
  return CUDA_SUCCESS;
}

void ForgetParts(uint64_t whole) {
  std::vector<uint64_t> parts;
  {
    MutexLock lock(&tables().mu);
    auto it = tables().parts.lower_bound({whole, 0, 0});
    while (it != tables().parts.end() && it->first.whole == whole) {
      parts.push_back(it->second);
      it = tables().parts.erase(it);
    }
  }
  for (const uint64_t part : parts) tables().arrays.Remove(part, [](Array&) {});
}

template <typename Table>
CUresult Destroy(Table* table, uint64_t handle) {
  const Array* const array = table->Find(handle);
  // A part ends with the whole.
  if (array == nullptr || array->whole != 0) return CUDA_ERROR_INVALID_HANDLE;
  uint64_t wire = 0, charged_bytes = 0;
  const auto take = [&](const Array& removed) {
    wire = removed.wire;
    charged_bytes = removed.charged_bytes;
  };
  if (!table->Remove(handle, take)) return CUDA_ERROR_INVALID_HANDLE;
  runtime().devices[DeviceOfHandle(wire)].allocator->Discharge(charged_bytes);
  ForgetParts(handle);
  return SentAs(runtime().commands->Send(cmd::ArrayDestroy{wire}));
}

CUresult GetPart(const Array& whole, const PartKey& key, CUarray* part) {
  // Held across the round trip, so that each part has one handle.
  MutexLock lock(&tables().mu);
  if (const auto it = tables().parts.find(key); it != tables().parts.end()) {
    *part = HandleOf<CUarray>(it->second);
    return CUDA_SUCCESS;
  }
  const uint64_t wire = runtime().NewNumber(*whole.context->device);
  std::string reply;
  WARPLINE_TRY(ToCu(runtime().commands->Call(
      WaitKind::kRoundTrip, cmd::ArrayPart{wire, whole.wire, key.index, key.what}, {}, &reply)));
  CUDA_ARRAY3D_DESCRIPTOR shape;
  unsigned int levels;
  if (!TakeShape<cmd::ArrayPartReply>(reply, &shape, &levels)) return CUDA_ERROR_UNKNOWN;
  const uint64_t handle = tables().arrays.Add([&](Array& array, uint64_t) {
    array.wire = wire;
    array.shape = shape;
    array.levels = 0;
    array.context = whole.context;
    array.whole = key.whole;
    array.charged_bytes = 0;
  });
  if (handle == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  tables().parts[key] = handle;
  *part = HandleOf<CUarray>(handle);
  return CUDA_SUCCESS;
}

template <typename Table>
void DestroyAllOf(Table* table, const Context* context) {
  table->ForEach([&](const Array& array, uint64_t handle) {
    if (array.context == context && array.whole == 0) Destroy(table, handle);
    return true;
  });
}

}  // namespace

uint64_t Array::element_bytes() const {
  return ArrayElementBytes(static_cast<uint32_t>(shape.Format), shape.NumChannels);
}

Array* FindArray(CUarray handle) { return tables().arrays.Find(NumberOf(handle)); }
Array* FindMipmappedArray(CUmipmappedArray handle) {
  return tables().mipmapped.Find(NumberOf(handle));
}

CUresult CreateArray(Context* context, const CUDA_ARRAY3D_DESCRIPTOR& shape, CUarray* array) {
  uint64_t handle;
  WARPLINE_TRY(Create(&tables().arrays, context, shape, 0, &handle));
  *array = HandleOf<CUarray>(handle);
  return CUDA_SUCCESS;
}

CUresult CreateMipmappedArray(Context* context, const CUDA_ARRAY3D_DESCRIPTOR& shape,
                              unsigned int levels, CUmipmappedArray* array) {
  uint64_t handle;
  // CUDA raises 0 levels to 1, too.
  WARPLINE_TRY(Create(&tables().mipmapped, context, shape, levels == 0 ? 1 : levels, &handle));
  *array = HandleOf<CUmipmappedArray>(handle);
  return CUDA_SUCCESS;
}

CUresult GetLevel(CUmipmappedArray handle, unsigned int level, CUarray* part) {
  const Array* const whole = FindMipmappedArray(handle);
  if (whole == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (level >= whole->levels) return CUDA_ERROR_INVALID_VALUE;
  return GetPart(*whole, {NumberOf(handle), kLevel, level}, part);
}

CUresult GetPlane(CUarray handle, unsigned int plane, CUarray* part) {
  const Array* const whole = FindArray(handle);
  if (whole == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (whole->whole != 0) return CUDA_ERROR_INVALID_VALUE;
  return GetPart(*whole, {NumberOf(handle), kPlane, plane}, part);
}

CUresult DestroyArray(CUarray handle) { return Destroy(&tables().arrays, NumberOf(handle)); }
CUresult DestroyMipmappedArray(CUmipmappedArray handle) {
  return Destroy(&tables().mipmapped, NumberOf(handle));
}

void DestroyArraysOf(const Context* context) {
  DestroyAllOf(&tables().arrays, context);
  DestroyAllOf(&tables().mipmapped, context);
}

}  // namespace warpline::stub
