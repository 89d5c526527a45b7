// What gRPC keeps per process. Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_BASE_GRPC_PROCESS_H_
#define WARPLINE_TRANSPORT_GRPC_BASE_GRPC_PROCESS_H_

namespace warpline::grpc_internal {

// Starts gRPC, for good: stopping it with the last channel would wait up to ten seconds for a
// thread of its own. Its threads take no signals, and its error lines become ours, within a budget
// of the process. Thread-safe; calls after the first do nothing.
//
// gRPC's default way to poll has one thread of the process wait for all connections, so that a
// parked session takes the events of one that spins, and each message costs a switch of threads.
// With `poll_per_queue` each thread waits for its own. The environment is the only way to choose,
// and only before gRPC starts: it is for processes of our own, not for a guest in another's.
void StartGrpc(bool poll_per_queue);

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_BASE_GRPC_PROCESS_H_
