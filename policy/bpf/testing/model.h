// A second interpreter, written for being obviously right and not for speed, to hold the first one
// to.
//
// It trusts no verifier. Every value knows whether it is a number or an address of what, every byte
// of the stack whether it was written; memory is reached by names and not by addresses, so that
// nothing outside exists. What the verifier has to rule out is a fault here.
#ifndef WARPLINE_POLICY_BPF_TESTING_MODEL_H_
#define WARPLINE_POLICY_BPF_TESTING_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "policy/bpf/instruction.h"
#include "policy/bpf/map.h"
#include "policy/bpf/testing/test_host.h"

namespace warpline::policy::bpf::testing {

class Model {
 public:
  using Entries = std::map<std::string, std::vector<uint64_t>>;

  explicit Model(std::vector<MapShape> shapes);

  // Runs the program on a TestContext; its helpers are those of TestHost.
  void Run(absl::Span<const Instruction> code, const TestContext& context);

  // Of the last run; a fault says what a sound program does not do.
  const std::string& fault() const { return fault_; }
  uint64_t verdict() const { return verdict_; }
  size_t steps() const { return steps_; }

  // Since the model was made.
  const std::vector<Entries>& maps() const { return maps_; }
  uint64_t now_ns = 1000;
  std::vector<uint64_t> audited;

 private:
  enum class Of { kNothing, kNumber, kContext, kStack, kMap, kCells };
  struct Word {
    Of of = Of::kNothing;
    uint64_t number = 0;   // Of a number.
    int64_t offset = 0;    // Of an address.
    size_t map = 0;        // Of a map and of cells.
    std::string key = {};  // Of cells.
    bool operator==(const Word&) const = default;
  };
  // A byte of the stack: the byte `part` of a word.
  struct Byte {
    Word word;
    int part = -1;  // Not written.
  };

  // All of them set fault_ where something is wrong.
  uint64_t NumberIn(int reg);
  Word Load(const Word& address, int64_t offset, int bytes);
  void Store(const Word& address, int64_t offset, int bytes, const Word& value);
  std::string KeyAt(const Word& address, size_t bytes);
  Word CallHelper(int32_t number);
  uint64_t Compute(int operation, bool is_wide, uint64_t a, uint64_t b);
  bool Compare(int operation, bool is_wide, uint64_t a, uint64_t b);
  size_t Step(absl::Span<const Instruction> code, size_t pc);
  void Fail(const std::string& reason);

  const std::vector<MapShape> shapes_;
  std::vector<Entries> maps_;
  TestContext context_;
  std::vector<Word> registers_;
  std::vector<Byte> stack_;
  std::string fault_;
  uint64_t verdict_ = 0;
  size_t steps_ = 0;
  bool is_over_ = false;
};

}  // namespace warpline::policy::bpf::testing

#endif  // WARPLINE_POLICY_BPF_TESTING_MODEL_H_
