// What the page answers to a request: its files to everybody, and the pool as JSON to who shows a
// credential. It knows HTTP's words and no connection, so it is tested without one.
#ifndef WARPLINE_SCHEDULER_PAGE_PAGE_HANDLER_H_
#define WARPLINE_SCHEDULER_PAGE_PAGE_HANDLER_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "scheduler/page/pool_source.h"
#include "scheduler/page/sign_in.h"
#include "scheduler/page/view_cache.h"

namespace warpline::scheduler::page {

// Nothing of it is trusted.
struct PageRequest {
  std::string method;
  std::string path;  // As it was sent, with what follows a '?'.
  std::string authorization = {};
  std::string if_none_match = {};
  // Empty where the request has none. Browsers always send a host.
  std::string host = {};
  std::string origin = {};
  std::string peer = {};  // The address that it came from.
};

struct PageResponse {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers = {};
  // What the body is, with Content-Type; empty for none. HEAD gets none.
  absl::string_view body = {};
  // Keeps the body's bytes.
  std::shared_ptr<const void> keeps = {};
};

// Those that every answer has.
const std::vector<std::pair<std::string, std::string>>& SafetyHeaders();

// Thread-safe.
class PageHandler {
 public:
  // `source` is borrowed.
  PageHandler(PoolSource* source, const std::function<absl::Time()>& clock)
      : sign_in_(source, clock), views_(source, clock) {}

  PageResponse Answer(const PageRequest& request);

 private:
  PageResponse AnswerPool(const PageRequest& request);

  SignIn sign_in_;
  ViewCache views_;
};

}  // namespace warpline::scheduler::page

#endif  // WARPLINE_SCHEDULER_PAGE_PAGE_HANDLER_H_
