#include "tests/attack/wire_calls.h"

#include "absl/strings/str_cat.h"
#include "proto/frames.h"

namespace warpline::attack {

std::string_view TailOf(const std::vector<uint64_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])};
}

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

absl::StatusOr<int> Call(WireSession* session, uint32_t function,
                         const std::vector<uint64_t>& values, uint32_t modes) {
  return session->Do(cmd::LibraryCall{kStream, function, modes}, TailOf(values));
}

absl::StatusOr<int> FillArrays(WireSession* session, const LibraryFunction& function, size_t slot,
                               uint64_t address) {
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

std::vector<uint64_t> Foreign(const WireTarget& target, bool and_crossing) {
  std::vector<uint64_t> addresses = target.foreign;
  for (uint64_t& address : addresses) address &= ~uint64_t{15};
  if (and_crossing) addresses.push_back(kArena + kArenaBytes - 16);
  addresses.insert(addresses.end(),
                   {0, 0x555555554000, 0x7ffff7d00000, 0x7ffffffde000, kHostArenaBase, kArena - 16,
                    kArena + kArenaBytes, ~uint64_t{0} - 15});
  return addresses;
}

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

}  // namespace warpline::attack
