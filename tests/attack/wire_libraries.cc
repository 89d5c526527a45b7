// Calls of libraries' functions with memory that the session does not have, and with arguments that
// NVIDIA's code should not see in a process that tenants share. A row for each function tries each
// of its operands; the call is made with the session's own memory first, which must work.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/cuda/cuda_numbers.h"
#include "proto/adapters/blas_types.h"
#include "proto/adapters/cublas_slots.h"
#include "proto/adapters/library_call.h"
#include "proto/adapters/lt_operands.h"
#include "proto/adapters/lt_types.h"
#include "proto/frames.h"
#include "proto/graph_definition.h"
#include "tests/attack/wire.h"
#include "tests/attack/wire_session.h"

namespace warpline::attack {
namespace {

constexpr uint64_t kStream = kLegacyStreamHandle;
constexpr int kNotSupported = 801;  // CUDA_ERROR_NOT_SUPPORTED
constexpr size_t kFunctions = 139;
constexpr uint64_t kApart = 8192;  // Between operands.
constexpr uint32_t kSgemm = 1;
constexpr uint32_t kSgemmBatched = 78;
// The addresses in operands lead there.
constexpr uint64_t kProducts = 4;
constexpr uint64_t kPieces = kOwn + 32 * kApart;

std::string_view TailOf(const std::vector<uint64_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])};
}

// Values of a small call whose operands lie in the session's own memory.
std::vector<uint64_t> GoodValues(const LibraryFunction& function) {
  std::vector<uint64_t> values;
  uint64_t memory = kOwn;
  for (const char kind : function.kinds) {
    switch (kind) {
      case 'i':
        values.push_back(4);
        break;
      case 'l':
        values.push_back(64);
        break;
      case 'c':
        values.push_back(68);  // CUBLAS_COMPUTE_32F
        break;
      case 'm':
      case 'p':
      case 'r':
        values.push_back(memory);
        memory += kApart;
        break;
      default:
        // The first of an enumeration, CUDA_R_32F among them, and scalars of zero.
        values.push_back(0);
        break;
    }
  }
  return values;
}

// Makes a call of cublasLtMatmul() one of 8-bit floating point, in the form that devices have.
void UseFloat8(std::vector<uint64_t>* values) {
  for (const size_t slot : {kLtMatmulM, kLtMatmulN, kLtMatmulK, kLtMatmulLda, kLtMatmulLdb,
                            kLtMatmulLdc, kLtMatmulLdd}) {
    (*values)[slot] = 16;
  }
  (*values)[kLtMatmulBatchCount] = (*values)[kLtMatmulTransa] = 1;
  (*values)[kLtMatmulAtype] = (*values)[kLtMatmulBtype] = (*values)[kLtMatmulDtype] = kE4m3;
  (*values)[kLtMatmulCtype] = kBrain16;
}

// Makes it one of complex matrices in two planes.
void UsePlanes(std::vector<uint64_t>* values) {
  (*values)[kLtMatmulPlanes] = 1;
  for (const size_t slot : {kLtMatmulAtype, kLtMatmulBtype, kLtMatmulCtype, kLtMatmulDtype}) {
    (*values)[slot] = kReal16;
  }
}

// Has a call of cublasLtMatmul() use the operand in the slot.
void UseOperand(const LibraryFunction& function, size_t slot, std::vector<uint64_t>* values) {
  if (function.number != kLtMatmulNumber) return;
  uint64_t& epilogue = (*values)[kLtMatmulEpilogue];
  switch (slot) {
    case kLtMatmulBias:
      epilogue = kLtBias;
      break;
    case kLtMatmulGradient:
      epilogue = kLtSumsOfA;
      break;
    case kLtMatmulMaskRead:
      epilogue = kLtReluGradient | kLtAuxiliary;
      break;
    case kLtMatmulMaskWritten:
      epilogue = kLtRelu | kLtAuxiliary;
      break;
    case kLtMatmulAuxRead:
      epilogue = kLtGeluGradient | kLtAuxiliary;
      break;
    case kLtMatmulAuxWritten:
      epilogue = kLtGelu | kLtAuxiliary;
      break;
    case kLtMatmulImagA:
    case kLtMatmulImagB:
    case kLtMatmulImagC:
    case kLtMatmulImagD:
      UsePlanes(values);
      break;
    case kLtMatmulScaleA:
    case kLtMatmulScaleB:
      UseFloat8(values);
      (*values)[kLtMatmulScalingA] = (*values)[kLtMatmulScalingB] = kLtScaleOuter;
      break;
    case kLtMatmulScaleD:
      UseFloat8(values);
      (*values)[slot - 1] = kLtScaleOne;
      break;
    case kLtMatmulLargestD:
      UseFloat8(values);
      (*values)[kLtMatmulLargest] = 1;
      break;
    case kLtMatmulArrayA:
    case kLtMatmulArrayB:
    case kLtMatmulArrayC:
    case kLtMatmulArrayD:
      (*values)[kLtMatmulArrays] = 1;
      break;
    default:
      break;
  }
}

absl::StatusOr<int> Call(WireSession* session, uint32_t function,
                         const std::vector<uint64_t>& values, uint32_t modes = 0) {
  return session->Do(cmd::LibraryCall{kStream, function, modes}, TailOf(values));
}

bool IsAddress(char kind) { return kind == 'm' || kind == 'p' || kind == 'r'; }

bool HasAddresses(const LibraryFunction& function) {
  return function.kinds.find('p') != std::string_view::npos;
}

