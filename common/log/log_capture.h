// Captures what the process logs, for tests: from its construction to its end, lines go into a file
// in memory instead of stderr.
#ifndef WARPLINE_COMMON_LOG_LOG_CAPTURE_H_
#define WARPLINE_COMMON_LOG_LOG_CAPTURE_H_

#include <string>
#include <vector>

#include "common/unique_fd.h"

namespace warpline {

// There can be one at a time. Lines may come from any thread.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  // Everything that was said so far.
  std::string Text() const;
  // The lines so far that contain `part`.
  std::vector<std::string> LinesWith(const std::string& part) const;

 private:
  UniqueFd file_;
};

}  // namespace warpline

#endif  // WARPLINE_COMMON_LOG_LOG_CAPTURE_H_
