// A worker that is taken over and lies about memory that is to be moved: warpline-worker, which
// obeys the paging suite. In its folder it finds, when it starts, the file `orders` with the path
// of a unix socket. It connects there, and then obeys lines:
//
//   keep            from now on says that it has unmapped or dropped memory, and does not
//   forge NAME      answers the next request to unmap memory with a forgery (kForgeries)
//   say NAME        says the forgery now, about the requests that follow
//   search PATTERN  looks for the word in all memory that it was ever given: found N of M words
//   write PATTERN   writes the word everywhere in that memory: wrote N words
//
// It answers each of these with a line: `ok` where nothing else is said. Without the file it is a
// worker as any other. By hand, --list prints the forgeries.
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/log/log.h"
#include "common/mutex.h"
#include "common/packets/packet_socket.h"
#include "common/sibling_program.h"
#include "proto/devices.h"
#include "proto/worker.pb.h"
#include "server/worker/host/control_socket.h"
#include "server/worker/host/host_process.h"
#include "server/worker/host/output_capture.h"

namespace warpline::attack {
namespace {

using ::warpline_internal::FromWorker;
using ::warpline_internal::ToWorker;

constexpr int kControlFd = 3;
// The server numbers its requests about memory from 1; a session of the suite has made fewer.
constexpr uint64_t kMostRequests = 64;

// Sends `message` about `session`.
void Say(uint64_t session, FromWorker message) {
  message.set_session(session);
  SendPacket(kControlFd, message, {}).IgnoreError();
}

void SayDone(uint64_t session, uint64_t id, int error = 0) {
  FromWorker message;
  message.mutable_memory_done()->set_id(id);
  message.mutable_memory_done()->set_error(error);
  Say(session, std::move(message));
}

void SayBytes(const std::string& bytes) {
  iovec data = {const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  sendmsg(kControlFd, &message, MSG_NOSIGNAL);
}

// Says something about the request `id` about `session`, in place of the truth.
struct Forgery {
  const char* name;
  void (*say)(uint64_t session, uint64_t id);
};

constexpr Forgery kForgeries[] = {
    {"former_request", [](uint64_t session, uint64_t id) { SayDone(session, id - 1); }},
    {"next_request", [](uint64_t session, uint64_t id) { SayDone(session, id + 1); }},
    {"request_of_another_device",
     [](uint64_t session, uint64_t id) { SayDone(session, HandleOnDevice(5, id)); }},
    {"every_request",
     [](uint64_t session, uint64_t) {
       for (uint64_t id = 1; id <= kMostRequests; ++id) SayDone(session, id);
     }},
    {"unmapped_twice",
     [](uint64_t session, uint64_t id) {
       SayDone(session, id);
       SayDone(session, id);
     }},
    {"session_of_another",
     [](uint64_t session, uint64_t id) {
       for (uint64_t other = 0; other < session + kMostRequests; ++other) {
         if (other != session) SayDone(other, id);
       }
     }},
    {"impossible_error", [](uint64_t session, uint64_t id) { SayDone(session, id, -1); }},
    {"other_answers",
     [](uint64_t session, uint64_t id) {
       FromWorker message;
       message.mutable_host_done()->set_id(id);
       Say(session, message);
       message.mutable_read_done()->set_id(id);
       Say(session, message);
       message.mutable_saved()->set_id(id);
       Say(session, message);
       SayDone(session, id);
     }},
    {"opened_again",
     [](uint64_t session, uint64_t id) {
       FromWorker message;
       message.mutable_opened()->set_charged_bytes(~uint64_t{0});
       Say(session, message);
       SayDone(session, id);
     }},
    {"memory_that_it_does_not_have",
     [](uint64_t session, uint64_t id) {
       FromWorker message;
       message.mutable_uncharge()->set_bytes(uint64_t{1} << 40);
       Say(session, message);
       SayDone(session, id);
     }},
    {"window_of_others",
     [](uint64_t session, uint64_t id) {
       FromWorker message;
       message.mutable_window_done()->set_number(0);
       Say(0, message);
       SayDone(session, id);
     }},
    {"garbage",
     [](uint64_t session, uint64_t id) {
       SayBytes(std::string("\0\xff\xff\xff\xff", 5));
       SayDone(session, id);
     }},
    {"nothing_at_all",
     [](uint64_t session, uint64_t id) {
       SayBytes(std::string(1, '\0'));
       SayDone(session, id);
     }},
};

const Forgery* Find(const std::string& name) {
  for (const Forgery& forgery : kForgeries) {
    if (name == forgery.name) return &forgery;
  }
  return nullptr;
}

// Memory that the worker was given, at an address that nobody has it unmap.
struct Kept {
  uint32_t* words;
  uint64_t count;
};

struct Plan {
  Mutex mu;
  std::vector<Kept> kept ABSL_GUARDED_BY(mu);
  bool keeps ABSL_GUARDED_BY(mu) = false;
  const Forgery* forgery ABSL_GUARDED_BY(mu) = nullptr;
  std::atomic<uint64_t> session{0};
  int orders = -1;
};
Plan* g_plan = nullptr;  // Null in an honest worker.

void KeepChunk(int fd, uint64_t bytes) {
  // Not the worker's own mmap().
  const long at = syscall(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at < 0 && at > -4096) return;
  MutexLock lock(&g_plan->mu);
  g_plan->kept.push_back({reinterpret_cast<uint32_t*>(at), bytes / 4});
}

template <typename Sizes>
void KeepChunks(const msghdr& message, const Sizes& sizes) {
  int next = 0;
  for (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(const_cast<msghdr*>(&message), const_cast<cmsghdr*>(header))) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count && next < sizes.size(); ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      KeepChunk(fd, sizes.Get(next++));
    }
  }
}

// Returns true if the request has been answered with a lie, and the worker is not to see it.
bool LieAbout(const ToWorker& request) {
  uint64_t id = 0;
  if (request.has_unmap()) {
    id = request.unmap().id();
  } else if (request.has_release()) {
    id = request.release().id();
  } else if (request.has_drop()) {
    id = request.drop().id();
  } else {
    return false;
  }
  const Forgery* forgery = nullptr;
  {
    MutexLock lock(&g_plan->mu);
    forgery = std::exchange(g_plan->forgery, nullptr);
    if (forgery == nullptr && !g_plan->keeps) return false;
  }
  if (forgery != nullptr) {
    forgery->say(request.session(), id);
  } else {
    SayDone(request.session(), id);
  }
  return true;
}

// Returns true if the packet is to be kept from the worker.
bool OnPacket(const msghdr& message, ssize_t bytes) {
  ToWorker request;
  if (bytes < 1 || !request.ParseFromArray(static_cast<char*>(message.msg_iov[0].iov_base) + 1,
                                           static_cast<int>(bytes) - 1)) {
    return false;
  }
  if (request.session() != 0) g_plan->session = request.session();
  if (request.has_map()) KeepChunks(message, request.map().chunk_bytes());
  if (request.has_hold()) KeepChunks(message, request.hold().chunk_bytes());
  return LieAbout(request);
}

std::string Search(uint32_t pattern) {
  MutexLock lock(&g_plan->mu);
  uint64_t found = 0, looked = 0;
  for (const Kept& kept : g_plan->kept) {
    found += static_cast<uint64_t>(std::count(kept.words, kept.words + kept.count, pattern));
    looked += kept.count;
  }
  return absl::StrCat("found ", found, " of ", looked, " words");
}

std::string Write(uint32_t pattern) {
  MutexLock lock(&g_plan->mu);
  uint64_t wrote = 0;
  for (const Kept& kept : g_plan->kept) {
    std::fill_n(kept.words, kept.count, pattern);
    wrote += kept.count;
  }
  return absl::StrCat("wrote ", wrote, " words");
}

std::string Obey(const std::string& line) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  const std::string what = words.size() > 1 ? words[1] : "";
  uint32_t pattern = 0;
  if (words[0] == "search" && absl::SimpleHexAtoi(what, &pattern)) return Search(pattern);
  if (words[0] == "write" && absl::SimpleHexAtoi(what, &pattern)) return Write(pattern);
  const Forgery* const forgery = Find(what);
  if (words[0] == "say" && forgery != nullptr) {
    forgery->say(g_plan->session, kMostRequests);
    return "ok";
  }
  MutexLock lock(&g_plan->mu);
  if (words[0] == "keep") {
    g_plan->keeps = true;
  } else if (words[0] == "forge" && forgery != nullptr) {
    g_plan->forgery = forgery;
  } else {
    return absl::StrCat("what is ", line);
  }
  return "ok";
}