// Fills the arrays of addresses of such a call. The array in `slot` gets `address` as its last one
// instead of one of the session's own.
absl::StatusOr<int> FillArrays(WireSession* session, const LibraryFunction& function,
                               size_t slot = std::string_view::npos, uint64_t address = 0) {
  const std::vector<uint64_t> values = GoodValues(function);
  absl::StatusOr<int> done = 0;
  for (size_t i = 0; i < function.kinds.size() && done.ok() && *done == 0; ++i) {
    if (function.kinds[i] != 'p') continue;
    std::vector<uint64_t> array(kProducts);
    for (uint64_t j = 0; j < kProducts; ++j) array[j] = kPieces + (i * kProducts + j) * kApart;
    if (i == slot) array.back() = address;
    done = session->Do(cmd::CopyToDevice{kStream, values[i]}, TailOf(array));
  }
  return done;
}

// Addresses outside the session's arena. With `and_crossing` there is one more, from which all but
// the smallest operands reach beyond its end.
std::vector<uint64_t> Foreign(const WireTarget& target, bool and_crossing) {
  std::vector<uint64_t> addresses = target.foreign;
  for (uint64_t& address : addresses) address &= ~uint64_t{15};
  if (and_crossing) addresses.push_back(kArena + kArenaBytes - 16);
  addresses.insert(addresses.end(),
                   {0, 0x555555554000, 0x7ffff7d00000, 0x7ffffffde000, kHostArenaBase, kArena - 16,
                    kArena + kArenaBytes, ~uint64_t{0} - 15});
  return addresses;
}

// One session after the other: some errors are a session's last.
class Sessions {
 public:
  explicit Sessions(const WireTarget& target) : target_(target) {}

  // A session in which calls of the function work. Otherwise `why` says what is to be reported.
  WireSession* Next(const LibraryFunction& function, WireResult* why) {
    if (session_ != nullptr && Works(function, why)) return session_.get();
    session_.reset();
    auto opened = WireSession::Open(target_);
    if (!opened.ok()) {
      *why = Unprepared(opened.status());
      return nullptr;
    }
    session_ = *std::move(opened);
    return Works(function, why) ? session_.get() : nullptr;
  }

 private:
  bool Works(const LibraryFunction& function, WireResult* why) {
    auto good = FillArrays(session_.get(), function);
    if (good.ok() && *good == 0) {
      good = Call(session_.get(), function.number, GoodValues(function));
    }
    if (good.ok() && *good == 0) return true;
    if (!good.ok()) {
      *why = Unprepared(good.status());
    } else {
      *why = *good == kNotSupported ? NotHere("the device has no such function")
                                    : Unprepared(absl::StrCat("CUDA error ", *good));
    }
    return false;
  }

  const WireTarget& target_;
  std::unique_ptr<WireSession> session_;
};

// Tries calls that must all be refused: (values, modes, what).
struct Wrong {
  std::vector<uint64_t> values;
  uint32_t modes = 0;
  std::string what;
};

WireResult TryAll(const WireTarget& target, const LibraryFunction& function,
                  const std::vector<Wrong>& all) {
  Sessions sessions(target);
  for (const Wrong& wrong : all) {
    WireResult why;
    WireSession* const session = sessions.Next(function, &why);
    if (session == nullptr) return why;
    const WireResult judged =
        JudgeRefusal(Call(session, function.number, wrong.values, wrong.modes),
                     absl::StrCat(std::string(function.name), " with ", wrong.what));
    if (judged.outcome != WireOutcome::kStopped) return judged;
  }
  return Stopped(absl::StrCat("its own works, and ", all.size(), " others do not"));
}

// Slots, and the value that all of them get in one call.
using Changes = std::vector<std::pair<std::vector<size_t>, uint64_t>>;

WireResult TryChanges(const WireTarget& target, const LibraryFunction& function,
                      const Changes& changes) {
  std::vector<Wrong> all;
  for (const auto& [slots, value] : changes) {
    Wrong wrong = {GoodValues(function), 0, absl::StrCat("value ", slots[0], " of ", value)};
    for (const size_t slot : slots) wrong.values[slot] = value;
    all.push_back(std::move(wrong));
  }
  return TryAll(target, function, all);
}

// The second plane of an operand of cublasLtMatmul() moves with the first one: they keep their
// distance, and C's is D's.
void MovePlanes(const LibraryFunction& function, size_t slot, std::vector<uint64_t>* values) {
  if (function.number != kLtMatmulNumber) return;
  const auto is_result = [](size_t of) { return of == kLtMatmulImagC || of == kLtMatmulImagD; };
  for (const LtOperand& operand : kLtOperands) {
    if (slot != operand.plane && !(is_result(slot) && is_result(operand.plane))) continue;
    (*values)[operand.plane] = (*values)[slot];
    (*values)[operand.address] = (*values)[slot] - kApart;
  }
}

// Returns whether a good call touches so little there that it cannot cross the arena's end.
bool IsOneNumber(const LibraryFunction& function, size_t slot) {
  return function.kinds[slot] == 'r' || (function.number == kLtMatmulNumber &&
                                         (slot == kLtMatmulScaleD || slot == kLtMatmulLargestD));
}

// Each operand of a function elsewhere.
WireResult OperandsElsewhere(const WireTarget& target, const LibraryFunction& function) {
  std::vector<Wrong> all;
  for (size_t slot = 0; slot < function.kinds.size(); ++slot) {
    if (!IsAddress(function.kinds[slot])) continue;
    for (const uint64_t address : Foreign(target, !IsOneNumber(function, slot))) {
      Wrong wrong = {GoodValues(function), 0,
                     absl::StrCat("value ", slot, " at ", absl::Hex(address))};
      wrong.values[slot] = address;
      UseOperand(function, slot, &wrong.values);
      MovePlanes(function, slot, &wrong.values);
      all.push_back(std::move(wrong));
    }
  }
  return TryAll(target, function, all);
}

template <size_t kFunction>
WireResult Elsewhere(const WireTarget& target) {
  return OperandsElsewhere(target, AllLibraryFunctions()[kFunction]);
}

