#include "transport/grpc/meter/metered_connections.h"

#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/log/keyed_log_budget.h"
#include "common/mutex.h"
#include "common/steady_time.h"
#include "transport/grpc/meter/http2_meter.h"
#include "transport/grpc/meter/socket_inode.h"

namespace warpline::grpc_internal {
namespace {

// The first byte of a TLS connection: a record of type handshake (RFC 8446, section 5.1).
constexpr char kTlsHandshake = 22;

constexpr size_t kBlock = 4096;
constexpr size_t kBlocks = 1024;

constexpr LogKind kEach[] = {{"connections_cut", 10, absl::Minutes(1)}};
constexpr LogKind kAll[] = {{"connections_cut", 100, absl::Seconds(10)}};

KeyedLogBudgetOptions LogOptions() {
  KeyedLogBudgetOptions options;
  options.each = kEach;
  options.all = kAll;
  return options;
}

// What all connections share. Threads of gRPC use it until the process is gone.
struct Shared {
  AbandonedStreams abandoned;
  UnreadBytes unread;
  std::atomic<uint64_t> streams{0};
  std::atomic<uint64_t> cut{0};
  KeyedLogBudget log{LogOptions()};
};

Shared& shared() {
  static Shared* const made = new Shared;
  return *made;
}

// A meter with its lock: one thread may read a connection while another one writes to it.
class Meter {
 public:
  // `admitted` tells whether a session is on the connection. For TLS the meter of what is decrypted
  // shares it with that of the descriptor.
  Meter(std::string peer, std::shared_ptr<std::atomic<bool>> admitted)
      : peer_(std::move(peer)), admitted_(std::move(admitted)) {}

  // Returns false if the connection is to be cut.
  bool Received(std::string_view bytes) {
    const absl::Time now = SteadyNow();
    MutexLock lock(&mu_);
    const uint64_t before = meter_.opened();
    meter_.SetAdmitted(admitted_->load(std::memory_order_relaxed));
    const char* const flood = meter_.Received(bytes, now);
    shared().streams.fetch_add(meter_.opened() - before, std::memory_order_relaxed);
    if (flood == nullptr) return true;
    if (std::exchange(cut_, true)) return false;
    shared().cut.fetch_add(1, std::memory_order_relaxed);
    // The port is another one each time.
    const std::string_view address = std::string_view(peer_).substr(0, peer_.rfind(':'));
    if (const LogPermit permit = shared().log.Ask(address, 0)) {
      permit.Warning("cut a connection that floods: too many ", flood, " peer=", peer_);
    }
    return false;
  }
  void Sent(std::string_view bytes) {
    const absl::Time now = SteadyNow();
    MutexLock lock(&mu_);
    meter_.Sent(bytes, now);
  }

  const std::string& peer() const { return peer_; }
  const std::shared_ptr<std::atomic<bool>>& admitted() const { return admitted_; }

 private:
  const std::string peer_;
  const std::shared_ptr<std::atomic<bool>> admitted_;
  Mutex mu_;
  Http2Meter meter_ ABSL_GUARDED_BY(mu_){&shared().abandoned, &shared().unread};
  bool cut_ ABSL_GUARDED_BY(mu_) = false;
};

// The connections by descriptor. An entry stays when its descriptor is closed; the next connection
// of that number replaces it, and another file of that number is told by its inode.
class Connections {
 public:
  struct Entry {
    explicit Entry(std::string peer)
        : meter(std::move(peer), std::make_shared<std::atomic<bool>>(false)) {}
    Meter meter;
    ino_t inode = 0;
    // Whether it is TLS: known with the first byte.
    std::atomic<bool> begun{false};
    std::atomic<bool> tls{false};
  };

  bool Set(int fd, std::shared_ptr<Entry> entry) {
    Slot* const slot = Find(fd, /*make=*/true);
    if (slot == nullptr) return false;
    MutexLock lock(&slot->mu);
    slot->entry = std::move(entry);
    slot->used.store(true, std::memory_order_release);
    return true;
  }

