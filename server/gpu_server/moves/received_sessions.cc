#include "server/gpu_server/moves/received_sessions.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "proto/frames.h"

namespace warpline::server {
namespace {

using warpline_internal::SavedSession;

class PipeSource : public PartSource {
 public:
  explicit PipeSource(MovePipe* pipe) : pipe_(pipe) {}

  absl::Status Begin(const std::string&) override { return absl::OkStatus(); }
  absl::Status Next(char* to, size_t bytes) override { return pipe_->Read(to, bytes); }
  absl::Status End() override { return absl::OkStatus(); }

 private:
  MovePipe* const pipe_;
};

absl::StatusOr<SavedSession> ReadManifest(MovePipe* pipe) {
  uint64_t size = 0;
  absl::Status read = pipe->Read(reinterpret_cast<char*>(&size), sizeof(size));
  if (!read.ok()) return read;
  if (size > kMostManifestBytes) return absl::InvalidArgumentError("a manifest that is too large");
  std::string bytes(size, '\0');
  if (read = pipe->Read(bytes.data(), bytes.size()); !read.ok()) return read;
  return ParseManifest(bytes);
}

}  // namespace

MoveChannel::MoveChannel(std::shared_ptr<MovePipe> pipe, Channel* channel)
    : pipe_(std::move(pipe)), channel_(channel) {
  pipe_->Attach(channel_);
}

bool MoveChannel::NextFrame(Frame* frame) {
  *frame = {kMoveDone, ""};
  return pipe_->TakeLast(&frame->payload);
}

Accept MoveChannel::OnFrame(Frame* frame) {
  if (frame->kind == kMoveBytes && !frame->payload.empty()) {
    return pipe_->TryPut(&frame->payload) ? Accept::kTaken : Accept::kLater;
  }
  channel_->Close(absl::InvalidArgumentError(
      absl::StrCat("frame kind ", frame->kind, " where a session's bytes were due")));
  return Accept::kTaken;
}

absl::StatusOr<std::vector<SessionCut>> ReceiveSessions(MovePipe* pipe, uint32_t count,
                                                        const MoveLimits& limits,
                                                        SwapSpace* space) {
  if (count > limits.sessions) {
    return absl::ResourceExhaustedError(
        absl::StrCat(count, " sessions of a lease that has ", limits.sessions, " at most"));
  }
  PipeSource source(pipe);
  std::vector<SessionCut> sessions;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < count; ++i) {
    auto manifest = ReadManifest(pipe);
    if (!manifest.ok()) return manifest.status();
    for (const auto& range : manifest->range()) {
      if (limits.memory_bytes != 0 && range.bytes() > limits.memory_bytes - bytes) {
        return absl::ResourceExhaustedError(absl::StrCat(
            "the sessions have more memory than their lease, ", limits.memory_bytes, " bytes"));
      }
      bytes += range.bytes();
    }
    auto cut = ReadParts(*std::move(manifest), space, &source);
    if (!cut.ok()) return cut.status();
    sessions.push_back(*std::move(cut));
  }
  return sessions;
}

}  // namespace warpline::server
