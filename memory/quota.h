// A bound on bytes that are handed out, and reservations that cannot leak.
//
//   const std::shared_ptr<Quota> quota = Quota::Create(uint64_t{8} << 30);
//   Reservation held = quota->Reserve(min_bytes, want_bytes, kChunkGranularity);
//   if (held.bytes() < min_bytes) return absl::ResourceExhaustedError("...");
//   held.ShrinkTo(used_bytes);  // The rest goes back; `held` gives back what is left when it ends.
#ifndef WARPLINE_MEMORY_QUOTA_H_
#define WARPLINE_MEMORY_QUOTA_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace warpline {

class Quota;

// A hold on some bytes of a Quota; destroying it gives them back. Thread-compatible.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept
      : quota_(std::move(other.quota_)), bytes_(std::exchange(other.bytes_, 0)) {}
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { ShrinkTo(0); }

  uint64_t bytes() const { return bytes_; }
  // Null when it never held anything.
  const Quota* quota() const { return quota_.get(); }
  // Gives back all but `bytes`. Does nothing when it holds less.
  void ShrinkTo(uint64_t bytes);
  // Hands over a hold on `bytes` of what it holds, or on all of it when it holds less.
  Reservation Split(uint64_t bytes);
  // Takes over a hold. REQUIRES: `other` is on the same quota.
  void Merge(Reservation other);

 private:
  friend class Quota;
  Reservation(std::shared_ptr<Quota> quota, uint64_t bytes)
      : quota_(std::move(quota)), bytes_(bytes) {}

  // Shared, because memory is still being reclaimed after the session that owned the quota is gone.
  std::shared_ptr<Quota> quota_;
  uint64_t bytes_ = 0;
};

// Counts what is reserved against a limit. Thread-safe.
class Quota : public std::enable_shared_from_this<Quota> {
 public:
  static constexpr uint64_t kUnbounded = ~uint64_t{0};

  // The bytes may be held in `limit_pieces` pieces at most, which count for themselves.
  static std::shared_ptr<Quota> Create(uint64_t limit_bytes, uint64_t limit_pieces = kUnbounded) {
    return CreateWithin(nullptr, limit_bytes, limit_pieces);
  }
  // The same as a part of `whole`: what is reserved of it is reserved of both. Null for none.
  static std::shared_ptr<Quota> CreateWithin(std::shared_ptr<Quota> whole, uint64_t limit_bytes,
                                             uint64_t limit_pieces = kUnbounded) {
    std::shared_ptr<Quota> quota(new Quota(limit_bytes, std::move(whole)));
    quota->pieces_.reset(new Quota(limit_pieces, nullptr));
    return quota;
  }

  // Reserves as much of `want_bytes` as is left, in whole multiples of `unit_bytes`, or nothing
  // when that is less than `min_bytes`.
  Reservation Reserve(uint64_t min_bytes, uint64_t want_bytes, uint64_t unit_bytes);

  // Whether it is `other`, or a part of it.
  bool IsOf(const Quota& other) const { return this == &other || whole_.get() == &other; }
  // Of this quota and the one that it is part of, that of which less is left.
  const Quota& scarcer() const;

  // A quota of which each byte is one piece.
  const std::shared_ptr<Quota>& pieces() const { return pieces_; }

  uint64_t limit_bytes() const { return limit_bytes_; }
  uint64_t used_bytes() const;

 private:
  friend class Reservation;
  Quota(uint64_t limit_bytes, std::shared_ptr<Quota> whole)
      : limit_bytes_(limit_bytes), whole_(std::move(whole)) {}
  // Without a Reservation: returns how much.
  uint64_t Count(uint64_t min_bytes, uint64_t want_bytes, uint64_t unit_bytes);
  void Release(uint64_t bytes);

  const uint64_t limit_bytes_;
  const std::shared_ptr<Quota> whole_;  // Null where it is no part of another.
  std::shared_ptr<Quota> pieces_;       // Constant after Create(). Null for a quota of pieces.
  mutable Mutex mu_;
  uint64_t used_bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace warpline

#endif  // WARPLINE_MEMORY_QUOTA_H_
