// The same programs in the interpreter and in the kernel, which has an eBPF machine of its own:
// both return the same. Needs CAP_BPF, and is skipped without it.
#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "policy/bpf/host_interface.h"
#include "policy/bpf/instruction.h"
#include "policy/bpf/interpreter.h"
#include "policy/bpf/testing/generator.h"
#include "policy/bpf/verify.h"

namespace warpline::policy::bpf {
namespace {

constexpr int kPrograms = 4000;

// What the programs of MakeNumbers() read: four words.
struct NumbersContext {
  std::array<uint64_t, 4> words;
};

constexpr std::array kFields = {Field{0, 8}, Field{8, 8}, Field{16, 8}, Field{24, 8}};
constexpr Hook kHook = {"numbers", sizeof(NumbersContext), kFields};

long CallKernel(int command, bpf_attr* attributes) {
  return syscall(SYS_bpf, command, attributes, sizeof(*attributes));
}

// A program in the kernel, of the type that takes any memory as its context.
class KernelProgram {
 public:
  explicit KernelProgram(const std::vector<Instruction>& code) {
    bpf_attr attributes = {};
    attributes.prog_type = BPF_PROG_TYPE_SYSCALL;
    attributes.prog_flags = BPF_F_SLEEPABLE;
    attributes.insns = reinterpret_cast<uint64_t>(code.data());
    attributes.insn_cnt = static_cast<uint32_t>(code.size());
    attributes.license = reinterpret_cast<uint64_t>("GPL");
    log_.resize(1 << 16);
    attributes.log_buf = reinterpret_cast<uint64_t>(log_.data());
    attributes.log_size = static_cast<uint32_t>(log_.size());
    attributes.log_level = 1;
    fd_.Reset(static_cast<int>(CallKernel(BPF_PROG_LOAD, &attributes)));
    error_ = fd_.valid() ? 0 : errno;
  }

  int error() const { return error_; }
  const char* log() const { return log_.data(); }

  std::optional<uint32_t> Run(NumbersContext context) const {
    bpf_attr attributes = {};
    attributes.test.prog_fd = static_cast<uint32_t>(fd_.get());
    attributes.test.ctx_in = reinterpret_cast<uint64_t>(&context);
    attributes.test.ctx_size_in = sizeof(context);
    if (CallKernel(BPF_PROG_TEST_RUN, &attributes) != 0) return std::nullopt;
    return attributes.test.retval;
  }

 private:
  UniqueFd fd_;
  int error_ = 0;
  std::string log_;
};

TEST(Kernel, ReturnsWhatTheInterpreterReturns) {
  testing::Generator generator(7);
  int refused = 0;
  int runs = 0;
  for (int i = 0; i < kPrograms; ++i) {
    const std::vector<Instruction> code = generator.MakeNumbers();
    const KernelProgram kernel(code);
    if (kernel.error() == EPERM || kernel.error() == ENOSYS) {
      GTEST_SKIP() << "the kernel's eBPF is not to be had: " << std::strerror(kernel.error());
    }
    ASSERT_EQ(Verify(code, kHook, {}, {}).message(), "");
    if (kernel.error() != 0) {
      ++refused;
      if (refused == 1) std::printf("refused by the kernel: %.2000s\n", kernel.log());
      continue;
    }
    const Executable executable(code, {}, {});
    for (int run = 0; run < 4; ++run) {
      NumbersContext context;
      for (uint64_t& word : context.words) word = generator.Any() >> generator.Below(64);
      const std::optional<uint32_t> theirs = kernel.Run(context);
      ASSERT_TRUE(theirs.has_value()) << std::strerror(errno);
      ASSERT_EQ(executable.Run(&context, nullptr), std::optional<uint64_t>(*theirs))
          << "program " << i;
      ++runs;
    }
  }
  std::printf("%d programs, %d refused by the kernel, %d runs\n", kPrograms, refused, runs);
  EXPECT_LT(refused, kPrograms / 2);
}

}  // namespace
}  // namespace warpline::policy::bpf