// The addresses in each array of a function lead elsewhere, or between two elements.
WireResult AddressesElsewhere(const WireTarget& target, const LibraryFunction& function) {
  Sessions sessions(target);
  int tried = 0;
  for (size_t slot = 0; slot < function.kinds.size(); ++slot) {
    if (function.kinds[slot] != 'p') continue;
    std::vector<uint64_t> addresses = Foreign(target, true);
    addresses.push_back(kPieces + 1);
    for (const uint64_t address : addresses) {
      WireResult why;
      WireSession* const session = sessions.Next(function, &why);
      if (session == nullptr) return why;
      const auto filled = FillArrays(session, function, slot, address);
      if (!filled.ok() || *filled != 0) return Unprepared("an array of addresses");
      std::vector<uint64_t> values = GoodValues(function);
      UseOperand(function, slot, &values);
      const WireResult judged =
          JudgeRefusal(Call(session, function.number, values),
                       absl::StrCat(std::string(function.name), " with an address of value ", slot,
                                    " at ", absl::Hex(address)));
      if (judged.outcome != WireOutcome::kStopped) return judged;
      ++tried;
    }
  }
  return Stopped(absl::StrCat("its own works, and ", tried, " others do not"));
}

template <size_t kFunction>
WireResult AddressesElsewhereOf(const WireTarget& target) {
  return AddressesElsewhere(target, AllLibraryFunctions()[kFunction]);
}

// Many products whose addresses are all right, and become others on another stream while the call
// runs. Neighbours notice what gets through.
WireResult AddressesThatChange(const WireTarget& target) {
  constexpr uint64_t kMany = 8192, kOther = 77, kNonBlocking = 1;
  constexpr uint64_t kArray = kPieces + 64 * kApart, kGood = kArray + 16 * kApart,
                     kBad = kGood + 16 * kApart;
  if (target.foreign.empty()) return NotHere("no other session in the process");
  const LibraryFunction& function = *FindLibraryFunction(kSgemmBatched);
  std::vector<uint64_t> values = GoodValues(function);
  values[7] = values[9] = kGood;
  values[13] = kArray;
  values[15] = kMany;
  Sessions sessions(target);
  int unnoticed = 0, noticed = 0;
  for (int i = 0; i < 60 * target.scale; ++i) {
    WireResult why;
    WireSession* const session = sessions.Next(function, &why);
    if (session == nullptr) return why;
    const std::vector<uint64_t> good(kMany, kPieces);
    const std::vector<uint64_t> bad(kMany, target.foreign[i % target.foreign.size()] & ~15ull);
    session->Add(cmd::StreamCreate{kOther, kNonBlocking, 0});
    for (const auto& [address, array] : {std::pair{kGood, &good}, {kArray, &good}, {kBad, &bad}}) {
      const auto copied = session->Do(cmd::CopyToDevice{kStream, address}, TailOf(*array));
      if (!copied.ok() || *copied != 0) return Unprepared("an array of addresses");
    }
    session->Add(cmd::LibraryCall{kStream, function.number, 0}, TailOf(values));
    session->Add(cmd::CopyOnDevice{kOther, kArray, kBad, kMany * sizeof(uint64_t)});
    const auto synced = session->Call(cmd::ContextSync{});
    (synced.ok() && *synced == 0 ? unnoticed : noticed) += 1;
    session->Add(cmd::StreamDestroy{kOther});
  }
  return Stopped(
      absl::StrCat(unnoticed, " calls had all of the old addresses, ", noticed, " were refused"));
}

// Dimensions that make the spans behind addresses larger than the arena, and too many addresses.
WireResult SizesBehindAddresses(const WireTarget& target) {
  const LibraryFunction& function = *FindLibraryFunction(kSgemmBatched);
  constexpr uint64_t kMost = (uint64_t{1} << 31) - 1;
  // Few elements, which are quick to compute and lie far beyond the arena.
  constexpr uint64_t kFar = 700'000'000;
  const Changes changes = {{{15}, kMost},
                           {{15}, 65537},
                           {{2, 8, 14}, 500'000'000},
                           {{14}, kFar},
                           {{8}, kFar},
                           {{10}, kFar},
                           {{14}, kMost},
                           {{8}, kMost},
                           {{10}, kMost},
                           {{4, 8, 10}, kMost},
                           {{3}, kMost},
                           {{15}, ~uint64_t{0}},
                           {{15}, uint64_t{1} << 40}};
  return TryChanges(target, function, changes);
}

// Scalars that a call reads from device memory.
WireResult ScalarsElsewhere(const WireTarget& target) {
  const LibraryFunction& function = *FindLibraryFunction(kSgemm);
  std::vector<Wrong> all;
  for (const size_t slot : {size_t{5}, size_t{11}}) {
    for (const uint64_t address : Foreign(target, false)) {
      Wrong wrong = {GoodValues(function), LibraryModes::kPointersToDevice,
                     absl::StrCat("a scalar at ", absl::Hex(address))};
      wrong.values[5] = wrong.values[11] = kOwn;
      wrong.values[slot] = address;
      all.push_back(std::move(wrong));
    }
  }
  return TryAll(target, function, all);
}

// Dimensions, leading dimensions and strides that reach beyond the session's memory, or whose
// product is small again.
WireResult SizesBeyondTheArena(const WireTarget& target) {
  const LibraryFunction& function = *FindLibraryFunction(5);  // cublasSgemmStridedBatched
  constexpr uint64_t kMost = (uint64_t{1} << 31) - 1;
  const Changes changes = {
      {{2, 8, 16}, kMost},
      {{3}, kMost},
      {{4, 8, 11}, kMost},
      {{8}, kMost},
      {{11}, kMost},
      {{16}, kMost},
      {{9}, uint64_t{1} << 40},
      {{12}, uint64_t{1} << 62},
      {{17}, uint64_t{1} << 61},
      {{9, 18}, kMost},
      {{17, 18}, kMost},
      {{12, 18}, kMost},
  };
  return TryChanges(target, function, changes);
}

