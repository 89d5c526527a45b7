// Calls every function that the client implements with arguments that no program should give it:
// null pointers, invalid handles and addresses, numbers out of every range. Each returns an error,
// unless it is in kAccepts, and none ends the process or the session.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tests/surface/surface.h"

namespace {

// What the parameters of a call get, by their types.
enum class Kind {
  kNothing,  // Null pointers, zeros.
  kHandles,  // Handles and addresses of nothing, zeroed memory to read and write, zeros.
  kGarbage,  // Handles and addresses of nothing, null pointers, numbers out of range.
};
constexpr Kind kKinds[] = {Kind::kNothing, Kind::kHandles, Kind::kGarbage};
constexpr const char* kNames[] = {"nothing", "handles of nothing", "garbage"};

// Below the lowest page that a process can have.
constexpr uintptr_t kNobodysHandle = 0xbad0;

template <typename T, typename = void>
struct IsComplete : std::false_type {};
template <typename T>
struct IsComplete<T, std::void_t<decltype(sizeof(T))>> : std::true_type {};

alignas(64) unsigned char g_memory[16][1 << 16];

template <typename T>
T Argument(Kind kind, int index) {
  T value;
  // Of a pointer it is the pointer. NOLINTNEXTLINE(bugprone-sizeof-expression)
  std::memset(static_cast<void*>(&value), 0, sizeof(value));
  if constexpr (std::is_pointer_v<T>) {
    using To = std::remove_cv_t<std::remove_pointer_t<T>>;
    if constexpr (std::is_function_v<To>) {
      return nullptr;
    } else if constexpr (!std::is_void_v<To> && !IsComplete<To>::value) {
      if (kind != Kind::kNothing) return reinterpret_cast<T>(kNobodysHandle);
    } else {
      if (kind == Kind::kHandles) return reinterpret_cast<T>(g_memory[index]);
    }
  } else if constexpr (std::is_same_v<T, CUdeviceptr>) {
    if (kind != Kind::kNothing) value = kNobodysHandle;
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    if (kind == Kind::kGarbage) value = static_cast<T>(0x7ffffff3);
  } else {
    if (kind == Kind::kGarbage) std::memset(static_cast<void*>(&value), 0x77, sizeof(value));
  }
  return value;
}

template <typename... A, size_t... I>
CUresult CallWith(CUresult (*call)(A...), [[maybe_unused]] Kind kind, std::index_sequence<I...>) {
  return call(Argument<A>(kind, static_cast<int>(I))...);
}

// Calls that may succeed all the same, and why. `kind` is one of kNames, or nullptr for all.
struct Accepts {
  const char* symbol;
  const char* kind;
  const char* why;
};
constexpr Accepts kAccepts[] = {
#include "tests/surface/accepts.inc"
};

// Calls that end the process by CUDA's contract, too.
struct LeftOut {
  const char* symbol;
  const char* why;
};
constexpr LeftOut kLeftOutOfGarbage[] = {
    {"cuMemcpy", "addresses that are not the device's are the host's, and used"},
    {"cuMemcpyAsync", "addresses that are not the device's are the host's, and used"},
};

// Returns the symbol without its suffix: a variant for another default stream is the same call.
std::string_view WithoutStream(std::string_view symbol) {
  for (const std::string_view suffix : {"_ptsz", "_ptds"}) {
    if (symbol.ends_with(suffix)) symbol.remove_suffix(suffix.size());
  }
  return symbol;
}

bool IsLeftOut(std::string_view symbol, Kind kind) {
  return kind == Kind::kGarbage &&
         std::any_of(std::begin(kLeftOutOfGarbage), std::end(kLeftOutOfGarbage),
                     [&](const LeftOut& call) { return WithoutStream(symbol) == call.symbol; });
}

bool g_succeeded[std::size(kAccepts)] = {};

bool IsAccepted(std::string_view symbol, Kind kind) {
  for (size_t i = 0; i < std::size(kAccepts); ++i) {
    const Accepts& accepts = kAccepts[i];
    const bool means =
        WithoutStream(symbol) == accepts.symbol &&
        (accepts.kind == nullptr || std::strcmp(accepts.kind, kNames[static_cast<int>(kind)]) == 0);
    if (!means) continue;
    g_succeeded[i] = true;
    return true;
  }
  return false;
}

// A call in the list that never succeeds should not be there.
void CheckAccepts(Kind kind) {
  for (size_t i = 0; i < std::size(kAccepts); ++i) {
    const Accepts& accepts = kAccepts[i];
    const bool meant =
        accepts.kind != nullptr && std::strcmp(accepts.kind, kNames[static_cast<int>(kind)]) == 0;
    if (meant && !g_succeeded[i]) surface::Fail(accepts.symbol, "what accepts.inc allows", -1);
  }
}

// Undoes what a call that succeeded may have done to this thread.
void TidyUp() {
  CUgraph graph = nullptr;
  if (SURFACE_CALL(cuStreamEndCapture_ptsz)(nullptr, &graph) == CUDA_SUCCESS) {
    SURFACE_CALL(cuGraphDestroy)(graph);
  }
}

template <typename F>
void Check(const char* symbol, F* call, Kind kind) {
  if (IsLeftOut(symbol, kind)) return;
  std::memset(g_memory, 0, sizeof(g_memory));
  if (surface::TakeContext() == nullptr) return surface::Fail(symbol, "the context before it", 0);
  const auto counted = [&]<typename... A>(CUresult (*function)(A...)) {
    return CallWith(function, kind, std::index_sequence_for<A...>());
  };
  // If a call ends the process, it is the last one named.
  std::printf("%s\n", symbol);
  std::fflush(stdout);
  const CUresult got = counted(call);
  if (got == CUDA_SUCCESS && !IsAccepted(symbol, kind)) {
    surface::Fail(symbol, kNames[static_cast<int>(kind)], got);
  }
  TidyUp();
}

void CheckAll(Kind kind) {
#define WARPLINE_ENTRY(symbol) Check(#symbol, SURFACE_CALL(symbol), kind);
#include "proto/calls.inc"
#undef WARPLINE_ENTRY
}

}  // namespace

int main(int argc, char** argv) {
  for (const Kind kind : kKinds) {
    const char* const name = kNames[static_cast<int>(kind)];
    if (argc > 1 && std::strcmp(argv[1], name) != 0) continue;
    CheckAll(kind);
    CheckAccepts(kind);
    if (!surface::Computes()) surface::Fail("the computation after", name, 0);
  }
  std::printf("%d failures\n", surface::g_failures);
  return surface::g_failures == 0 ? 0 : 1;
}
