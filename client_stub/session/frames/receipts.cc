#include "client_stub/session/frames/receipts.h"

#include <string>

#include "proto/frames.h"

namespace warpline::stub {

void Receipts::NoteTaken(uint64_t bytes) {
  ++taken_;
  ++unsaid_frames_;
  unsaid_bytes_ += bytes;
}

void Receipts::NoteSaid() {
  unsaid_frames_ = 0;
  unsaid_bytes_ = 0;
}

bool Receipts::NextAck(Frame* frame) {
  if (!counts_ || (unsaid_frames_ < kAckFrames && unsaid_bytes_ < kAckBytes)) return false;
  const AckBody body = {taken_};
  *frame = {kAck, std::string(reinterpret_cast<const char*>(&body), sizeof(body))};
  NoteSaid();
  return true;
}

}  // namespace warpline::stub
