// Whether a request for the page was meant for it.
#ifndef WARPLINE_SCHEDULER_PAGE_OWN_HOST_H_
#define WARPLINE_SCHEDULER_PAGE_OWN_HOST_H_

#include "absl/strings/string_view.h"

namespace warpline::scheduler::page {

// True for a Host header ("localhost:14180", "127.0.0.1", "[::1]:80") that names a loopback address
// or localhost, as the page's own address always does. A browser that another site has led here
// sends that site's name, also where the site had its name resolve to this host.
bool IsOwnHost(absl::string_view host);

// The same for an Origin header ("http://localhost:14180").
bool IsOwnOrigin(absl::string_view origin);

}  // namespace warpline::scheduler::page

#endif  // WARPLINE_SCHEDULER_PAGE_OWN_HOST_H_
