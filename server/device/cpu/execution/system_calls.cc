#include "server/device/cpu/execution/system_calls.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/cuda/print_format.h"
#include "server/device/cpu/execution/block.h"
#include "server/device/cpu/execution/lane_addresses.h"
#include "server/device/cpu/execution/lane_registers.h"
#include "server/device/cpu/memory/device_heap.h"
#include "server/device/cpu/output/print_buffer.h"

namespace warpline::cpu {
namespace {

constexpr size_t kMaxString = 64 << 10;
// The bytes of a printf in CUDA's buffer, besides its arguments.
constexpr uint64_t kRecordBytes = 16;

// Reads the string at a generic address; returns false when it runs into memory that may not be
// read.
bool ReadString(const Block& block, const Warp& warp, int lane, uint64_t address,
                std::string* text) {
  text->clear();
  uint64_t host;
  for (; text->size() < kMaxString; ++address) {
    if (!ResolveGeneric(block, warp, lane, address, 1, false, &host)) return false;
    const char c = *reinterpret_cast<const volatile char*>(host);
    if (c == '\0') break;
    *text += c;
  }
  return true;
}

bool Illegal(Block& block, const Op& op, const char* what) {
  return block.Fault(CudaResult::kIllegalAddress, op, what);
}

bool Print(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask) {
  uint64_t known = 0;
  std::string format;
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int i = __builtin_ctz(m);
    const uint64_t address = Lane<uint64_t>(regs, op.r[1], i);
    const uint64_t arguments = Lane<uint64_t>(regs, op.r[2], i);
    if (address == 0) {
      SetLane(regs, op.r[0], i, int32_t{-1});
      continue;
    }
    if (address != known && !ReadString(block, warp, i, address, &format)) {
      return Illegal(block, op, "format of printf");
    }
    known = address;
    const auto argument = [&](uint64_t offset, uint32_t bytes, uint64_t* value) {
      uint64_t host;
      if (!ResolveGeneric(block, warp, i, arguments + offset, bytes, false, &host)) return false;
      *value = 0;
      std::memcpy(value, reinterpret_cast<const void*>(host), bytes);
      return true;
    };
    const auto string = [&](uint64_t at, std::string* text) {
      return ReadString(block, warp, i, at, text);
    };
    std::string text;
    int used = 0;
    if (!FormatPrint(format, {argument, string}, &text, &used)) {
      return Illegal(block, op, "argument of printf");
    }
    if (PrintBuffer* const output = block.shape().output) {
      output->Append(1, std::move(text), kRecordBytes + 8 * static_cast<uint64_t>(used));
    }
    SetLane(regs, op.r[0], i, int32_t{used});
  }
  return true;
}

// The arguments are message, file, line, function, and the size of a character.
bool Assert(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask) {
  const auto& threads = block.shape().block;
  const auto& index = block.index();
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int i = __builtin_ctz(m);
    std::string message, file, function;
    if (!ReadString(block, warp, i, Lane<uint64_t>(regs, op.r[1], i), &message) ||
        !ReadString(block, warp, i, Lane<uint64_t>(regs, op.r[2], i), &file) ||
        !ReadString(block, warp, i, Lane<uint64_t>(regs, op.r[4], i), &function)) {
      return Illegal(block, op, "text of assert");
    }
    const uint32_t thread = warp.index * kLanes + static_cast<uint32_t>(i);
    std::string line =
        absl::StrCat(file, ":", Lane<uint32_t>(regs, op.r[3], i), ": ", function, ": block: [",
                     index[0], ",", index[1], ",", index[2], "], thread: [", thread % threads[0],
                     ",", thread / threads[0] % threads[1], ",", thread / threads[0] / threads[1],
                     "] Assertion `", message, "` failed.\n");
    const uint64_t bytes = line.size();
    if (PrintBuffer* const output = block.shape().output) {
      output->Append(2, std::move(line), bytes);
    }
  }
  return block.Fault(CudaResult::kAssert, op, "assertion failed");
}

bool Malloc(Block& block, Warp&, uint8_t* regs, const Op& op, uint32_t mask) {
  DeviceHeap* const heap = block.shape().heap;
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int i = __builtin_ctz(m);
    const uint64_t bytes = Lane<uint64_t>(regs, op.r[1], i);
    SetLane(regs, op.r[0], i, heap == nullptr ? uint64_t{0} : heap->Allocate(bytes));
  }
  return true;
}

bool Free(Block& block, Warp&, uint8_t* regs, const Op& op, uint32_t mask) {
  DeviceHeap* const heap = block.shape().heap;
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int i = __builtin_ctz(m);
    const uint64_t address = Lane<uint64_t>(regs, op.r[1], i);
    if (address != 0 && (heap == nullptr || !heap->Free(address))) {
      return Illegal(block, op, "free of what is not allocated");
    }
  }
  return true;
}

constexpr SystemCall kCalls[] = {
    {"vprintf", "ill", Print},
    {"__assertfail", "vllill", Assert},
    {"malloc", "ll", Malloc},
    {"free", "vl", Free},
};

}  // namespace

const SystemCall* FindSystemCall(std::string_view name) {
  for (const SystemCall& call : kCalls) {
    if (name == call.name) return &call;
  }
  return nullptr;
}

}  // namespace warpline::cpu
