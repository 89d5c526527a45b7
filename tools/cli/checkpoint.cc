#include "tools/cli/checkpoint.h"

#include <cstdint>
#include <filesystem>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/crypto/secret.h"
#include "tools/cli/administration.h"
#include "tools/cli/child.h"
#include "tools/cli/text.h"

namespace warpline::cli {
namespace {

using warpline_internal::CheckpointReply;
using warpline_internal::CheckpointRequest;

constexpr absl::Duration kPollInterval = absl::Milliseconds(100);
// Between lines that say how far it is.
constexpr absl::Duration kReportInterval = absl::Seconds(5);
constexpr size_t kNumberBytes = 8;
// Digits and letters from a to f.
constexpr size_t kLeaseNameBytes = 16;
// For each session to come to rest, each time that it is tried.
constexpr uint32_t kRestMs = 10'000;

std::string Outcome(const CheckpointRequest& request, const CheckpointReply& reply) {
  const std::string what = absl::StrCat(reply.sessions(), " sessions with ",
                                        ShownBytes(reply.bytes()), " of device memory");
  if (request.action() == CheckpointRequest::RESTORE) return absl::StrCat("restored ", what);
  std::string text =
      absl::StrCat("saved ", what, ", ", ShownBytes(reply.written_bytes()), " of it anew");
  if (!request.ends()) {
    absl::StrAppendFormat(&text, "; they rested for %.1f s", reply.pause_ms() / 1000.0);
  }
  return text;
}

}  // namespace

int FollowCheckpoint(CheckpointRequest request, const CheckpointCalls& calls) {
  const bool saves = request.action() == CheckpointRequest::SAVE;
  const char* const failed =
      saves ? "no checkpoint was saved: " : "the checkpoint was not restored: ";
  auto reply = calls.ask(request);
  request.set_only_ask(true);
  absl::Time said = calls.clock();
  while (true) {
    if (!reply.ok()) {
      calls.complain(absl::StrCat(failed, Shown(std::string(reply.status().message()))));
      return 1;
    }
    switch (reply->state()) {
      case CheckpointReply::DONE:
        calls.say(Outcome(request, *reply));
        return 0;
      case CheckpointReply::FAILED:
        calls.complain(absl::StrCat(failed, Shown(reply->why())));
        return 1;
      case CheckpointReply::UNDER_WAY:
        break;
      default:
        calls.complain("the server knows nothing of it; its log says how it ended");
        return 1;
    }
    if (calls.clock() - said >= kReportInterval) {
      said = calls.clock();
      const std::string all =
          reply->bytes() == 0 ? "" : absl::StrCat(" of ", ShownBytes(reply->bytes()));
      calls.say(absl::StrCat(saves ? "saved " : "read ", ShownBytes(reply->done_bytes()), all));
    }
    if (const int signal = calls.pause(kPollInterval); signal != 0) {
      calls.complain("it goes on at the server, whose log says how it ends");
      return 128 + signal;
    }
    reply = calls.ask(request);
  }
}

int SaveOrRestore(const CommandLine& line, const std::string& endpoint) {
  const auto admin = AdminOf(endpoint);
  if (!admin.ok()) return Complain("warpline", std::string(admin.status().message()), 1);
  CheckpointRequest request;
  request.set_number(absl::BytesToHexString(RandomBytes(kNumberBytes)));
  const bool saves = line.verb == Verb::kCheckpoint;
  request.set_action(saves ? CheckpointRequest::SAVE : CheckpointRequest::RESTORE);
  std::error_code error;
  request.set_folder(std::filesystem::absolute(line.rest.back(), error));
  if (error) return Complain("warpline", "no such path: " + Shown(line.rest.back()), 1);
  request.set_device(line.Text("device"));
  request.set_ends(line.Has("end"));
  request.set_deadline_ms(kRestMs);
  if (saves) {
    // Numbers of sessions are shorter than leases' names.
    uint64_t session = 0;
    const std::string& name = line.rest.front();
    if (name.size() < kLeaseNameBytes && absl::SimpleAtoi(name, &session)) {
      request.set_session(session);
    } else {
      request.set_lease(name);
    }
  }
  BlockForwardedSignals();
  return FollowCheckpoint(std::move(request), CallsTo<CheckpointRequest, CheckpointReply>(
                                                  &*admin, "/warpline_internal.Admin/Checkpoint"));
}

}  // namespace warpline::cli
