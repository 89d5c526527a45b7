// What TCP carries between two hosts, with TLS or without: the measure for what Warpline makes of a
// network.
//
//   tcp_probe --listen=10.0.0.1:7000                       answers until it is killed
//   tcp_probe --connect=10.0.0.1:7000 --connections=4      prints figures, one JSON object a line
//
// With --tls_cert and --tls_key the one that listens speaks TLS, and with --tls the one that
// connects, which checks nobody's certificate: only the time matters.
//
// tcp_round_trip sends 4 bytes and waits for 4. The rates are of one direction at a time, by writes
// and reads of a megabyte, over all connections together. With TLS the names begin with tls.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "common/unique_fd.h"

ABSL_FLAG(std::string, listen, "", "ADDRESS:PORT on which to answer");
ABSL_FLAG(std::string, connect, "", "ADDRESS:PORT of a probe that listens");
ABSL_FLAG(std::string, tls_cert, "", "Certificate of the side that listens, for TLS");
ABSL_FLAG(std::string, tls_key, "", "Its key");
ABSL_FLAG(bool, tls, false, "Speak TLS to the side that listens");
ABSL_FLAG(int, connections, 4, "Connections at once for the rates");
ABSL_FLAG(int, mib, 1024, "Mebibytes in each direction");

namespace warpline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kPiece = 1u << 20;
constexpr size_t kRoundTrips = 20'000;
// Over a long way fewer are enough.
constexpr double kMostSeconds = 5;

// What a connection is for: its first bytes.
struct Wish {
  uint32_t answer;  // Bytes of each answer to 4 bytes; 0 for none.
  uint32_t pad;
  uint64_t send;  // Bytes to send.
  uint64_t take;  // Bytes to take, after which 4 are sent.
};

bool Address(const std::string& text, sockaddr_in* address) {
  const size_t colon = text.rfind(':');
  *address = {};
  address->sin_family = AF_INET;
  uint16_t port = 0;
  if (colon == std::string::npos) return false;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + colon + 1, end, port);
  address->sin_port = htons(port);
  return parsed.ec == std::errc() && parsed.ptr == end &&
         inet_pton(AF_INET, text.substr(0, colon).c_str(), &address->sin_addr) == 1;
}

SSL_CTX* TlsContext() {
  static SSL_CTX* const context = []() -> SSL_CTX* {
    const std::string cert = absl::GetFlag(FLAGS_tls_cert);
    if (cert.empty() && !absl::GetFlag(FLAGS_tls)) return nullptr;
    SSL_CTX* const made = SSL_CTX_new(cert.empty() ? TLS_client_method() : TLS_server_method());
    if (!cert.empty() && (SSL_CTX_use_certificate_chain_file(made, cert.c_str()) != 1 ||
                          SSL_CTX_use_PrivateKey_file(made, absl::GetFlag(FLAGS_tls_key).c_str(),
                                                      SSL_FILETYPE_PEM) != 1)) {
      ERR_print_errors_fp(stderr);
      std::exit(2);
    }
    return made;
  }();
  return context;
}

// A connection, with TLS where the flags say so.
class Stream {
 public:
  // Null when the two sides do not understand each other.
  static std::unique_ptr<Stream> Of(UniqueFd fd, bool listens) {
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    std::unique_ptr<Stream> stream(new Stream(std::move(fd)));
    if (TlsContext() == nullptr) return stream;
    stream->tls_ = SSL_new(TlsContext());
    SSL_set_fd(stream->tls_, stream->fd_.get());
    const int done = listens ? SSL_accept(stream->tls_) : SSL_connect(stream->tls_);
    return done == 1 ? std::move(stream) : nullptr;
  }
  ~Stream() { SSL_free(tls_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  bool Read(void* to, size_t bytes) {
    auto* at = static_cast<char*>(to);
    while (bytes > 0) {
      const ssize_t got = tls_ == nullptr ? read(fd_.get(), at, bytes)
                                          : SSL_read(tls_, at, static_cast<int>(bytes));
      if (got <= 0) return false;
      at += got;
      bytes -= static_cast<size_t>(got);
    }
    return true;
  }

  bool Write(const void* from, size_t bytes) {
    const auto* at = static_cast<const char*>(from);
    while (bytes > 0) {
      const ssize_t put = tls_ == nullptr ? send(fd_.get(), at, bytes, MSG_NOSIGNAL)
                                          : SSL_write(tls_, at, static_cast<int>(bytes));
      if (put <= 0) return false;
      at += put;
      bytes -= static_cast<size_t>(put);
    }
    return true;
  }

  bool Send(uint64_t bytes) {
    const std::string piece(kPiece, 'x');
    for (; bytes > 0; bytes -= std::min<uint64_t>(bytes, kPiece)) {
      if (!Write(piece.data(), std::min<uint64_t>(bytes, kPiece))) return false;
    }
    return true;
  }

  bool Take(uint64_t bytes) {
    std::string piece(kPiece, '\0');
    for (; bytes > 0; bytes -= std::min<uint64_t>(bytes, kPiece)) {
      if (!Read(piece.data(), std::min<uint64_t>(bytes, kPiece))) return false;
    }
    return true;
  }

 private:
  explicit Stream(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
  SSL* tls_ = nullptr;
};

void Serve(UniqueFd fd) {
  const auto stream = Stream::Of(std::move(fd), /*listens=*/true);
  Wish wish;
  char four[4] = {};
  if (stream == nullptr || !stream->Read(&wish, sizeof(wish))) return;
  if (!stream->Send(wish.send) || !stream->Take(wish.take)) return;
  if (wish.take > 0) stream->Write(four, sizeof(four));
  while (wish.answer > 0 && stream->Read(four, sizeof(four))) {
    if (!stream->Write(four, sizeof(four))) return;
  }
}

int Listen(const sockaddr_in& address) {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener.get(), 64) != 0) {
    std::perror("tcp_probe: cannot listen");
    return 1;
  }
  TlsContext();
  std::printf("listening\n");
  std::fflush(stdout);
  while (true) {
    UniqueFd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.valid()) return 1;
    std::thread([fd = std::move(fd)]() mutable { Serve(std::move(fd)); }).detach();
  }
}

