// The files of an audit's record in their folder, and reading them line by line.
//
// They are audit-00000001.jsonl and so on, without gaps: when one is full the next begins. Only the
// oldest ones are ever removed, which the record then says itself.
#ifndef WARPLINE_AUDIT_FILES_H_
#define WARPLINE_AUDIT_FILES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/unique_fd.h"

namespace warpline::audit {

std::string FileName(uint64_t number);

// The numbers of the files in `dir`, in ascending order. NOT_FOUND, PERMISSION_DENIED or another
// error that names the folder when it cannot be listed.
absl::StatusOr<std::vector<uint64_t>> ListFiles(const std::string& dir);

// Opens a file for reading. The error names it.
absl::StatusOr<UniqueFd> OpenFile(const std::string& dir, uint64_t number);

// Reads a file that may grow meanwhile. Thread-compatible.
class LineReader {
 public:
  explicit LineReader(UniqueFd file) : file_(std::move(file)) {}

  // The next line, without its newline; none when there is no whole one (yet). What is longer than
  // any record is cut into several, none of which is a record.
  std::optional<std::string> Next();
  // What follows the last newline so far.
  absl::string_view rest() const { return absl::string_view(buffer_).substr(start_); }
  // Bytes of the lines that Next() has returned, with their newlines.
  uint64_t bytes() const { return bytes_; }

 private:
  const UniqueFd file_;
  std::string buffer_;
  size_t start_ = 0;  // Of what Next() has not returned yet.
  uint64_t bytes_ = 0;
};

}  // namespace warpline::audit

#endif  // WARPLINE_AUDIT_FILES_H_
