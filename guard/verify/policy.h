// What the text of a session has to keep to.
#ifndef WARPLINE_GUARD_VERIFY_POLICY_H_
#define WARPLINE_GUARD_VERIFY_POLICY_H_

namespace warpline::guard {

struct Policy {
  int arena_bits = 36;    // The arena has 2^arena_bits bytes: 32 to 47.
  bool hardened = false;  // Accesses are aligned, and those to shared memory are confined, too.
  // Hardened: loops ask whether to stop, and shared memory is zeroed before it is used. Only tests
  // leave these out, to see what each of the verifier's rules refuses.
  bool stops = true;
  bool zeroes = true;
};

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_VERIFY_POLICY_H_