// Arguments that the function itself documents as wrong.
WireResult ArgumentsOutOfRange(const WireTarget& target) {
  const LibraryFunction& function = *FindLibraryFunction(kSgemm);
  const std::vector<std::pair<size_t, int64_t>> changes = {{0, 3},
                                                           {0, -1},
                                                           {1, 1000},
                                                           {2, -1},
                                                           {3, -4},
                                                           {4, int64_t{1} << 31},
                                                           {8, 3},
                                                           {8, 0},
                                                           {10, -4},
                                                           {14, 1},
                                                           {2, int64_t{1} << 40},
                                                           {7, kOwn + 1},
                                                           {9, kOwn + 2},
                                                           {13, kOwn + 3}};
  std::vector<Wrong> all;
  for (const auto& [slot, value] : changes) {
    Wrong wrong = {GoodValues(function), 0, absl::StrCat("value ", slot, " of ", value)};
    wrong.values[slot] = static_cast<uint64_t>(value);
    all.push_back(std::move(wrong));
  }
  for (const uint32_t modes : {4u, 0x80000000u, 0x0400u, 0x2000u, 0xff00u}) {
    all.push_back({GoodValues(function), modes, absl::StrCat("modes ", absl::Hex(modes))});
  }
  for (const size_t count :
       {size_t{0}, size_t{1}, size_t{14}, size_t{16}, size_t{32}, size_t{33}, size_t{4096}}) {
    Wrong wrong = {GoodValues(function), 0, absl::StrCat(count, " values")};
    wrong.values.resize(count, 4);
    all.push_back(std::move(wrong));
  }
  return TryAll(target, function, all);
}

// Types that are not passed on, and such as do not go together.
WireResult TypesThatDoNotGoTogether(const WireTarget& target) {
  const LibraryFunction& function = *FindLibraryFunction(9);  // cublasGemmEx
  std::vector<Wrong> all;
  for (const uint64_t type : {2, 3, 6, 7, 8, 14, 28, 29, 33, 999, 1001}) {
    for (const size_t slot : {size_t{8}, size_t{11}, size_t{16}}) {
      Wrong wrong = {GoodValues(function), 0, absl::StrCat("value ", slot, " of ", type)};
      wrong.values[slot] = type;
      all.push_back(std::move(wrong));
    }
  }
  for (const uint64_t compute : {0, 64, 66, 67, 70, 72, 78, 79, 1000}) {
    Wrong wrong = {GoodValues(function), 0, absl::StrCat("compute type ", compute)};
    wrong.values[18] = compute;
    all.push_back(std::move(wrong));
  }
  for (const int64_t algorithm : {-2, 24, 98, 116, 1 << 30}) {
    Wrong wrong = {GoodValues(function), 0, absl::StrCat("algorithm ", algorithm)};
    wrong.values[19] = static_cast<uint64_t>(algorithm);
    all.push_back(std::move(wrong));
  }
  return TryAll(target, function, all);
}

// Sizes of cublasLtMatmul() that reach beyond the session's memory: of matrices in both orders, of
// batches, and of what an epilogue uses.
WireResult LtSizesBeyondTheArena(const WireTarget& target) {
  const LibraryFunction& function = *FindLibraryFunction(kLtMatmulNumber);
  constexpr uint64_t kMost = (uint64_t{1} << 31) - 1, kFar = uint64_t{1} << 40;
  struct Change {
    std::vector<size_t> slots;
    uint64_t value;
    std::vector<std::pair<size_t, uint64_t>> also;
  };
  const std::vector<Change> changes = {
      {{kLtMatmulLda}, kMost, {}},
      {{kLtMatmulLdb}, kMost, {}},
      {{kLtMatmulLdc, kLtMatmulLdd, kLtMatmulStrideC, kLtMatmulStrideD}, kMost, {}},
      {{kLtMatmulLdc}, 5, {}},
      {{kLtMatmulLdd}, 5, {}},
      {{kLtMatmulM, kLtMatmulLda, kLtMatmulLdc, kLtMatmulLdd, kLtMatmulStrideC, kLtMatmulStrideD},
       kMost,
       {}},
      {{kLtMatmulN}, kMost, {{kLtMatmulStrideC, kFar}, {kLtMatmulStrideD, kFar}}},
      {{kLtMatmulK, kLtMatmulLdb}, kMost, {}},
      {{kLtMatmulM},
       kMost,
       {{kLtMatmulOrderA, 1},
        {kLtMatmulOrderC, 1},
        {kLtMatmulOrderD, 1},
        {kLtMatmulStrideD, kFar}}},
      {{kLtMatmulStrideA}, kFar, {}},
      {{kLtMatmulStrideB}, kFar, {}},
      {{kLtMatmulStrideC, kLtMatmulStrideD}, kFar, {}},
      {{kLtMatmulStrideC}, 65, {}},
      {{kLtMatmulStrideD}, 65, {}},
      {{kLtMatmulStrideA}, uint64_t{1} << 62, {}},
      {{kLtMatmulStrideD}, ~uint64_t{0}, {}},
      {{kLtMatmulBatchCount}, kMost, {}},
      {{kLtMatmulStrideBias}, kFar, {{kLtMatmulEpilogue, kLtBias}}},
      {{kLtMatmulStrideBias}, kFar, {{kLtMatmulEpilogue, kLtSumsOfB}}},
      {{kLtMatmulLdaux}, kMost, {{kLtMatmulEpilogue, kLtRelu | kLtAuxiliary}}},
      {{kLtMatmulLdaux}, kMost, {{kLtMatmulEpilogue, kLtGelu | kLtAuxiliary}}},
      {{kLtMatmulStrideAux}, kFar, {{kLtMatmulEpilogue, kLtReluGradient | kLtAuxiliary}}},
      {{kLtMatmulStrideAux}, kFar, {{kLtMatmulEpilogue, kLtGeluGradient | kLtAuxiliary}}},
      {{kLtMatmulStrideAux}, uint64_t{1} << 60, {{kLtMatmulEpilogue, kLtRelu | kLtAuxiliary}}},
      {{kLtMatmulLdaux}, 0, {{kLtMatmulEpilogue, kLtRelu | kLtAuxiliary}}},
      {{kLtMatmulLdaux}, 0, {{kLtMatmulEpilogue, kLtGelu | kLtAuxiliary}}},
  };
  std::vector<Wrong> all;
  for (const Change& change : changes) {
    Wrong wrong = {GoodValues(function), 0,
                   absl::StrCat("value ", change.slots[0], " of ", change.value)};
    for (const size_t slot : change.slots) wrong.values[slot] = change.value;
    for (const auto& [slot, value] : change.also) wrong.values[slot] = value;
    all.push_back(std::move(wrong));
  }
  return TryAll(target, function, all);
}

