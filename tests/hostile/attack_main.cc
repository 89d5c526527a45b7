// Attacks a server with messages that no honest client sends, and prints how many there were.
//
//   attack --endpoint=HOST:PORT --messages=100000 --vanish=200 --seed=1
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/session.pb.h"
#include "tests/hostile/commands.h"
#include "tests/hostile/raw_client.h"

ABSL_FLAG(std::string, endpoint, "", "HOST:PORT of the server, on this machine");
ABSL_FLAG(int, messages, 100000, "mutated messages to send");
ABSL_FLAG(int, vanish, 200, "clients that vanish in the middle of something");
ABSL_FLAG(uint64_t, seed, 1, "of the random numbers");

namespace warpline::hostile {
namespace {

struct Score {
  int sessions = 0;
  int refused = 0;
  int64_t messages = 0;
};

std::unique_ptr<RawClient> MustConnect(const std::string& endpoint) {
  for (int attempt = 0; attempt < 600; ++attempt) {
    auto client = RawClient::Connect(endpoint);
    if (client.ok()) return *std::move(client);
    // The server is full for the moment: sessions that just ended are still being cleared away.
    usleep(100'000);
  }
  return nullptr;
}

std::unique_ptr<RawClient> MustOpen(const std::string& endpoint, bool resumable = false) {
  for (int attempt = 0; attempt < 600; ++attempt) {
    std::unique_ptr<RawClient> client = MustConnect(endpoint);
    if (client == nullptr) return nullptr;
    if (client->Open(resumable).ok()) return client;
    usleep(100'000);
  }
  return nullptr;
}

std::string WrongHello(Random& random) {
  warpline_internal::Hello hello;
  hello.ParseFromString(ValidHello());
  switch (random() % 6) {
    case 0:
      hello.set_min_version(99);
      hello.set_max_version(120);
      break;
    case 1:
      hello.set_max_version(0);
      break;
    case 2:
      hello.set_arena_base(hello.arena_base() + 4096);
      break;
    case 3:
      hello.set_arena_bytes(random());
      break;
    case 4:
      hello.set_device(std::string(random() % 2000, '\x01'));
      break;
    default:
      hello.mutable_initial_memory()->set_va(random());
      hello.mutable_initial_memory()->set_want_bytes(random());
      break;
  }
  std::string bytes = hello.SerializeAsString();
  if (random() % 2 == 0) Mutate(random, &bytes);
  return bytes;
}

// Starts sessions that never open.
bool AttackOpening(const std::string& endpoint, Random& random, int count, Score* score) {
  for (int i = 0; i < count; ++i) {
    std::unique_ptr<RawClient> client = MustConnect(endpoint);
    if (client == nullptr) return false;
    ++score->sessions;
    ++score->messages;
    if (random() % 4 == 0) {
      client->Send(random() % 32, std::string(random() % 5000, static_cast<char>(random())));
    } else {
      client->Send(kHello, WrongHello(random));
    }
    client->Flush();
    if (!client->Expect(kWelcome, absl::Seconds(20)).ok()) ++score->refused;
  }
  return true;
}

// Tries to resume sessions as a stranger, with guessed and mutated messages.
bool AttackResumption(const std::string& endpoint, Random& random, int count, Score* score) {
  for (int i = 0; i < count; ++i) {
    std::unique_ptr<RawClient> client = MustConnect(endpoint);
    if (client == nullptr) return false;
    ++score->sessions;
    ++score->messages;
    warpline_internal::Resume resume;
    resume.set_session(random() % 8 == 0 ? random() : random() % 64);
    resume.set_secret(std::string(random() % 40, static_cast<char>(random())));
    resume.set_attempt(random() % 4);
    resume.set_received(random() % 4);
    std::string bytes = resume.SerializeAsString();
    if (random() % 2 == 0) Mutate(random, &bytes);
    client->Send(kResume, std::move(bytes));
    client->Flush();
    if (!client->Expect(kResumed, absl::Seconds(20)).ok()) ++score->refused;
  }
  return true;
}

// Opens authenticated sessions whose frames are cut, flipped and mixed up. Most end at once.
bool AttackFrames(const std::string& endpoint, Random& random, int64_t messages, Score* score) {
  const int64_t end = score->messages + messages;
  while (score->messages < end) {
    const bool resumable = random() % 4 == 0;
    std::unique_ptr<RawClient> client = MustOpen(endpoint, resumable);
    if (client == nullptr) return false;
    ++score->sessions;
    uint64_t seq = 1;
    for (int i = 0; i < 40 && !client->closed(); ++i) {
      std::string commands;
      const uint32_t count = 1 + random() % 20;
      for (uint32_t c = 0; c < count; ++c) AppendRandomCommand(random, &commands);
      std::string payload = CommandsPayload(seq, count, commands);
      seq += count;
      const bool spoil = random() % 8 == 0;
      if (spoil) Mutate(random, &payload);
      client->Send(
          spoil && random() % 3 == 0 ? static_cast<uint32_t>(random() % 24) : uint32_t{kCommands},
          std::move(payload));
      score->messages += count;
    }
    client->Flush();
    if (client->closed()) {
      ++score->refused;
    } else if (resumable) {
      client->Close();
    }
  }
  return true;
}

// Opens authenticated sessions whose commands are well formed and mean nothing: they stay open.
bool AttackCommands(const std::string& endpoint, Random& random, int64_t messages, Score* score) {
  const int64_t end = score->messages + messages;
  while (score->messages < end) {
    std::unique_ptr<RawClient> client = MustOpen(endpoint);
    if (client == nullptr) return false;
    ++score->sessions;
    uint64_t seq = 1;
    for (int batch = 0; batch < 50 && !client->closed() && score->messages < end; ++batch) {
      std::string commands;
      for (int c = 0; c < 100; ++c) AppendRandomCommand(random, &commands);
      client->Send(kCommands, CommandsPayload(seq, 100, commands));
      seq += 100;
      score->messages += 100;
      warpline_internal::MemoryRequest request;
      request.set_id(random() % 4);
      request.set_va(0x300000000000 + (random() % 4096) * (1ull << 20));
      request.set_min_bytes((random() % 64) << 20);
      request.set_want_bytes((random() % 128) << 20);
      if (random() % 2 == 0) {
        request.set_handle(random() % 8);
        if (random() % 2 == 0) request.set_va(0);
      }
      if (random() % 8 == 0) request.set_open(std::string(random() % 20, 'x'));
      if (random() % 8 == 0) {
        request.mutable_share()->set_handle(random() % 4);
        request.mutable_share()->set_va(request.va());
        request.mutable_share()->set_bytes(request.min_bytes());
      }
      if (batch % 10 == 0) {
        std::string bytes = request.SerializeAsString();
        if (random() % 4 == 0) Mutate(random, &bytes);
        client->Send(random() % 2 == 0 ? kMemoryRequest : kMemoryReturn, std::move(bytes));
        ++score->messages;
      }
    }
    client->Flush();
    if (client->closed()) ++score->refused;
  }
  return true;
}

int TcpConnect(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  int port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(endpoint.substr(colon + 1), &port)) return -1;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

// Makes connections that speak no gRPC, or only half of it.
bool AttackPort(const std::string& endpoint, Random& random, int count, Score* score) {
  for (int i = 0; i < count; ++i) {
    const int fd = TcpConnect(endpoint);
    if (fd < 0) return false;
    std::string bytes = random() % 2 == 0 ? "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" : "";
    const size_t garbage = random() % 3000;
    for (size_t b = 0; b < garbage; ++b) bytes.push_back(static_cast<char>(random()));
    [[maybe_unused]] const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ++score->messages;
    close(fd);
  }
  return true;
}

// Starts processes that are killed with a session open and commands under way.
bool Vanish(const std::string& endpoint, uint64_t seed, int count) {
  for (int started = 0; started < count;) {
    std::vector<pid_t> children;
    for (int i = 0; i < 10 && started < count; ++i, ++started) {
      const pid_t pid = fork();
      if (pid == 0) {
        // The process gets its own gRPC, which did not exist before the fork.
        execl("/proc/self/exe", "attack", absl::StrCat("--endpoint=", endpoint).c_str(),
              "--messages=-1", absl::StrCat("--seed=", seed + started).c_str(), nullptr);
        _exit(127);
      }
      children.push_back(pid);
    }
    usleep(300'000 + 10'000 * (started % 30));
    for (const pid_t pid : children) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  return true;
}

// Runs one of the processes that vanish: works until it is killed.
int WorkUntilKilled(const std::string& endpoint, Random& random) {
  std::unique_ptr<RawClient> client = MustOpen(endpoint, /*resumable=*/true);
  if (client == nullptr) return 1;
  uint64_t seq = 1;
  for (int i = 0; i < 100'000; ++i) {
    std::string commands;
    for (int c = 0; c < 10; ++c) {
      AppendCommand(cmd::Memset{1, 0x300000000000 + (2ull << 20), 65536, 1, 1}, 0, &commands);
    }
    client->Send(kCommands, CommandsPayload(seq, 10, commands));
    seq += 10;
    if (random() % 8 == 0) usleep(1000);
  }
  return 0;
}

int Main() {
  const std::string endpoint = absl::GetFlag(FLAGS_endpoint);
  const uint64_t seed = absl::GetFlag(FLAGS_seed);
  Random random(seed);
  const int messages = absl::GetFlag(FLAGS_messages);
  if (messages < 0) return WorkUntilKilled(endpoint, random);
  Score score;
  // Called before gRPC starts in this process, since it forks.
  if (!Vanish(endpoint, seed, absl::GetFlag(FLAGS_vanish))) return 1;
  std::printf("vanished: %d\n", absl::GetFlag(FLAGS_vanish));
  std::fflush(stdout);
  if (!AttackPort(endpoint, random, 300, &score) || !AttackOpening(endpoint, random, 300, &score) ||
      !AttackResumption(endpoint, random, 300, &score) ||
      !AttackFrames(endpoint, random, messages / 10, &score) ||
      !AttackCommands(endpoint, random, messages - score.messages, &score)) {
    std::printf("attack: the server stopped answering after %lld messages\n",
                static_cast<long long>(score.messages));
    return 1;
  }
  std::printf("messages: %lld\nsessions: %d\nrefused: %d\n", static_cast<long long>(score.messages),
              score.sessions, score.refused);
  return 0;
}

}  // namespace
}  // namespace warpline::hostile

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return warpline::hostile::Main();
}
