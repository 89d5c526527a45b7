// Cuts a list into the parts in which it is told (Page in admin.proto).
//
//   PageCut page(request.page());
//   for (const Lease& lease : leases) {       // in the order of their keys
//     if (!page.Takes(lease.id)) continue;
//     page.Add(Fill(lease, list.add_leases()));
//   }
//   return page.Finish(std::move(list));
#ifndef WARPLINE_PROTO_PAGE_H_
#define WARPLINE_PROTO_PAGE_H_

#include <google/protobuf/message_lite.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "proto/admin.pb.h"

namespace warpline {

// The most that a message may have that is told in parts: less than a peer takes, which is
// kMaxFramePayload of transport/channel.h.
inline constexpr size_t kMostPartBytes = 1u << 20;

// A number as a key: the order of such texts is that of the numbers.
std::string PageKey(uint64_t number);

// Thread-compatible.
class PageCut {
 public:
  explicit PageCut(const warpline_internal::Page& asked);

  // Returns whether the item with this key belongs to the part that is asked for. No key is empty;
  // each is greater than the one before, and valid UTF-8.
  bool Takes(const std::string& key);
  // Counts what was added to the answer for the last key that was taken.
  void Add(const google::protobuf::MessageLite& added) { bytes_ += added.ByteSizeLong() + 8; }

  // Returns the answer with its `next`. RESOURCE_EXHAUSTED where there is more to tell than one
  // part holds and the caller knows no parts.
  template <typename Answer>
  absl::StatusOr<Answer> Finish(Answer answer) const {
    if (auto status = Check(); !status.ok()) return status;
    if (cut_) answer.set_next(last_);
    return answer;
  }

 private:
  absl::Status Check() const;

  const std::string after_;
  const bool knows_parts_;
  const size_t most_bytes_;
  size_t bytes_ = 0;
  bool cut_ = false;
  std::string last_;  // The last key that was taken.
};

}  // namespace warpline

#endif  // WARPLINE_PROTO_PAGE_H_