// A random product of 8-bit floating point, with random scales.
void MakeFloat8(std::mt19937_64* random, std::vector<uint64_t>* values) {
  std::vector<uint64_t>& v = *values;
  UseFloat8(values);
  const auto below = [&](uint64_t bound) { return (*random)() % bound; };
  for (const size_t slot : {kLtMatmulM, kLtMatmulN, kLtMatmulK}) v[slot] = 16 * (1 + below(12));
  v[kLtMatmulLda] = v[kLtMatmulLdb] = v[kLtMatmulK];
  v[kLtMatmulLdc] = v[kLtMatmulLdd] = v[kLtMatmulM];
  v[kLtMatmulTransb] = 0;
  v[kLtMatmulOrderA] = v[kLtMatmulOrderB] = v[kLtMatmulEpilogue] = 0;
  v[kLtMatmulComputeType] = 68;
  constexpr uint64_t kPairs[][2] = {
      {kLtScaleNone, kLtScaleNone},     {kLtScaleOne, kLtScaleNone},
      {kLtScaleOne, kLtScaleOne},       {kLtScaleOuter, kLtScaleOuter},
      {kLtScaleBlocks, kLtScaleBlocks}, {kLtScaleBlocks, kLtScaleSquares},
      {kLtScaleSquares, kLtScaleBlocks}};
  const auto& pair = kPairs[below(std::size(kPairs))];
  v[kLtMatmulScalingA] = pair[0];
  v[kLtMatmulScalingB] = pair[1];
  v[kLtMatmulDtype] = below(2) == 0 ? kE4m3 : kBrain16;
  v[kLtMatmulScalingD] = v[kLtMatmulLargest] = v[kLtMatmulDtype] == kE4m3 ? below(2) : 0;
}

// A random configuration of an algorithm. Most of them do not exist.
void Configure(std::mt19937_64* random, std::vector<uint64_t>* values) {
  const auto below = [&](uint64_t bound) { return (*random)() % bound; };
  (*values)[kLtMatmulOwn] = 1;
  (*values)[kLtMatmulAlgorithm] = below(3) == 0 ? 0 : below(72);
  (*values)[kLtMatmulTile] = below(3) == 0 ? 0 : below(40);
  (*values)[kLtMatmulStages] = below(3) == 0 ? 0 : below(24);
  (*values)[kLtMatmulSplits] = below(4);
  (*values)[kLtMatmulScheme] = below(3);
  (*values)[kLtMatmulSwizzle] = below(2);
  (*values)[kLtMatmulCustom] = below(2);
}

// Moves the first plane of each operand, which lies where the second one does, before that.
void PlacePlanesAtTheEnd(const LibraryCall& call, std::vector<uint64_t>* values) {
  uint64_t most = 0;
  for (const LibraryOperand& operand : call.operands) most = std::max(most, operand.bytes);
  for (const size_t slot : {kLtMatmulA, kLtMatmulB, kLtMatmulC, kLtMatmulD}) {
    (*values)[slot] -= (most + 15) / 16 * 16;
  }
}

