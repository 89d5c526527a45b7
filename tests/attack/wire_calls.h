// Calls of libraries' functions for attacks: good ones, sessions in which they work, and calls that
// must all be refused.
#ifndef WARPLINE_TESTS_ATTACK_WIRE_CALLS_H_
#define WARPLINE_TESTS_ATTACK_WIRE_CALLS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/cuda/cuda_numbers.h"
#include "proto/adapters/library_call.h"
#include "tests/attack/wire.h"
#include "tests/attack/wire_session.h"

namespace warpline::attack {

constexpr uint64_t kStream = kLegacyStreamHandle;
constexpr int kNotSupported = 801;  // CUDA_ERROR_NOT_SUPPORTED
constexpr uint64_t kApart = 8192;   // Between operands.
// The addresses in operands lead there.
constexpr uint64_t kProducts = 4;
constexpr uint64_t kPieces = kOwn + 32 * kApart;

std::string_view TailOf(const std::vector<uint64_t>& values);
// Returns the values of a small call whose operands lie in the session's own memory.
std::vector<uint64_t> GoodValues(const LibraryFunction& function);
absl::StatusOr<int> Call(WireSession* session, uint32_t function,
                         const std::vector<uint64_t>& values, uint32_t modes = 0);
// Fills the arrays of addresses of such a call. The array in `slot` gets `address` as its last one
// instead of one of the session's own.
absl::StatusOr<int> FillArrays(WireSession* session, const LibraryFunction& function,
                               size_t slot = std::string_view::npos, uint64_t address = 0);
// Returns addresses outside the session's arena. With `and_crossing` there is one more, from which
// all but the smallest operands reach beyond its end.
std::vector<uint64_t> Foreign(const WireTarget& target, bool and_crossing);

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

// A call that must be refused.
struct Wrong {
  std::vector<uint64_t> values;
  uint32_t modes = 0;
  std::string what;
};

// Tries all of them, in sessions in which a good call works.
WireResult TryAll(const WireTarget& target, const LibraryFunction& function,
                  const std::vector<Wrong>& all);

// Slots, and the value that all of them get in one call.
using Changes = std::vector<std::pair<std::vector<size_t>, uint64_t>>;

// Tries a good call with each of the changes.
WireResult TryChanges(const WireTarget& target, const LibraryFunction& function,
                      const Changes& changes);

// --- cublasLtMatmul(); other functions are left as they are.

// Has a call use the operand in the slot.
void UseOperand(const LibraryFunction& function, size_t slot, std::vector<uint64_t>* values);
// Moves the planes of a call with the one in the slot: they keep their distance, and C's is D's.
void MovePlanes(const LibraryFunction& function, size_t slot, std::vector<uint64_t>* values);
// Returns whether a good call touches so little there that it cannot cross the arena's end.
bool IsOneNumber(const LibraryFunction& function, size_t slot);
// Returns the rows for forms, algorithms and questions.
std::vector<WireAttack> LtAttacks();

}  // namespace warpline::attack

#endif  // WARPLINE_TESTS_ATTACK_WIRE_CALLS_H_
