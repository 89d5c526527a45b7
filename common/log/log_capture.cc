#include "common/log/log_capture.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sstream>

#include "common/log/log.h"

namespace warpline {

LogCapture::LogCapture() : file_(memfd_create("log", MFD_CLOEXEC)) {
  fcntl(file_.get(), F_SETFL, O_APPEND);
  SetLogDescriptor(file_.get());
}

LogCapture::~LogCapture() { SetLogDescriptor(STDERR_FILENO); }

std::string LogCapture::Text() const {
  std::string text;
  char piece[4096];
  ssize_t got;
  while ((got = pread(file_.get(), piece, sizeof(piece), static_cast<off_t>(text.size()))) > 0) {
    text.append(piece, static_cast<size_t>(got));
  }
  return text;
}

std::vector<std::string> LogCapture::LinesWith(const std::string& part) const {
  std::vector<std::string> found;
  std::istringstream lines(Text());
  for (std::string line; std::getline(lines, line);) {
    if (line.find(part) != std::string::npos) found.push_back(line);
  }
  return found;
}

}  // namespace warpline