// Calls of cublasLtMatmul() that are right, whose operands end where the session's memory does.
// Neighbours notice a kernel that goes on from there.
WireResult LtCallsAtTheEnd(const WireTarget& target) {
  const LibraryFunction& function = *FindLibraryFunction(kLtMatmulNumber);
  constexpr uint64_t kTypes[][3] = {{68, 0, 0}, {77, 0, 0}, {68, 2, 2}, {68, 14, 0}, {70, 1, 1}};
  constexpr uint64_t kSome[] = {0,  0,   2,  130, 4,   6,   134, 136, 152,
                                32, 160, 36, 164, 192, 208, 256, 512};
  Sessions sessions(target);
  std::mt19937_64 random(20261130);
  const auto below = [&](uint64_t bound) { return random() % bound; };
  size_t taken = 0, refused = 0;
  for (int i = 0; i < 300 * target.scale; ++i) {
    WireResult why;
    WireSession* const session = sessions.Next(function, &why);
    if (session == nullptr) return why;
    std::vector<uint64_t> v = GoodValues(function);
    const uint64_t unit = below(2) == 0 ? 1 : 8;
    v[kLtMatmulM] = unit * (1 + below(64 / unit));
    v[kLtMatmulN] = unit * (1 + below(64 / unit));
    v[kLtMatmulK] = unit * (1 + below(64 / unit));
    for (const size_t slot : {kLtMatmulLda, kLtMatmulLdb, kLtMatmulLdc, kLtMatmulLdd}) {
      v[slot] = 64 + unit * below(4);
    }
    for (const size_t slot :
         {kLtMatmulStrideA, kLtMatmulStrideB, kLtMatmulStrideC, kLtMatmulStrideD}) {
      v[slot] = 96 * 64 + unit * below(4);
    }
    v[kLtMatmulLdd] = v[kLtMatmulLdc];
    v[kLtMatmulStrideD] = v[kLtMatmulStrideC];
    v[kLtMatmulBatchCount] = 1 + below(2);
    v[kLtMatmulTransa] = below(2);
    v[kLtMatmulTransb] = below(2);
    v[kLtMatmulOrderA] = below(2);
    v[kLtMatmulOrderB] = below(2);
    v[kLtMatmulEpilogue] = kSome[below(std::size(kSome))];
    v[kLtMatmulStrideBias] = 64 + unit * below(4);
    v[kLtMatmulLdaux] = 8 + below(3);
    v[kLtMatmulStrideAux] = 64 * 11;
    v[kLtMatmulReductions] = below(2) * 7;
    v[kLtMatmulWorkspace] = below(2) << 20;
    const auto& types = kTypes[below(std::size(kTypes))];
    v[kLtMatmulComputeType] = types[0];
    v[kLtMatmulAtype] = v[kLtMatmulBtype] = types[1];
    v[kLtMatmulCtype] = v[kLtMatmulDtype] = types[2];
    uint64_t least = 1;
    switch (below(6)) {
      case 0:
        least = 16;
        MakeFloat8(&random, &v);
        break;
      case 1:
        UsePlanes(&v);
        v[kLtMatmulComputeType] = 68;
        v[kLtMatmulEpilogue] = 0;
        break;
      case 2:
        least = 16;
        Configure(&random, &v);
        break;
      default:
        break;
    }
    LibraryCall call;
    if (ReadLibraryCall(function, 0, v, &call) != CudaResult::kSuccess) {
      return Unprepared("a call that is right");
    }
    const uint64_t align = below(2) == 0 ? 16 : least;
    for (const LibraryOperand& operand : call.operands) {
      const bool is_aux = operand.slot == kLtMatmulAuxRead || operand.slot == kLtMatmulAuxWritten;
      const uint64_t alignment =
          is_aux || operand.bytes % 4 == 0 ? std::max<uint64_t>(align, 4) : align;
      v[operand.slot] = (kArena + kArenaBytes - operand.bytes) & ~((is_aux ? 16 : alignment) - 1);
    }
    if (v[kLtMatmulPlanes] != 0) PlacePlanesAtTheEnd(call, &v);
    const auto result = Call(session, function.number, v);
    if (result.ok() && *result == 0) {
      ++taken;
    } else if (result.ok()) {
      ++refused;
    } else {
      return Succeeded(absl::StrCat("a session ended: ", result.status().ToString()));
    }
  }
  return Stopped(absl::StrCat(taken, " calls taken, ", refused, " refused"));
}

// Unknown algorithms, epilogues, orders and types, and types that do not go together.
WireResult LtPlansThatThereAreNot(const WireTarget& target) {
  const LibraryFunction& function = *FindLibraryFunction(kLtMatmulNumber);
  const Changes changes = {{{kLtMatmulAlgorithm}, 15},
                           {{kLtMatmulAlgorithm}, 16},
                           {{kLtMatmulAlgorithm}, uint64_t{1} << 40},
                           {{kLtMatmulAlgorithm}, ~uint64_t{0}},
                           {{kLtMatmulRequested}, 17},
                           {{kLtMatmulRequested}, ~uint64_t{0}},
                           {{kLtMatmulReductions}, 8},
                           {{kLtMatmulReductions}, ~uint64_t{0}},
                           {{kLtMatmulWorkspace}, ~uint64_t{0}},
                           {{kLtMatmulEpilogue}, 1},
                           {{kLtMatmulEpilogue}, 10},
                           {{kLtMatmulEpilogue}, 128},
                           {{kLtMatmulEpilogue}, 768},
                           {{kLtMatmulEpilogue}, 1024},
                           {{kLtMatmulEpilogue}, ~uint64_t{0}},
                           {{kLtMatmulOrderA}, 2},
                           {{kLtMatmulOrderB}, 4},
                           {{kLtMatmulOrderC}, 1000},
                           {{kLtMatmulOrderD}, ~uint64_t{0}},
                           // C and D have one order.
                           {{kLtMatmulOrderD}, 1},
                           {{kLtMatmulTransa}, 3},
                           {{kLtMatmulAtype}, 2},
                           {{kLtMatmulBtype}, 14},
                           {{kLtMatmulCtype}, 1},
                           {{kLtMatmulAtype, kLtMatmulBtype}, 29},
                           {{kLtMatmulAtype, kLtMatmulBtype}, 30},
                           {{kLtMatmulComputeType}, 64},
                           {{kLtMatmulComputeType}, 79},
                           {{kLtMatmulM}, 0},
                           {{kLtMatmulBatchCount}, 0},
                           {{kLtMatmulPlanes}, 2},
                           {{kLtMatmulPlanes}, ~uint64_t{0}},
                           // There are no planes of single precision.
                           {{kLtMatmulPlanes}, 1},
                           // Only 8-bit floating point has scales.
                           {{kLtMatmulScalingA}, 1},
                           {{kLtMatmulScalingB}, 2},
                           {{kLtMatmulScalingD}, 1},
                           {{kLtMatmulLargest}, 1},
                           {{kLtMatmulScalingA}, 5},
                           {{kLtMatmulScalingB}, ~uint64_t{0}},
                           {{kLtMatmulLargest}, 2},
                           {{kLtMatmulArrays}, 2},
                           {{kLtMatmulArrays, kLtMatmulOrderA}, 1},
                           {{kLtMatmulArrays, kLtMatmulOwn}, 1},
                           {{kLtMatmulDtype}, 2},
                           {{kLtMatmulCtype, kLtMatmulDtype}, 28},
                           {{kLtMatmulStrideD}, 15}};
  return TryChanges(target, function, changes);
}

