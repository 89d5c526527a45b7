// A worker that hands on what it is given (finding C3): every descriptor that comes over its
// control socket goes on to an accomplice outside, who keeps it when the worker is long gone.
//
// Linking this replaces recvmsg(2) of the program.
#ifndef WARPLINE_TESTS_ATTACK_ACCOMPLICE_H_
#define WARPLINE_TESTS_ATTACK_ACCOMPLICE_H_

#include <string>

namespace warpline::attack {

// Connects to the accomplice's unix socket, from when on descriptors go there. To be called once,
// before the jail is closed; returns whether somebody listens.
bool MeetAccomplice(const std::string& path);

}  // namespace warpline::attack

#endif  // WARPLINE_TESTS_ATTACK_ACCOMPLICE_H_
