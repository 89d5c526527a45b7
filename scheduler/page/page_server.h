// Serves the page at an address of this host, in plain text.
#ifndef WARPLINE_SCHEDULER_PAGE_PAGE_SERVER_H_
#define WARPLINE_SCHEDULER_PAGE_PAGE_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "scheduler/page/page_handler.h"

struct mg_context;

namespace warpline::scheduler::page {

// OK for a loopback "host:port", and for empty, which is none. INVALID_ARGUMENT for no such
// address, PERMISSION_DENIED, saying what to do, for one that other hosts reach: credentials are
// sent there.
absl::Status CheckPageAddress(const std::string& address);

// Thread-safe. Its threads are civetweb's, one of which each connection keeps while it is answered:
// a request that is not there within `patience`, or an answer that is not read within it, is given
// up. Ends with its destructor, which waits for answers that are under way.
class PageServer {
 public:
  // More than silent connections of a careless client; a connection that is silent has one until
  // its patience is over.
  static constexpr int kThreads = 128;
  static constexpr int kWaitingConnections = 64;
  static constexpr int kMaxRequestBytes = 8192;
  static constexpr absl::Duration kPatience = absl::Seconds(2);

  // `handler` is borrowed. Null for an empty address; UNAVAILABLE when it cannot listen there.
  static absl::StatusOr<std::unique_ptr<PageServer>> Start(const std::string& address,
                                                           PageHandler* handler,
                                                           absl::Duration patience = kPatience);
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  int port() const { return port_; }

 private:
  PageServer() = default;

  mg_context* context_ = nullptr;
  int port_ = 0;
};

}  // namespace warpline::scheduler::page

#endif  // WARPLINE_SCHEDULER_PAGE_PAGE_SERVER_H_
