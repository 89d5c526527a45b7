#include "server/gpu_server/session/session_client.h"

#include <utility>

#include "proto/frames.h"
#include "server/gpu_server/session/connection/message_frame.h"

namespace warpline::server {

bool SessionClient::CountIfRoom() {
  if (pending_.fetch_add(1) < max_pending_) return true;
  pending_.fetch_sub(1);
  return false;
}

bool SessionClient::TryCount() {
  if (CountIfRoom()) return true;
  one_waits_.store(true);
  // What ended before that did not see it.
  return CountIfRoom();
}

void SessionClient::Done() {
  pending_.fetch_sub(1);
  if (one_waits_.load() && one_waits_.exchange(false)) port_->Wake();
}

void SessionClient::NoteRefusedMemory(const std::string& why) {
  port_->traffic().memory_refused.Add(1);
  memory_refusal_ = why;
}

void SessionClient::Push(warpline_internal::MemoryGrant grant) {
  if (grant.bytes() == 0) NoteRefusedMemory(grant.message());
  if (first_grant_) return std::exchange(first_grant_, nullptr)(std::move(grant));
  port_->Push(FrameOf(kMemoryGrant, grant));
}

// A worker may have as many requests refused as it likes, and its client may read nothing.
void SessionClient::SayRefused(const std::string& why) {
  NoteRefusedMemory(why);
  if (!tells_refusals_ || port_->Backlog() >= kMaxBacklog) return;
  warpline_internal::MemoryRefused refused;
  refused.set_message(why);
  port_->Push(FrameOf(kRefused, refused));
}

void SessionClient::AnswerRead(warpline_internal::ReadBackDone done, std::string data) {
  done.set_data(std::move(data));
  Done();
  port_->PushAfterFault(FrameOf(kReadBackDone, done));
}

}  // namespace warpline::server