// Finds a call of cublasLtMatmul() with an algorithm that the program configures. Otherwise `why`
// says what is to be reported.
std::vector<uint64_t> FindConfigured(const WireTarget& target, WireResult* why) {
  const LibraryFunction& function = *FindLibraryFunction(kLtMatmulNumber);
  // An algorithm of the CPU device, and one of NVIDIA's for single precision.
  constexpr uint64_t kExisting[][2] = {{0, 0}, {10, 10}};
  Sessions sessions(target);
  for (const auto& [algorithm, tile] : kExisting) {
    WireSession* const session = sessions.Next(function, why);
    if (session == nullptr) return {};
    std::vector<uint64_t> values = GoodValues(function);
    values[kLtMatmulOwn] = 1;
    values[kLtMatmulAlgorithm] = algorithm;
    values[kLtMatmulTile] = tile;
    const auto done = Call(session, function.number, values);
    if (done.ok() && *done == 0) return values;
  }
  *why = Unprepared("no algorithm that can be configured");
  return {};
}

// Algorithms and configurations that no library documents.
WireResult LtConfigurationsThatThereAreNot(const WireTarget& target) {
  const LibraryFunction& function = *FindLibraryFunction(kLtMatmulNumber);
  WireResult why;
  const std::vector<uint64_t> good = FindConfigured(target, &why);
  if (good.empty()) return why;
  std::vector<Wrong> all;
  const auto add = [&](size_t slot, uint64_t value) {
    Wrong wrong = {good, 0, absl::StrCat("value ", slot, " of ", value)};
    wrong.values[slot] = value;
    all.push_back(std::move(wrong));
  };
  for (const size_t slot :
       {kLtMatmulAlgorithm, kLtMatmulTile, kLtMatmulSplits, kLtMatmulScheme, kLtMatmulSwizzle,
        kLtMatmulCustom, kLtMatmulStages, kLtMatmulInner, kLtMatmulCluster}) {
    for (const uint64_t value : {uint64_t{999}, uint64_t{1000}, uint64_t{1001}, uint64_t{1} << 32,
                                 uint64_t{1} << 63, ~uint64_t{0}}) {
      add(slot, value);
    }
  }
  add(kLtMatmulOwn, 2);
  add(kLtMatmulOwn, ~uint64_t{0});
  add(kLtMatmulScheme, 3);
  add(kLtMatmulScheme, 8);
  add(kLtMatmulSplits, 2);
  add(kLtMatmulScheme, 1);
  add(kLtMatmulInner, 1);
  add(kLtMatmulCluster, 52);
  return TryAll(target, function, all);
}

// Questions for algorithms with values that are refused in calls, or that are none.
WireResult LibraryQuestions(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  const std::vector<uint64_t> good = GoodValues(*FindLibraryFunction(kLtMatmulNumber));
  const auto ask = [&](uint32_t device, uint32_t number, uint32_t modes,
                       const std::vector<uint64_t>& values, uint32_t question = kLtAskAlgorithms) {
    return (*session)->Call(cmd::LibraryAsk{device, number, modes, question}, TailOf(values));
  };
  const auto works = ask(0, kLtMatmulNumber, 0, good);
  if (works.ok() && *works == kNotSupported) return NotHere("the device has no such function");
  const auto kinds = ask(0, kLtMatmulNumber, 0, good, kLtAskKinds);
  if (!works.ok() || *works != 0 || !kinds.ok() || *kinds != 0) {
    return Unprepared("a good question");
  }
  std::vector<std::pair<absl::StatusOr<int>, std::string>> answers;
  for (const uint32_t number : {0u, 1u, 140u, ~0u}) {
    answers.emplace_back(ask(0, number, 0, good), absl::StrCat("function ", number));
  }
  answers.emplace_back(ask(77, kLtMatmulNumber, 0, good), "device 77");
  answers.emplace_back(ask(77, kLtMatmulNumber, 0, good, kLtAskKinds), "device 77");
  for (const uint32_t question : {2u, 255u, 0x80000000u, ~0u}) {
    answers.emplace_back(ask(0, kLtMatmulNumber, 0, good, question),
                         absl::StrCat("question ", question));
  }
  answers.emplace_back(ask(0, kLtMatmulNumber, 0x80000000u, good), "modes");
  for (const size_t count :
       {size_t{0}, size_t{1}, good.size() - 1, good.size() + 1, size_t{9000}}) {
    std::vector<uint64_t> values = good;
    values.resize(count, 4);
    answers.emplace_back(ask(0, kLtMatmulNumber, 0, values), absl::StrCat(count, " values"));
  }
  for (const auto& [slot, value] :
       std::vector<std::pair<size_t, uint64_t>>{{kLtMatmulRequested, 17},
                                                {kLtMatmulLda, 0},
                                                {kLtMatmulM, ~uint64_t{0}},
                                                {kLtMatmulEpilogue, 3},
                                                {kLtMatmulStrideA, ~uint64_t{0}}}) {
    std::vector<uint64_t> values = good;
    values[slot] = value;
    for (const uint32_t question : {kLtAskAlgorithms, kLtAskKinds}) {
      answers.emplace_back(ask(0, kLtMatmulNumber, 0, values, question),
                           absl::StrCat("value ", slot));
    }
  }
  for (const auto& [answer, what] : answers) {
    const WireResult judged = JudgeRefusal(answer, absl::StrCat("a question with ", what));
    if (judged.outcome != WireOutcome::kStopped) return judged;
  }
  return Stopped(absl::StrCat("a good question is answered, and ", answers.size(), " are not"));
}

WireResult FunctionsThatThereAreNot(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  const auto beyond = static_cast<uint32_t>(AllLibraryFunctions().size()) + 1;
  const std::vector<uint64_t> values = GoodValues(*FindLibraryFunction(kSgemm));
  for (const uint32_t function : {0u, beyond, 255u, 256u, 0x80000000u, ~0u}) {
    const WireResult judged =
        JudgeRefusal(Call(session->get(), function, values), absl::StrCat("function ", function));
    if (judged.outcome != WireOutcome::kStopped) return judged;
  }
  const std::string odd(13, 'x');
  return JudgeRefusal((*session)->Do(cmd::LibraryCall{kStream, kSgemm, 0}, odd), "half a value");
}

