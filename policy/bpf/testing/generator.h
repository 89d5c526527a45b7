// Random programs for the test host: some that are sound, many that nearly are.
#ifndef WARPLINE_POLICY_BPF_TESTING_GENERATOR_H_
#define WARPLINE_POLICY_BPF_TESTING_GENERATOR_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "policy/bpf/instruction.h"

namespace warpline::policy::bpf::testing {

// The same seed gives the same programs.
class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  // A new program: writes registers first, then arithmetic, accesses, look-ups with and without
  // their check, branches, calls, and returns a register.
  std::vector<Instruction> Make();

  // The program with some fields, instructions or their order changed.
  std::vector<Instruction> Mutate(std::vector<Instruction> code);

  // Arithmetic and branches over numbers alone, which the kernel's verifier accepts, too. The
  // verdict has 32 bits.
  std::vector<Instruction> MakeNumbers();

  uint64_t Below(uint64_t bound) { return bound == 0 ? 0 : random_() % bound; }
  uint64_t Any() { return random_(); }

 private:
  void Emit(int opcode, int dst, int src, int64_t offset, int64_t immediate);
  int32_t Immediate();
  int NumberRegister();  // One that is a number, if nothing went wrong.
  void Arithmetic(bool for_kernel);
  void BranchSomewhere();
  void Access();
  void LookUp();
  void Add();
  void Noise();
  void ResolveBranches();

  std::mt19937_64 random_;
  std::vector<Instruction> code_;
  std::vector<size_t> branches_;    // Whose targets are to be chosen.
  std::vector<size_t> beginnings_;  // Of what belongs together.
};

}  // namespace warpline::policy::bpf::testing

#endif  // WARPLINE_POLICY_BPF_TESTING_GENERATOR_H_
