#include "client_stub/session/counters.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace warpline::stub {
namespace {

constexpr char kStart[] = "warpline stat: ";

void AppendLine(const char* key, uint64_t value, const std::string& note, std::string* out) {
  absl::StrAppend(out, kStart, key, ": ", value, note, "\n");
}

}  // namespace

std::string Counters::ToText(std::string_view transport) const {
  const auto get = [](const std::atomic<uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  std::string by_command;
  for (int i = 1; i <= kCommandCount; ++i) {
    const uint64_t n = get(round_trips_by_command[i]);
    if (n == 0) continue;
    absl::StrAppend(&by_command, by_command.empty() ? " (" : ", ", kCommandTable[i - 1].name, " ",
                    n);
  }
  if (!by_command.empty()) by_command += ")";

  std::string out;
  AppendLine("round trips", get(round_trips), by_command, &out);
  AppendLine("opening", get(open_round_trips), "", &out);
  AppendLine("memory requests", get(memory_round_trips), " (waited)", &out);
  AppendLine("memory refused", get(memory_refusals), "", &out);
  AppendLine("synchronizes", get(synchronizes), "", &out);
  AppendLine("copies out", get(copies_out), "", &out);
  AppendLine("waits on the board", get(board_waits), "", &out);
  AppendLine("launches", get(launches), "", &out);
  AppendLine("commands", get(commands), "", &out);
  AppendLine("window waits", get(window_waits), "", &out);
  AppendLine("free waits", get(free_waits), "", &out);
  AppendLine("bytes sent", get(bytes_sent), "", &out);
  AppendLine("bytes received", get(bytes_received), "", &out);
  AppendLine("bulk bytes", get(bulk_bytes), "", &out);
  AppendLine("frames sent", get(frames_sent), "", &out);
  AppendLine("frames received", get(frames_received), "", &out);
  AppendLine("allocated bytes", get(allocated_bytes), "", &out);
  AppendLine("resumes", get(resumes), "", &out);
  const std::string now =
      transport.empty() ? "" : absl::StrCat(" (now ", std::string(transport), ")");
  AppendLine("transfers", get(transfers), now, &out);
  AppendLine("frames sent again", get(frames_again), "", &out);
  return out;
}

}  // namespace warpline::stub
