// Puts a meter (http2_meter.h) into connections that gRPC reads, whether in plain text or with TLS,
// and cuts those that flood.
//
// gRPC has no place for one: it takes a descriptor and reads it itself, and what TLS carries is
// seen only inside of OpenSSL. So the program has functions of its own under the names by which
// gRPC calls recvmsg(), sendmsg(), SSL_read() and SSL_write(); they call the library's. All other
// callers in the process get the same functions, which do nothing more for descriptors that are not
// metered, nor for clients of TLS. Decision 0060 compares this with the alternatives.
// Private to transport/grpc.
#ifndef WARPLINE_TRANSPORT_GRPC_METER_METERED_CONNECTIONS_H_
#define WARPLINE_TRANSPORT_GRPC_METER_METERED_CONNECTIONS_H_

#include <cstdint>
#include <string>

namespace warpline::grpc_internal {

// Meters what gRPC reads from and writes to `fd`, a socket that has just been accepted, until it is
// closed. `peer` names it in the log. Returns false if there is no place for a descriptor of that
// number. Thread-safe.
bool MeterConnection(int fd, std::string peer);

// Tells the meter of `fd` whether a session is on its connection, whose windows are for that one.
// Thread-safe.
void AdmitConnection(int fd, bool admitted);

// Return how many streams were opened on connections that are metered, and how many connections
// were cut, since the process began. Thread-safe.
uint64_t MeteredStreams();
uint64_t CutConnections();

}  // namespace warpline::grpc_internal

#endif  // WARPLINE_TRANSPORT_GRPC_METER_METERED_CONNECTIONS_H_
