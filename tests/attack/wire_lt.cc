// Calls of cublasLtMatmul() in its many forms, with algorithms that are forged or configured, and
// questions about them.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/adapters/blas_types.h"
#include "proto/adapters/cublas_slots.h"
#include "proto/adapters/library_call.h"
#include "proto/adapters/lt_operands.h"
#include "proto/adapters/lt_types.h"
#include "proto/frames.h"
#include "tests/attack/wire.h"
#include "tests/attack/wire_calls.h"
#include "tests/attack/wire_session.h"

namespace warpline::attack {
namespace {

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
  for (const size_t slot : {kLtMatmulM, kLtMatmulK}) v[slot] = 16 * (1 + below(12));
  v[kLtMatmulN] = 1 + below(192);
  v[kLtMatmulFast] = below(2);
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

// Moves one plane of each operand, which lies where the other one does, before that. C's is that of
// D.
void PlacePlanesAtTheEnd(const LibraryCall& call, std::mt19937_64* random,
                         std::vector<uint64_t>* values) {
  uint64_t most = 0;
  for (const LibraryOperand& operand : call.operands) most = std::max(most, operand.bytes);
  const uint64_t which = (*random)();
  for (int i = 0; i < kLtMatrices; ++i) {
    const LtOperand& operand = kLtOperands[i];
    const bool first = (which >> std::min<int>(i, kLtC) & 1) != 0;
    (*values)[first ? operand.address : operand.plane] -= (most + 15) / 16 * 16;
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
    if (v[kLtMatmulPlanes] != 0) PlacePlanesAtTheEnd(call, &random, &v);
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
                           {{kLtMatmulFast}, 1},
                           {{kLtMatmulFast}, ~uint64_t{0}},
                           {{kLtMatmulArrays}, 2},
                           {{kLtMatmulArrays, kLtMatmulOrderA}, 1},
                           {{kLtMatmulArrays, kLtMatmulOwn}, 1},
                           {{kLtMatmulDtype}, 2},
                           {{kLtMatmulCtype, kLtMatmulDtype}, 28},
                           {{kLtMatmulStrideD}, 15}};
  return TryChanges(target, function, changes);
}

// Returns the algorithms that can be configured for such a call.
std::vector<LtKind> AskKinds(WireSession* session, const std::vector<uint64_t>& values) {
  const uint64_t seq =
      session->Add(cmd::LibraryAsk{0, kLtMatmulNumber, 0, kLtAskKinds}, TailOf(values));
  session->Submit();
  const auto asked = session->Await(seq);
  if (!asked.ok() || *asked != 0) return {};
  const std::string body = session->TakeReply(seq);
  std::string_view rest = body;
  cmd::LibraryAskReply reply;
  std::vector<LtKind> kinds;
  if (!TakeStruct(&rest, &reply)) return {};
  for (LtKind kind; kinds.size() < reply.count && TakeStruct(&rest, &kind);) kinds.push_back(kind);
  return kinds;
}

// Returns the number of the lowest bit, 0 if there is none.
uint64_t LowestBit(const uint32_t* words, uint64_t count) {
  for (uint64_t bit = 0; bit < 32 * count; ++bit) {
    if (LtHasBit(words, 32 * count, bit) != 0) return bit;
  }
  return 0;
}

// Finds a call of cublasLtMatmul() with an algorithm that the program configures. Otherwise `why`
// says what is to be reported.
std::vector<uint64_t> FindConfigured(const WireTarget& target, WireResult* why) {
  const LibraryFunction& function = *FindLibraryFunction(kLtMatmulNumber);
  Sessions sessions(target);
  WireSession* session = sessions.Next(function, why);
  if (session == nullptr) return {};
  for (const LtKind& kind : AskKinds(session, GoodValues(function))) {
    std::vector<uint64_t> values = GoodValues(function);
    values[kLtMatmulOwn] = 1;
    values[kLtMatmulAlgorithm] = kind.id;
    values[kLtMatmulTile] = LowestBit(kind.tiles, kLtTileWords);
    values[kLtMatmulStages] = LowestBit(kind.stages, kLtStageWords);
    const auto done = Call(session, function.number, values);
    if (done.ok() && *done == 0) return values;
    session = sessions.Next(function, why);
    if (session == nullptr) return {};
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

}  // namespace

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

void MovePlanes(const LibraryFunction& function, size_t slot, std::vector<uint64_t>* values) {
  if (function.number != kLtMatmulNumber) return;
  const auto is_result = [](size_t of) { return of == kLtMatmulImagC || of == kLtMatmulImagD; };
  for (const LtOperand& operand : kLtOperands) {
    if (slot != operand.plane && !(is_result(slot) && is_result(operand.plane))) continue;
    (*values)[operand.plane] = (*values)[slot];
    (*values)[operand.address] = (*values)[slot] - kApart;
  }
}

bool IsOneNumber(const LibraryFunction& function, size_t slot) {
  return function.kinds[slot] == 'r' || (function.number == kLtMatmulNumber &&
                                         (slot == kLtMatmulScaleD || slot == kLtMatmulLargestD));
}

std::vector<WireAttack> LtAttacks() {
  return {{"lt_sizes_beyond_the_arena", "-", "", &LtSizesBeyondTheArena},
          {"lt_calls_at_the_end", "-", "", &LtCallsAtTheEnd},
          {"lt_plans_that_there_are_not", "-", "", &LtPlansThatThereAreNot},
          {"lt_configurations_that_there_are_not", "-", "", &LtConfigurationsThatThereAreNot},
          {"library_questions", "-", "", &LibraryQuestions}};
}

}  // namespace warpline::attack
