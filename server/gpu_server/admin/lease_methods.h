// Answers the methods of proto/leases.proto for a server without a scheduler, which gives out
// leases of its own.
#ifndef WARPLINE_SERVER_GPU_SERVER_ADMIN_LEASE_METHODS_H_
#define WARPLINE_SERVER_GPU_SERVER_ADMIN_LEASE_METHODS_H_

#include "server/gpu_server/leases/lease_book.h"
#include "server/gpu_server/session/session_host.h"
#include "transport/unary_methods.h"

namespace warpline::server {

// Adds the methods. Everybody who may open a session may have a lease. FAILED_PRECONDITION for a
// request with a slice or a ticket, which only schedulers know, and at a server that belongs to a
// scheduler; other errors are LeaseBook's. `host` and `book` are borrowed.
void AddLeaseMethods(SessionHost* host, LeaseBook* book, UnaryMethods* methods);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_ADMIN_LEASE_METHODS_H_
