// The copies to and from arrays.
#include <algorithm>
#include <functional>

#include "common/cuda/array_format.h"
#include "common/cuda/box.h"
#include "server/worker/executors/stream_executor.h"

namespace warpline::worker {
namespace {

using device::ArrayEnd;

ArrayEnd InArray(const Array& array, uint64_t x, uint64_t y, uint64_t z) {
  ArrayEnd end;
  end.kind = ArrayEnd::Kind::kArray;
  end.array = array.id;
  end.device = array.device;
  end.x = x;
  end.y = y;
  end.z = z;
  return end;
}

ArrayEnd OnDevice(const BoxPlace& place) {
  ArrayEnd end;
  end.kind = ArrayEnd::Kind::kDevice;
  end.place = place;
  return end;
}

ArrayEnd OnHost(void* host) {
  ArrayEnd end;
  end.host = host;
  return end;
}

// Whether `extent` elements at `at` lie within `whole`; 0 of a dimension that an array does not
// have stands for 1.
bool Fits(uint64_t at, uint64_t extent, uint64_t whole) {
  whole = std::max<uint64_t>(whole, 1);
  return at <= whole && extent <= whole - at;
}

// Whether a box, whose `x` and width are bytes, lies in the array. What the device makes of formats
// whose elements have no size of their own is up to it.
bool InBounds(const Array& array, uint64_t x, uint64_t y, uint64_t z, const BoxExtent& extent) {
  const device::ArrayShape& shape = array.shape;
  const uint64_t element = ArrayElementBytes(shape.format, shape.channels);
  if (element == 0) return true;
  uint64_t row;
  return !__builtin_mul_overflow(std::max<uint64_t>(shape.width, 1), element, &row) &&
         Fits(x, extent.width, row) && Fits(y, extent.height, shape.height) &&
         Fits(z, extent.depth, shape.depth);
}

// The array's result, or kInvalidValue for a box that leaves the array.
CudaResult CheckBox(const Array& array, uint64_t x, uint64_t y, uint64_t z,
                    const BoxExtent& extent) {
  if (array.result != CudaResult::kSuccess) return array.result;
  return InBounds(array, x, y, z, extent) ? CudaResult::kSuccess : CudaResult::kInvalidValue;
}

// Whether the extent is that of a box without gaps.
bool IsExtent(const BoxExtent& extent) {
  uint64_t slice, span;
  return !__builtin_mul_overflow(extent.width, extent.height, &slice) &&
         BoxSpan({0, extent.width, slice}, extent, &span);
}

}  // namespace

Executor::Step StreamExecutor::Do(const cmd::CopyToArray& command, Task& task) {
  const BoxExtent extent = {command.width, command.height, command.depth};
  CudaResult result = CheckBox(*task.array, command.x, command.y, command.z, extent);
  if (result == CudaResult::kSuccess && (!IsExtent(extent) || extent.bytes() != task.tail.size() ||
                                         task.tail.size() > kStagingBytes)) {
    result = CudaResult::kInvalidValue;
  }
  if (result != CudaResult::kSuccess) {
    Check(task, result);
    return Step::kDone;
  }
  return CopyInBy(task, [&, stream = device_stream_](void* buffer) {
    return context_->CopyArray(InArray(*task.array, command.x, command.y, command.z),
                               OnHost(buffer), extent, stream);
  });
}

Executor::Step StreamExecutor::Do(const cmd::CopyFromArray& command, Task& task) {
  const BoxExtent extent = {command.width, command.height, command.depth};
  CudaResult result = CheckBox(*task.array, command.x, command.y, command.z, extent);
  if (result == CudaResult::kSuccess && !IsExtent(extent)) result = CudaResult::kInvalidValue;
  if (result != CudaResult::kSuccess) {
    AnswerInOrder(task, result);
    return Step::kDone;
  }
  return CopyOutBy(task, extent.bytes(),
                   [&, stream = device_stream_](void* buffer, uint64_t offset, size_t* bytes) {
                     const BoxPart part = PartOfBox(extent, offset, kStagingBytes);
                     *bytes = part.extent.bytes();
                     const ArrayEnd from = InArray(*task.array, command.x + part.x,
                                                   command.y + part.y, command.z + part.z);
                     return context_->CopyArray(OnHost(buffer), from, part.extent, stream);
                   });
}

Executor::Step StreamExecutor::Do(const cmd::CopyDeviceToArray& command, Task& task) {
  const BoxExtent extent = {command.width, command.height, command.depth};
  CudaResult result = CheckBox(*task.array, command.x, command.y, command.z, extent);
  if (result == CudaResult::kSuccess) {
    result = context_->CopyArray(InArray(*task.array, command.x, command.y, command.z),
                                 OnDevice({command.src, command.src_pitch, command.src_slice}),
                                 extent, device_stream_);
  }
  Check(task, result);
  return Step::kDone;
}

Executor::Step StreamExecutor::Do(const cmd::CopyArrayToDevice& command, Task& task) {
  const BoxExtent extent = {command.width, command.height, command.depth};
  CudaResult result = CheckBox(*task.array, command.x, command.y, command.z, extent);
  if (result == CudaResult::kSuccess) {
    result = context_->CopyArray(OnDevice({command.dst, command.dst_pitch, command.dst_slice}),
                                 InArray(*task.array, command.x, command.y, command.z), extent,
                                 device_stream_);
  }
  Check(task, result);
  return Step::kDone;
}

Executor::Step StreamExecutor::Do(const cmd::CopyArrayToArray& command, Task& task) {
  const BoxExtent extent = {command.width, command.height, command.depth};
  CudaResult result = CheckBox(*task.array, command.to_x, command.to_y, command.to_z, extent);
  if (result == CudaResult::kSuccess) {
    result = CheckBox(*task.second_array, command.from_x, command.from_y, command.from_z, extent);
  }
  if (result == CudaResult::kSuccess) {
    result = context_->CopyArray(
        InArray(*task.array, command.to_x, command.to_y, command.to_z),
        InArray(*task.second_array, command.from_x, command.from_y, command.from_z), extent,
        device_stream_);
  }
  Check(task, result);
  return Step::kDone;
}

}  // namespace warpline::worker
