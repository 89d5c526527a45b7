// Tests arithmetic bit for bit against what NVIDIA hardware (an H200) answered, and approximations
// against libm.
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <string>

#include "gtest/gtest.h"
#include "server/device/cpu/cpu_backend.h"
#include "server/device/cpu/testing/arithmetic_cases.h"
#include "server/device/cpu/testing/arithmetic_inputs.h"
#include "server/device/cpu/testing/arithmetic_runner.h"

namespace warpline::cpu {
namespace {

constexpr char kGoldenPath[] = "server/device/cpu/testing/arithmetic_golden.txt";

std::map<std::string, uint64_t> Golden() {
  std::map<std::string, uint64_t> golden;
  std::ifstream in(kGoldenPath);
  std::string line;
  while (std::getline(in, line)) {
    if (line.size() > 17) golden[line.substr(17)] = std::stoull(line.substr(0, 16), nullptr, 16);
  }
  return golden;
}

class ArithmeticTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto runner = ArithmeticRunner::Create(backend_.get(), cases_);
    ASSERT_TRUE(runner.ok()) << runner.status();
    runner_ = *std::move(runner);
  }

  std::unique_ptr<device::Backend> backend_ = *device::NewCpuBackend();
  std::vector<ArithmeticCase> cases_ = ArithmeticCases();
  std::unique_ptr<ArithmeticRunner> runner_;
};

TEST_F(ArithmeticTest, AgreesWithHardwareBitForBit) {
  const std::map<std::string, uint64_t> golden = Golden();
  size_t checked = 0;
  for (size_t i = 0; i < cases_.size(); ++i) {
    if (cases_[i].approximate) continue;
    const auto results = runner_->Run(i);
    ASSERT_TRUE(results.ok()) << results.status();
    const auto expected = golden.find(cases_[i].instruction);
    ASSERT_NE(expected, golden.end()) << cases_[i].instruction;
    EXPECT_EQ(HashResults(*results), expected->second) << cases_[i].instruction;
    ++checked;
  }
  EXPECT_EQ(checked, golden.size());
}

float AsFloat(uint64_t bits) {
  const auto narrow = static_cast<uint32_t>(bits);
  float value;
  std::memcpy(&value, &narrow, sizeof(value));
  return value;
}

double Reference(const std::string& opcode, double a, double b) {
  if (opcode == "rcp") return 1 / a;
  if (opcode == "sqrt") return std::sqrt(a);
  if (opcode == "rsqrt") return 1 / std::sqrt(a);
  if (opcode == "sin") return std::sin(a);
  if (opcode == "cos") return std::cos(a);
  if (opcode == "ex2") return std::exp2(a);
  if (opcode == "lg2") return std::log2(a);
  if (opcode == "tanh") return std::tanh(a);
  return a / b;
}

TEST_F(ArithmeticTest, ApproximationsStayWithinTheDocumentedBounds) {
  for (size_t i = 0; i < cases_.size(); ++i) {
    if (!cases_[i].approximate) continue;
    const auto results = runner_->Run(i);
    ASSERT_TRUE(results.ok()) << results.status();
    const std::vector<uint64_t> in = ArithmeticInputs(cases_[i]);
    const std::string opcode = cases_[i].instruction.substr(0, cases_[i].instruction.find('.'));
    for (size_t t = 0; t < results->size(); ++t) {
      const float a = AsFloat(in[4 * t]);
      const float b = AsFloat(in[4 * t + 1]);
      // Angles are exact only within a few turns; divisors beyond 2^126 and subnormals are special.
      if (!std::isnormal(a) || ((opcode == "sin" || opcode == "cos") && std::fabs(a) > 3.2f)) {
        continue;
      }
      if (opcode == "div" && (!std::isnormal(b) || std::fabs(b) > 0x1p126f)) continue;
      const double want = Reference(opcode, a, b);
      const float got = AsFloat((*results)[t]);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got)) << cases_[i].instruction << " of " << a;
      } else if (std::fabs(want) > 0x1p-126 && std::fabs(want) < 0x1p127) {
        EXPECT_NEAR(got, want, std::fabs(want) * 0x1p-10 * (opcode == "tanh" ? 1 : 0x1p-11) + 1e-6)
            << cases_[i].instruction << " of " << a << ", " << b;
      }
    }
  }
}

}  // namespace
}  // namespace warpline::cpu
