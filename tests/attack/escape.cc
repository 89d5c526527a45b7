#include "tests/attack/escape.h"

#include <errno.h>
#include <string.h>

namespace warpline::attack {
namespace {

bool MeansNotHere(int error) {
  return error == ENOSYS || error == EAFNOSUPPORT || error == EPROTONOSUPPORT || error == ENODEV ||
         error == ENXIO || error == EOPNOTSUPP;
}

}  // namespace

Result Judge(bool succeeded) {
  const int error = errno;
  if (succeeded) return {Outcome::kSucceeded, "done"};
  return {MeansNotHere(error) ? Outcome::kNotHere : Outcome::kStopped, strerrorname_np(error)};
}

Result JudgeReached(long result) {
  const int error = errno;
  if (result >= 0) return {Outcome::kSucceeded, "done"};
  if (error == EPERM || error == EACCES) return {Outcome::kStopped, strerrorname_np(error)};
  return {MeansNotHere(error) ? Outcome::kNotHere : Outcome::kSucceeded, strerrorname_np(error)};
}

}  // namespace warpline::attack