  // Returns nullptr for a descriptor that is not metered.
  std::shared_ptr<Entry> Get(int fd) {
    Slot* const slot = Find(fd, /*make=*/false);
    if (slot == nullptr || !slot->used.load(std::memory_order_acquire)) return nullptr;
    MutexLock lock(&slot->mu);
    return slot->entry;
  }

  void Drop(int fd, const std::shared_ptr<Entry>& entry) {
    Slot* const slot = Find(fd, /*make=*/false);
    MutexLock lock(&slot->mu);
    if (slot->entry != entry) return;
    slot->entry = nullptr;
    slot->used.store(false, std::memory_order_release);
  }

 private:
  struct Slot {
    std::atomic<bool> used{false};
    Mutex mu;
    std::shared_ptr<Entry> entry ABSL_GUARDED_BY(mu);
  };
  using Block = std::array<Slot, kBlock>;

  Slot* Find(int fd, bool make) {
    if (fd < 0 || static_cast<size_t>(fd) >= kBlock * kBlocks) return nullptr;
    std::atomic<Block*>& place = blocks_[static_cast<size_t>(fd) / kBlock];
    Block* block = place.load(std::memory_order_acquire);
    if (block == nullptr && make) {
      auto fresh = std::make_unique<Block>();
      if (place.compare_exchange_strong(block, fresh.get())) block = fresh.release();
    }
    return block == nullptr ? nullptr : &(*block)[static_cast<size_t>(fd) % kBlock];
  }

