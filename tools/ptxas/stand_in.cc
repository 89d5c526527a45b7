#include "tools/ptxas/stand_in.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace warpline::tools {
namespace {

// Options whose value may be the next word.
constexpr absl::string_view kOutputOptions[] = {"-o", "--output-file", "-output-file"};
constexpr absl::string_view kValueOptions[] = {"-arch",
                                               "--gpu-name",
                                               "-gpu-name",
                                               "-m",
                                               "--machine",
                                               "-machine",
                                               "-O",
                                               "--opt-level",
                                               "-opt-level",
                                               "-e",
                                               "--entry",
                                               "-entry",
                                               "-maxrregcount",
                                               "--maxrregcount",
                                               "-ias",
                                               "--input-as-string",
                                               "-optf",
                                               "--options-file",
                                               "-split-compile",
                                               "--split-compile"};

template <size_t n>
bool IsOneOf(absl::string_view word, const absl::string_view (&words)[n]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

absl::Status FileError(absl::string_view what, const std::string& path) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " ", path, ": ", strerror(errno)));
}

}  // namespace

absl::StatusOr<PtxasCall> ParsePtxasCall(const std::vector<std::string>& arguments) {
  PtxasCall call;
  std::vector<std::string> inputs;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const absl::string_view word = arguments[i];
    const absl::string_view name = word.substr(0, word.find('='));
    const bool has_value = name.size() < word.size();
    if (word == "--version" || word == "-V") {
      call.version = true;
      return call;
    }
    const bool is_output = IsOneOf(name, kOutputOptions);
    if (!is_output && !IsOneOf(name, kValueOptions)) {
      if (!absl::StartsWith(word, "-")) inputs.emplace_back(word);
      continue;
    }
    if (!has_value && i + 1 == arguments.size()) {
      return absl::InvalidArgumentError(absl::StrCat(word, " needs a value"));
    }
    const std::string value(has_value ? word.substr(name.size() + 1) : arguments[++i]);
    if (is_output) call.output = value;
  }
  if (inputs.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(inputs.size(), " input files: one file of PTX is expected"));
  }
  call.input = inputs[0];
  return call;
}

absl::Status HandPtxOver(const PtxasCall& call) {
  std::ifstream in(call.input, std::ios::binary);
  if (!in) return FileError("open", call.input);
  std::string ptx{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (in.bad()) return FileError("read", call.input);
  while (!ptx.empty() && ptx.back() == '\0') ptx.pop_back();
  if (ptx.find('\0') != std::string::npos || !absl::StrContains(ptx, ".version") ||
      !absl::StrContains(ptx, ".target")) {
    return absl::InvalidArgumentError(absl::StrCat(call.input, " is no PTX"));
  }
  ptx.push_back('\0');
  std::ofstream out(call.output, std::ios::binary | std::ios::trunc);
  if (!out) return FileError("create", call.output);
  out << ptx;
  out.close();
  return out ? absl::OkStatus() : FileError("write", call.output);
}

}  // namespace warpline::tools