// Null when nobody answers.
std::unique_ptr<Stream> Connect(const sockaddr_in& address, const Wish& wish) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return nullptr;
  }
  auto stream = Stream::Of(std::move(fd), /*listens=*/false);
  return stream != nullptr && stream->Write(&wish, sizeof(wish)) ? std::move(stream) : nullptr;
}

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void Print(const char* name, double value, const char* unit) {
  std::printf("{\"name\": \"%s_%s\", \"value\": %.4g, \"unit\": \"%s\"}\n",
              TlsContext() == nullptr ? "tcp" : "tls", name, value, unit);
}

bool PrintRoundTrip(const sockaddr_in& address) {
  const auto stream = Connect(address, {.answer = 4, .pad = 0, .send = 0, .take = 0});
  if (stream == nullptr) return false;
  std::vector<double> times;
  char four[4] = {};
  const auto began = Clock::now();
  while (times.size() < kRoundTrips && (times.empty() || SecondsSince(began) < kMostSeconds)) {
    const auto start = Clock::now();
    if (!stream->Write(four, sizeof(four)) || !stream->Read(four, sizeof(four))) return false;
    times.push_back(SecondsSince(start));
  }
  const auto median = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), median, times.end());
  Print("round_trip", *median * 1e6, "us");
  return true;
}

bool PrintRate(const sockaddr_in& address, bool out, const char* name) {
  const int connections = std::max(absl::GetFlag(FLAGS_connections), 1);
  const uint64_t all = static_cast<uint64_t>(std::max(absl::GetFlag(FLAGS_mib), 1)) << 20;
  const uint64_t bytes = all / static_cast<uint64_t>(connections);
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  const auto start = Clock::now();
  for (int i = 0; i < connections; ++i) {
    threads.emplace_back([&] {
      const Wish wish = {.answer = 0, .pad = 0, .send = out ? 0 : bytes, .take = out ? bytes : 0};
      const auto stream = Connect(address, wish);
      char four[4];
      const bool done =
          stream != nullptr &&
          (out ? stream->Send(bytes) && stream->Read(four, sizeof(four)) : stream->Take(bytes));
      if (!done) ++failed;
    });
  }
  for (std::thread& thread : threads) thread.join();
  const uint64_t sum = bytes * static_cast<uint64_t>(connections);
  Print(name, static_cast<double>(sum) / SecondsSince(start) / 1e9, "GB/s");
  return failed == 0;
}

int Main() {
  sockaddr_in address;
  const std::string listen = absl::GetFlag(FLAGS_listen);
  const std::string connect = absl::GetFlag(FLAGS_connect);
  if (listen.empty() == connect.empty() || !Address(listen + connect, &address)) {
    std::fprintf(stderr, "tcp_probe: say either --listen=ADDRESS:PORT or --connect=ADDRESS:PORT\n");
    return 2;
  }
  if (!listen.empty()) return Listen(address);
  if (PrintRoundTrip(address) && PrintRate(address, /*out=*/true, "out") &&
      PrintRate(address, /*out=*/false, "in")) {
    return 0;
  }
  std::perror("tcp_probe: the other side is not there");
  return 1;
}

}  // namespace
}  // namespace warpline

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Measures what plain TCP carries between two hosts.");
  absl::ParseCommandLine(argc, argv);
  return warpline::Main();
}
