// Stands in for NVIDIA's ptxas in compilers that run it by themselves, as Triton does, so that
// their programs load the PTX instead of machine code, and the guarded tier takes it.
#ifndef WARPLINE_TOOLS_PTXAS_STAND_IN_H_
#define WARPLINE_TOOLS_PTXAS_STAND_IN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpline::tools {

// Compilers find the release here, and write PTX of the version that it reads: 8.7.
inline constexpr absl::string_view kVersionText =
    "Warpline's stand-in for ptxas, which hands PTX over as it is\n"
    "Cuda compilation tools, release 12.8, V12.8.0\n";

// A call of ptxas.
struct PtxasCall {
  bool version = false;  // Prints kVersionText, and nothing else is done.
  std::string input;
  std::string output = "elf.o";
};

// Understands the options of ptxas that say what is read and written. Options that say how machine
// code is made have no effect. INVALID_ARGUMENT without one input, or with several.
absl::StatusOr<PtxasCall> ParsePtxasCall(const std::vector<std::string>& arguments);

// Writes the PTX of the input to the output, with the zero at its end that the driver looks for.
// INVALID_ARGUMENT when the input is no PTX. Otherwise the errors of files.
absl::Status HandPtxOver(const PtxasCall& call);

}  // namespace warpline::tools

#endif  // WARPLINE_TOOLS_PTXAS_STAND_IN_H_
