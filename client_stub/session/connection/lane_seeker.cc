#include "client_stub/session/connection/lane_seeker.h"

#include <cstddef>

#include "client_stub/session/status/session_log.h"
#include "proto/frames.h"
#include "proto/session.pb.h"

namespace warpline::stub {
namespace {

constexpr size_t kMaxText = 256;

}  // namespace

void LaneSeeker::Start() {
  started_.store(true);
  Ask();
}

void LaneSeeker::Ask() { control_->Push({kLaneAsk, std::string()}); }

bool LaneSeeker::OnLane(std::string_view payload) {
  warpline_internal::Lane lane;
  if (!started_.load() || !lane.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return false;
  }
  if (lane.address().empty()) {
    if (const LogPermit permit = log_->Ask(kNoLaneLine)) {
      permit.Info("the session does not go on over UCX: ", lane.refusal().substr(0, kMaxText));
    }
    return true;
  }
  bulk_endpoint_ = lane.bulk_endpoint();
  secret_ = lane.secret();
  connection_->MoveTo({.endpoint = lane.address(), .secret = lane.secret(), .once = true});
  return true;
}

// One that could not be reached is not asked for again.
void LaneSeeker::OnResumed(bool moved, bool by_lane) {
  if (!started_.load()) return;
  on_bulk_(by_lane ? bulk_endpoint_ : "", by_lane ? secret_ : "");
  if (!moved) Ask();
}

}  // namespace warpline::stub
