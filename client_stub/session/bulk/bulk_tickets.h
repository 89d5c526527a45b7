// The puts and gets of a slot's connection: their numbers, and which puts are done.
#ifndef WARPLINE_CLIENT_STUB_SESSION_BULK_BULK_TICKETS_H_
#define WARPLINE_CLIENT_STUB_SESSION_BULK_BULK_TICKETS_H_

#include <cstdint>
#include <deque>

#include "client_stub/session/bulk_memory.h"

namespace warpline::stub {

// Guarded by its owner's lock.
class BulkTickets {
 public:
  // The connection now; it has had others before.
  uint64_t connection() const { return connection_; }

  BulkTicket NewPut() {
    const BulkTicket ticket = NewGet();
    puts_.push_back(ticket.number);
    return ticket;
  }
  BulkTicket NewGet() { return {connection_, ++numbers_}; }

  // So many puts of this connection have been written. False when there were not so many.
  bool SetPutsDone(uint64_t puts) {
    if (puts < puts_done_ || puts - puts_done_ > puts_.size()) return false;
    for (; puts_done_ < puts; ++puts_done_) puts_.pop_front();
    return true;
  }
  // Whether that put, and every one before that number, has been written.
  bool PutsDone(uint64_t number) const { return puts_.empty() || puts_.front() > number; }

  // The connection is lost, with all that was under way.
  void Lose() {
    ++connection_;
    numbers_ = puts_done_ = 0;
    puts_.clear();
  }

 private:
  uint64_t connection_ = 1;
  uint64_t numbers_ = 0;       // Puts and gets that have begun.
  std::deque<uint64_t> puts_;  // Numbers of those that are not done.
  uint64_t puts_done_ = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_BULK_BULK_TICKETS_H_