// A graph has no calls of libraries.
WireResult GraphOfALibraryCall(const WireTarget& target) {
  auto session = WireSession::Open(target);
  if (!session.ok()) return Unprepared(session.status());
  std::vector<uint64_t> values = GoodValues(*FindLibraryFunction(kSgemm));
  values[13] = target.foreign.empty() ? 0x555555554000 : target.foreign[0];
  const cmd::LibraryCall step = {0, kSgemm, 0};
  std::string definition;
  AppendGraphStep(static_cast<uint32_t>(CommandId::kLibraryCall), {},
                  {reinterpret_cast<const char*>(&step), sizeof(step)}, TailOf(values),
                  &definition);
  (*session)->Add(cmd::ImageData{1001, definition.size(), 0}, definition);
  const auto made = (*session)->Call(cmd::GraphCreate{1002, 1001});
  if (!made.ok() || *made != 0) return JudgeRefusal(made, "a graph of a library's call");
  return JudgeRefusal((*session)->Do(cmd::GraphLaunch{kStream, 1002}), "its launch");
}

// Values at random, most of them in range one by one. Calls that work stay in the session's own
// memory: the neighbours would notice others.
WireResult RandomCalls(const WireTarget& target) {
  Sessions sessions(target);
  std::mt19937_64 random(20261129);
  size_t taken = 0, refused = 0;
  const std::vector<uint64_t> foreign = Foreign(target, true);
  for (int i = 0; i < 400 * target.scale; ++i) {
    const auto all = AllLibraryFunctions();
    const LibraryFunction& function = all[random() % all.size()];
    std::vector<uint64_t> values = GoodValues(function);
    bool elsewhere = false;
    for (uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t slot = random() % values.size();
      if (IsAddress(function.kinds[slot])) {
        values[slot] = foreign[random() % foreign.size()];
        elsewhere = true;
      } else {
        const uint64_t choices[] = {0,
                                    1,
                                    3,
                                    7,
                                    64,
                                    1000,
                                    uint64_t{1} << 20,
                                    uint64_t{1} << 31,
                                    uint64_t{1} << 62,
                                    ~uint64_t{0},
                                    random()};
        values[slot] = choices[random() % std::size(choices)];
      }
    }
    WireResult why;
    WireSession* const session = sessions.Next(*FindLibraryFunction(kSgemm), &why);
    if (session == nullptr) return why;
    const auto result = Call(session, function.number, values, static_cast<uint32_t>(random() % 2));
    if (result.ok() && *result == 0) {
      // An empty operand is touched nowhere.
      LibraryCall call;
      (void)ReadLibraryCall(function, 0, values, &call);
      for (const LibraryOperand& operand : call.operands) {
        const bool own = operand.address >= kArena && operand.bytes <= kArenaBytes &&
                         operand.address - kArena <= kArenaBytes - operand.bytes;
        if (elsewhere && operand.bytes != 0 && !own) {
          return Succeeded(absl::StrCat(std::string(function.name), " took an operand elsewhere"));
        }
      }
      ++taken;
    } else if (result.ok()) {
      ++refused;
    }
  }
  return Stopped(absl::StrCat(taken, " calls taken, ", refused, " refused"));
}

const char* NameOf(std::string_view prefix, const LibraryFunction& function) {
  static auto* const names = new std::deque<std::string>;
  return names->emplace_back(std::string(prefix) + std::string(function.name)).c_str();
}

template <size_t... kIndices>
std::vector<WireAttack> MakeAttacks(std::index_sequence<kIndices...>) {
  std::vector<WireAttack> attacks;
  const auto functions = AllLibraryFunctions();
  if (functions.size() != kFunctions) {
    std::fprintf(stderr, "%zu functions, and rows for %zu\n", functions.size(), kFunctions);
    std::exit(1);
  }
  const auto add = [&](const char* prefix, size_t index, WireResult (*run)(const WireTarget&)) {
    attacks.push_back({NameOf(prefix, functions[index]), "-", "", run});
  };
  (add("operands_elsewhere_of_", kIndices, &Elsewhere<kIndices>), ...);
  const auto add_addresses = [&](size_t index, WireResult (*run)(const WireTarget&)) {
    if (HasAddresses(functions[index])) add("addresses_elsewhere_of_", index, run);
  };
  (add_addresses(kIndices, &AddressesElsewhereOf<kIndices>), ...);
  attacks.insert(
      attacks.end(),
      {{"library_scalars_elsewhere", "-", "", &ScalarsElsewhere},
       {"library_sizes_beyond_the_arena", "-", "", &SizesBeyondTheArena},
       {"library_sizes_behind_addresses", "-", "", &SizesBehindAddresses},
       {"library_addresses_that_change", "-", "", &AddressesThatChange},
       {"library_arguments_out_of_range", "-", "", &ArgumentsOutOfRange},
       {"library_types_that_do_not_go_together", "-", "", &TypesThatDoNotGoTogether},
       {"lt_sizes_beyond_the_arena", "-", "", &LtSizesBeyondTheArena},
       {"lt_calls_at_the_end", "-", "", &LtCallsAtTheEnd},
       {"lt_plans_that_there_are_not", "-", "", &LtPlansThatThereAreNot},
       {"lt_configurations_that_there_are_not", "-", "", &LtConfigurationsThatThereAreNot},
       {"library_questions", "-", "", &LibraryQuestions},
       {"library_functions_that_there_are_not", "-", "", &FunctionsThatThereAreNot},
       {"graph_of_a_library_call", "-", "", &GraphOfALibraryCall},
       {"random_library_calls", "-", "", &RandomCalls}});
  return attacks;
}

}  // namespace

absl::Span<const WireAttack> LibraryAttacks() {
  static const auto* const attacks =
      new std::vector<WireAttack>(MakeAttacks(std::make_index_sequence<kFunctions>()));
  return *attacks;
}

}  // namespace warpline::attack
