#include "tests/attack/wire_session.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/cuda/cuda_numbers.h"
#include "proto/frames.h"
#include "proto/refusal.h"
#include "tests/hostile/commands.h"

namespace warpline::attack {

using hostile::RawClient;
using warpline_internal::Hello;
using warpline_internal::MemoryGrant;
using warpline_internal::MemoryRequest;

Hello HonestHello(bool resumable) {
  Hello hello;
  hello.ParseFromString(hostile::ValidHello(resumable));
  // Sessions meet on one device where a host has several.
  hello.set_device("0");
  return hello;
}

MemoryRequest Request(uint64_t id, uint64_t va, uint64_t bytes) {
  MemoryRequest request;
  request.set_id(id);
  request.set_va(va);
  request.set_min_bytes(bytes);
  request.set_want_bytes(bytes);
  return request;
}

absl::StatusOr<std::unique_ptr<WireSession>> WireSession::Open(const WireTarget& target,
                                                               bool resumable) {
  return OpenAt(target, kArena, resumable);
}

absl::StatusOr<std::unique_ptr<WireSession>> WireSession::OpenAt(const WireTarget& target,
                                                                 uint64_t arena, bool resumable) {
  Hello hello = HonestHello(resumable);
  hello.set_arena_base(arena);
  hello.mutable_initial_memory()->set_va(arena + (kOwn - kArena));
  hello.set_tier(static_cast<uint32_t>(target.tier));
  if (target.tier == Tier::kIsolated) return OpenWith(target, hello);
  hello.set_features(hello.features() | kFeatureTiers);
  // The arena of a session that ends is free a moment later.
  const absl::Time deadline = absl::Now() + kPatience;
  auto session = OpenWith(target, hello);
  while (RefusalOf(session.status()).reason() == warpline_internal::Refusal::ARENA_UNAVAILABLE &&
         absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(10));
    session = OpenWith(target, hello);
  }
  return session;
}

absl::StatusOr<std::unique_ptr<WireSession>> WireSession::OpenWith(const WireTarget& target,
                                                                   const Hello& hello) {
  auto client = RawClient::Connect(target.endpoint, target.tls);
  if (!client.ok()) return client.status();
  std::unique_ptr<WireSession> session(new WireSession);
  session->client_ = *std::move(client);
  session->client_->Send(kHello, hello.SerializeAsString());
  const auto welcome = session->client_->Expect(kWelcome, kPatience);
  if (!welcome.ok()) return welcome.status();
  if (!session->welcome_.ParseFromString(*welcome)) return absl::InternalError("no welcome");
  return session;
}

void WireSession::Submit() {
  if (count_ == 0) return;
  client_->Send(kCommands, hostile::CommandsPayload(submitted_, count_, commands_));
  submitted_ = next_seq_;
  count_ = 0;
  commands_.clear();
}

absl::Status WireSession::TakeReplies(std::string_view payload) {
  for (ReplyReader reader(payload); !reader.Done();) {
    const auto reply = reader.Next();
    if (!reply.ok()) return reply.status();
    std::string_view body = reply->body;
    ReplyBody answer;
    notice::Failed failed;
    notice::CopyData data;
    notice::Output output;
    if (reply->id == ReplyId::kReply && TakeStruct(&body, &answer)) {
      replies_[reply->seq] = {answer.result, std::string(body)};
    } else if (reply->id == ReplyId::kFailed && TakeStruct(&body, &failed)) {
      failures_[reply->seq] = failed.result;
    } else if (reply->id == ReplyId::kCopyData && TakeStruct(&body, &data)) {
      copied_[reply->seq].append(body);
    } else if (reply->id == ReplyId::kOutput && TakeStruct(&body, &output)) {
      output_.append(body);
    }
  }
  return absl::OkStatus();
}

absl::Status WireSession::Take() {
  auto frame = client_->Next(kPatience);
  if (!frame.ok()) return frame.status();
  if (frame->kind == kReplies) return TakeReplies(frame->payload);
  if (frame->kind == kFault) {
    warpline_internal::Fault fault;
    fault.ParseFromString(frame->payload);
    return absl::UnavailableError(
        absl::StrCat("error ", fault.error(), " ended the session: ", fault.message()));
  }
  MemoryGrant grant;
  if (frame->kind == kMemoryGrant && grant.ParseFromString(frame->payload)) {
    grants_[grant.id()] = std::move(grant);
  }
  return absl::OkStatus();
}

absl::StatusOr<int> WireSession::Await(uint64_t seq) {
  while (!replies_.contains(seq)) {
    if (const absl::Status taken = Take(); !taken.ok()) return taken;
  }
  return replies_[seq].first;
}

std::string WireSession::TakeReply(uint64_t seq) { return std::move(replies_[seq].second); }

absl::StatusOr<std::string> WireSession::Read(uint64_t address, uint64_t bytes) {
  const uint64_t seq = Add(cmd::CopyFromDevice{kLegacyStreamHandle, address, bytes});
  Submit();
  const auto result = Await(seq);
  if (!result.ok()) return result.status();
  if (*result != 0) return absl::InvalidArgumentError(absl::StrCat("CUDA error ", *result));
  return std::move(copied_[seq]);
}

absl::StatusOr<MemoryGrant> WireSession::Ask(const MemoryRequest& request) {
  client_->Send(kMemoryRequest, request.SerializeAsString());
  while (!grants_.contains(request.id())) {
    if (const absl::Status taken = Take(); !taken.ok()) return taken;
  }
  MemoryGrant grant = std::move(grants_[request.id()]);
  grants_.erase(request.id());
  return grant;
}

absl::StatusOr<int> WireSession::Load(uint64_t module, std::string_view image) {
  const uint64_t handle = 1'000'000 + module;
  Add(cmd::ImageData{handle, image.size(), 0}, image);
  Add(cmd::ModuleLoad{module, handle});
  return Call(cmd::ModuleCheck{module});
}

WireResult JudgeRefusal(const absl::StatusOr<int>& result, const std::string& what) {
  if (!result.ok()) {
    const std::string why(result.status().message());
    if (absl::IsDeadlineExceeded(result.status())) return Succeeded(what + ": no answer");
    return SaysCrashed(why) ? Succeeded(absl::StrCat(what, ": ", why))
                            : Stopped(absl::StrCat(what, ": ", why));
  }
  if (*result != 0) return Stopped(absl::StrCat(what, ": CUDA error ", *result));
  return Succeeded(absl::StrCat(what, ": done"));
}

}  // namespace warpline::attack
