// A small assembler, so that tests show programs as text.
//
//   r0 = 5          r0 = r1         w0 = w1          moves; w is the lower half of a register
//   r0 += 5         w0 s>>= w1      r0 = -r0         arithmetic: + - * / % | & ^ << >> s>>
//   r0 = be16 r0    r0 = le64 r0                     byte order
//   r0 = 5 ll       r0 = map 0                       wide loads
//   r0 = u32 [ r1 + 8 ]                              a load
//   u32 [ r10 - 8 ] = r0    u8 [ r10 - 1 ] = 7       stores
//   if r0 s> 5 goto done    if w0 & w1 goto +2       branches: == != > >= < <= s> s>= s< s<= &
//   goto done       call 1          exit
//   done:                                            a label
//   raw 0x18 0x00 0 5                                opcode, registers, offset, immediate
//
// Statements end with `;` or a line, and tokens are separated by blanks.
#ifndef WARPLINE_POLICY_BPF_TESTING_ASSEMBLER_H_
#define WARPLINE_POLICY_BPF_TESTING_ASSEMBLER_H_

#include <string>
#include <string_view>
#include <vector>

#include "policy/bpf/instruction.h"

namespace warpline::policy::bpf::testing {

// Throws std::invalid_argument for what it does not understand, which fails the test.
std::vector<Instruction> Assemble(std::string_view text);

// The bytes of an object as clang writes it, with one program, for the version 1, and a map for
// each definition of 24 bytes in `maps`, named "map0" and so on. `code` refers to maps by `map N`.
// `always` and `expects` are the contents of the sections of that name, which are left out where
// they are empty.
std::string MakeObject(std::string_view section, const std::vector<Instruction>& code,
                       std::string_view maps = {}, std::string_view always = {},
                       std::string_view expects = {});

}  // namespace warpline::policy::bpf::testing

#endif  // WARPLINE_POLICY_BPF_TESTING_ASSEMBLER_H_