void ObeyAll() {
  std::string line;
  for (char byte; read(g_plan->orders, &byte, 1) == 1;) {
    if (byte != '\n') {
      line += byte;
      continue;
    }
    const std::string answer = Obey(line) + "\n";
    line.clear();
    if (write(g_plan->orders, answer.data(), answer.size()) < 0) return;
  }
}

// Connects to the suite, while the jail is open. Returns the socket, or -1.
int MeetSuite(const std::string& file) {
  std::ifstream stream(file);
  std::string path;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (!std::getline(stream, path) || path.size() >= sizeof(address.sun_path)) return -1;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return -1;
  return fd;
}

int List() {
  for (const Forgery& forgery : kForgeries) std::printf("%s\n", forgery.name);
  return 0;
}

int Run(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--list") return List();
  const auto folder = OwnFolder();
  if (!folder.ok()) return 1;
  SetLogName("worker");
  const int orders = MeetSuite(*folder + "/orders");
  if (orders >= 0) {
    g_plan = new Plan;
    g_plan->orders = orders;
  }
  auto output = worker::OutputCapture::Install();
  if (!output.ok()) return 1;
  worker::HostProcess::Options options;
  options.control_fd = kControlFd;
  options.output = output->release();
  options.on_opened = [] {
    if (g_plan != nullptr) std::thread(ObeyAll).detach();
  };
  options.on_ended = [](uint64_t session, const absl::Status& why) {
    worker::SendSessionEnded(kControlFd, session, why);
  };
  auto* const process = new worker::HostProcess(std::move(options));
  worker::ServeControlSocket(kControlFd, process);
  _exit(0);
}

}  // namespace
}  // namespace warpline::attack

// Takes the place of the library's, so that requests of the server are seen before the worker has
// them.
extern "C" ssize_t recvmsg(int fd, msghdr* message, int flags) {
  while (true) {
    const msghdr empty = *message;
    const ssize_t got = syscall(SYS_recvmsg, fd, message, flags);
    if (fd != warpline::attack::kControlFd || warpline::attack::g_plan == nullptr ||
        !warpline::attack::OnPacket(*message, got)) {
      return got;
    }
    *message = empty;
  }
}

int main(int argc, char** argv) { return warpline::attack::Run(argc, argv); }
