// Calls of libraries' functions with memory that the session does not have, and with arguments that
// NVIDIA's code should not see in a process that tenants share. A row for each function tries each
// of its operands; the call is made with the session's own memory first, which must work.
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
#include "proto/adapters/library_call.h"
#include "proto/frames.h"
#include "proto/graph_definition.h"
#include "tests/attack/wire.h"
#include "tests/attack/wire_calls.h"
#include "tests/attack/wire_session.h"

namespace warpline::attack {
namespace {

constexpr size_t kFunctions = 139;
constexpr uint32_t kSgemm = 1;
constexpr uint32_t kSgemmBatched = 78;

bool IsAddress(char kind) { return kind == 'm' || kind == 'p' || kind == 'r'; }

bool HasAddresses(const LibraryFunction& function) {
  return function.kinds.find('p') != std::string_view::npos;
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
  attacks.insert(attacks.end(),
                 {{"library_scalars_elsewhere", "-", "", &ScalarsElsewhere},
                  {"library_sizes_beyond_the_arena", "-", "", &SizesBeyondTheArena},
                  {"library_sizes_behind_addresses", "-", "", &SizesBehindAddresses},
                  {"library_addresses_that_change", "-", "", &AddressesThatChange},
                  {"library_arguments_out_of_range", "-", "", &ArgumentsOutOfRange},
                  {"library_types_that_do_not_go_together", "-", "", &TypesThatDoNotGoTogether}});
  for (const WireAttack& attack : LtAttacks()) attacks.push_back(attack);
  attacks.insert(attacks.end(),
                 {{"library_functions_that_there_are_not", "-", "", &FunctionsThatThereAreNot},
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