  std::array<std::atomic<Block*>, kBlocks> blocks_ = {};
};

std::atomic<Connections*> g_connections{nullptr};

Connections& connections() {
  static Connections* const made = [] {
    g_connections.store(new Connections, std::memory_order_release);
    return g_connections.load();
  }();
  return *made;
}

std::shared_ptr<Connections::Entry> Metered(int fd) {
  Connections* const all = g_connections.load(std::memory_order_acquire);
  return all == nullptr ? nullptr : all->Get(fd);
}

// The metered connection from which this thread has read ciphertext last: gRPC decrypts what it has
// read at once.
thread_local std::shared_ptr<Connections::Entry> t_read_last;

// Calls `use` with each piece of the first `bytes` bytes of a message.
template <typename Use>
void ForEachPiece(const msghdr& message, size_t bytes, Use use) {
  for (size_t i = 0; i < message.msg_iovlen && bytes > 0; ++i) {
    const iovec& piece = message.msg_iov[i];
    const size_t part = std::min(bytes, piece.iov_len);
    use(std::string_view(static_cast<const char*>(piece.iov_base), part));
    bytes -= part;
  }
}

// Returns false if the connection is to be cut.
bool Received(int fd, const msghdr& message, size_t bytes) {
  const std::shared_ptr<Connections::Entry> entry = Metered(fd);
  if (entry == nullptr || bytes == 0) return true;
  bool goes_on = true;
  ForEachPiece(message, bytes, [&](std::string_view piece) {
    if (piece.empty()) return;
    if (!entry->begun.exchange(true)) entry->tls.store(piece.front() == kTlsHandshake);
    if (!entry->tls.load()) goes_on = goes_on && entry->meter.Received(piece);
  });
  if (entry->tls.load() && t_read_last != entry) t_read_last = entry;
  if (goes_on) return true;
  // Nothing is left of a connection that is cut. The number may belong to another file by now,
  // whose bytes look like a flood.
  connections().Drop(fd, entry);
  return SocketInode(fd) != entry->inode;
}

// Nothing more comes from a connection.
void Ended(int fd) {
  const std::shared_ptr<Connections::Entry> entry = Metered(fd);
  if (entry != nullptr) connections().Drop(fd, entry);
}

void Sent(int fd, const msghdr& message, size_t bytes) {
  const std::shared_ptr<Connections::Entry> entry = Metered(fd);
  if (entry == nullptr || entry->tls.load()) return;
  ForEachPiece(message, bytes, [&](std::string_view piece) { entry->meter.Sent(piece); });
}

// ---- TLS.

void FreeMeter(void*, void* meter, CRYPTO_EX_DATA*, int, long, void*) {
  delete static_cast<Meter*>(meter);
}

// Returns the meter of a server's connection, which is made when it is first asked for; nullptr for
// a client's.
Meter* MeterOf(SSL* ssl) {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, &FreeMeter);
  if (SSL_is_server(ssl) == 0) return nullptr;
  auto* meter = static_cast<Meter*>(SSL_get_ex_data(ssl, index));
  if (meter == nullptr) {
    meter = t_read_last == nullptr
                ? new Meter("unknown", std::make_shared<std::atomic<bool>>(false))
                : new Meter(t_read_last->meter.peer(), t_read_last->meter.admitted());
    SSL_set_ex_data(ssl, index, meter);
  }
  return meter;
}

template <typename Function>
Function* NextOf(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

int ReadTls(SSL* ssl, void* buffer, int bytes) {
  static auto* const read = NextOf<int(SSL*, void*, int)>("SSL_read");
  const int got = read(ssl, buffer, bytes);
  if (got <= 0) return got;
  Meter* const meter = MeterOf(ssl);
  const std::string_view text(static_cast<const char*>(buffer), static_cast<size_t>(got));
  if (meter == nullptr || meter->Received(text)) return got;
  // For the caller the connection has broken the protocol.
  ERR_raise(ERR_LIB_SSL, SSL_R_UNEXPECTED_MESSAGE);
  return -1;
}

int WriteTls(SSL* ssl, const void* buffer, int bytes) {
  static auto* const write = NextOf<int(SSL*, const void*, int)>("SSL_write");
  const int done = write(ssl, buffer, bytes);
  if (done <= 0) return done;
  Meter* const meter = MeterOf(ssl);
  const std::string_view text(static_cast<const char*>(buffer), static_cast<size_t>(done));
  if (meter != nullptr) meter->Sent(text);
  return done;
}

}  // namespace

bool MeterConnection(int fd, std::string peer) {
  auto entry = std::make_shared<Connections::Entry>(std::move(peer));
  entry->inode = SocketInode(fd);
  return connections().Set(fd, std::move(entry));
}

void AdmitConnection(int fd, bool admitted) {
  const std::shared_ptr<Connections::Entry> entry = Metered(fd);
  if (entry != nullptr && SocketInode(fd) == entry->inode) {
    entry->meter.admitted()->store(admitted, std::memory_order_relaxed);
  }
}

uint64_t MeteredStreams() { return shared().streams.load(std::memory_order_relaxed); }
uint64_t CutConnections() { return shared().cut.load(std::memory_order_relaxed); }

}  // namespace warpline::grpc_internal

// The functions that gRPC finds instead of the libraries'.
extern "C" {

__attribute__((visibility("default"))) ssize_t recvmsg(int fd, msghdr* message, int flags) {
  const ssize_t got = syscall(SYS_recvmsg, fd, message, flags);
  if (got == 0) warpline::grpc_internal::Ended(fd);
  if (got <= 0 || (flags & (MSG_PEEK | MSG_ERRQUEUE)) != 0) return got;
  if (warpline::grpc_internal::Received(fd, *message, static_cast<size_t>(got))) return got;
  (void)shutdown(fd, SHUT_RDWR);
  errno = ECONNRESET;
  return -1;
}

__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  const ssize_t sent = syscall(SYS_sendmsg, fd, message, flags);
  if (sent > 0) warpline::grpc_internal::Sent(fd, *message, static_cast<size_t>(sent));
  return sent;
}

__attribute__((visibility("default"))) int SSL_read(SSL* ssl, void* buffer, int bytes) {
  return warpline::grpc_internal::ReadTls(ssl, buffer, bytes);
}

__attribute__((visibility("default"))) int SSL_write(SSL* ssl, const void* buffer, int bytes) {
  return warpline::grpc_internal::WriteTls(ssl, buffer, bytes);
}

}  // extern "C"
