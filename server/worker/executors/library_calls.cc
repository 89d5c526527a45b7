#include "server/worker/executors/library_calls.h"

#include <algorithm>
#include <cstring>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"

namespace warpline::worker {
namespace {

uint64_t Estimate(const LibraryCall& call, device::Context* context) {
  device::LibraryCost cost;
  cost.work = call.work;
  cost.bytes = call.traffic;
  cost.batches = call.batches;
  cost.blocks = call.blocks;
  cost.number_bytes = call.numbers == LibraryNumbers::kHalf     ? 2
                      : call.numbers == LibraryNumbers::kSingle ? 4
                                                                : 8;
  return context->LibraryMicroseconds(cost);
}

}  // namespace

bool LibraryBudget::Take(uint64_t microseconds) {
  uint64_t under_way = under_way_.load();
  do {
    if (under_way != 0 && under_way + microseconds > kMostUnderWay) return false;
  } while (!under_way_.compare_exchange_weak(under_way, under_way + microseconds));
  return true;
}

CudaResult LibraryCallIssue::Read(const cmd::LibraryCall& command, std::string_view tail,
                                  device::Context* context) {
  function_ = FindLibraryFunction(command.function);
  if (function_ == nullptr) return CudaResult::kNotSupported;
  if (tail.size() % sizeof(uint64_t) != 0 || tail.size() > sizeof(values_)) {
    return CudaResult::kInvalidValue;
  }
  std::memcpy(values_.data(), tail.data(), tail.size());
  const CudaResult read = ReadLibraryCall(*function_, command.modes,
                                          {values_.data(), tail.size() / sizeof(uint64_t)}, &call_);
  if (read != CudaResult::kSuccess) return read;
  const uint64_t whole = Estimate(call_, context);
  part_microseconds_ = whole;
  units_ = units_of_part_ = 1;
  next_unit_ = 0;
  if (whole <= kMostOfPart) return CudaResult::kSuccess;
  // Takes too long, and cannot be made in parts that do not.
  if (call_.divide_slot == LibraryCall::kNoSlot) return CudaResult::kNotSupported;
  units_ = values_[call_.divide_slot];
  units_of_part_ = units_ / (whole / kMostOfPart + 1);
  // Operands of later parts stay as aligned as the kernels for small types want them.
  if (!StaysAligned()) {
    const uint64_t align = units_of_part_ >= 64 ? 64 : units_of_part_ >= 8 ? 8 : 1;
    if (align == 1 && call_.numbers == LibraryNumbers::kHalf) return CudaResult::kNotSupported;
    units_of_part_ -= units_of_part_ % align;
  }
  if (units_of_part_ == 0) return CudaResult::kNotSupported;
  // Each part reads anew what is not divided.
  std::array<uint64_t, kMostLibraryValues> values;
  LibraryCall first;
  const CudaResult divided = ReadPart(command.modes, {values.data(), function_->values}, &first);
  if (divided != CudaResult::kSuccess) return divided;
  part_microseconds_ = Estimate(first, context);
  return part_microseconds_ <= 2 * kMostOfPart ? CudaResult::kSuccess : CudaResult::kNotSupported;
}

bool LibraryCallIssue::StaysAligned() const {
  constexpr uint64_t kMostAligned = 16;
  return absl::c_all_of(call_.advances, [this](const LibraryCall::Advance& advance) {
    return function_->kinds[advance.slot] == 'p' || advance.bytes % kMostAligned == 0;
  });
}

CudaResult LibraryCallIssue::ReadPart(uint32_t modes, absl::Span<uint64_t> values,
                                      LibraryCall* part) const {
  DivideLibraryCall(call_, {values_.data(), values.size()}, next_unit_,
                    std::min(units_of_part_, units_ - next_unit_), values);
  return ReadLibraryCall(*function_, modes, values, part);
}

void LibraryCallIssue::Watch(absl::FunctionRef<void(const Work& work)> watch) {
  if (gathered_.microseconds > 0 || gathered_.launches > 0) watch(gathered_);
  gathered_ = {};
}

CudaResult LibraryCallIssue::IssueRead(const cmd::LibraryCall& command, const LibraryCall& call,
                                       absl::Span<const uint64_t> values, device::Context* context,
                                       device::StreamId stream, device::CodePayer* payer) {
  absl::InlinedVector<device::LibraryRequest::Operand, 6> operands;
  for (const LibraryOperand& operand : call.operands) {
    operands.push_back({operand.slot, operand.bytes, operand.use != OperandUse::kRead});
  }
  absl::InlinedVector<device::LibraryRequest::Addresses, 3> addresses;
  for (const LibraryAddresses& a : call.addresses) {
    addresses.push_back({a.slot, a.count, a.bytes, a.align, a.use != OperandUse::kRead});
  }
  const auto take = [payer](uint64_t bytes) { return payer->TakeCode(bytes); };
  const auto give = [payer](uint64_t bytes) { payer->GiveCode(bytes); };
  uint32_t launches = 0;
  const CudaResult result = context->CallLibrary(
      {command.function, command.modes, values, operands, addresses, take, give}, stream,
      &launches);
  gathered_.launches += launches;
  *launches_ += launches;
  return result;
}

LibraryCallIssue::Step LibraryCallIssue::Issue(const cmd::LibraryCall& command,
                                               std::string_view tail, device::Context* context,
                                               device::StreamId stream, device::CodePayer* payer,
                                               absl::FunctionRef<void(const Work&)> watch) {
  if (reading_) {
    const CudaResult read = Read(command, tail, context);
    if (read != CudaResult::kSuccess) return End(read);
    reading_ = false;
  }
  const uint32_t count = function_->values;
  while (next_unit_ < units_) {
    if (*launches_ >= kMostLaunches || !budget_->Take(part_microseconds_)) {
      Watch(watch);
      return Step::kBlocked;
    }
    gathered_.microseconds += part_microseconds_;
    CudaResult result;
    if (units_of_part_ == units_) {
      result = IssueRead(command, call_, {values_.data(), count}, context, stream, payer);
    } else {
      std::array<uint64_t, kMostLibraryValues> values;
      LibraryCall part;
      result = ReadPart(command.modes, {values.data(), count}, &part);
      if (result == CudaResult::kSuccess) {
        result = IssueRead(command, part, {values.data(), count}, context, stream, payer);
      }
    }
    // A call that may have a fault is watched by itself, so that a wait behind it hears of that.
    if (gathered_.microseconds >= kLeastWatched || gathered_.launches >= kFewLaunches ||
        !call_.addresses.empty()) {
      Watch(watch);
    }
    if (result != CudaResult::kSuccess) return End(result);
    next_unit_ += units_of_part_;
  }
  return End(CudaResult::kSuccess);
}

}  // namespace warpline::worker
