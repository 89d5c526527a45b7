// A worker process for tests of the server: speaks the socket and the rings, maps what it is handed
// into its own memory, and does what the commands tell it to.
//
// Of each kCommands payload the first byte after the header says what to do:
//   'e' echo the payload as a reply      'x' exit with code 3       'k' die by SIGKILL
//   'g' write a frame that is no reply   's' stop reading           'q' close the socket, stay
//   'w' write the next 8 bytes at the address in the 8 bytes after them, then echo
//   'd' echo, say that nothing is in flight, and die by SIGKILL
//   'r' echo the 8 bytes at the address in bytes 8 to 15
//   'v' keep the next 8 bytes as what its module variables hold, echo them, and say that nothing is
//       in flight; with 0 there it echoes what it has
//   'c' take as many bytes as bytes 8 to 15 say outside the arena, of the device in the 8 bytes
//       after them, and echo the 4 bytes of the answer's error; 'u' give them back, and echo
//   'f' fill what it counts with the largest numbers, and echo
// With several devices it says that each can access all. A process of many sessions does all that
// for each of them, and has each map its memory as its own.
// Arguments: --open_error=N fails to open, --die_at_start exits before, --map_error_after=N fails
// every map after N of them, --save_error=N fails to save variables, --hangs=N says that the work
// of session N does not end.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "common/packets/packet_socket.h"
#include "proto/frames.h"
#include "proto/worker.pb.h"
#include "server/hostlink/handover/journal_file.h"
#include "server/hostlink/process/child_process.h"
#include "transport/shm_ring.h"

namespace warpline::server {
namespace {

using warpline_internal::FromWorker;
using warpline_internal::ToWorker;

struct Behaviour {
  int open_error = 0;
  bool die_at_start = false;
  int map_error_after = -1;
  int save_error = 0;
  uint64_t hangs = 0;
};

// What the process has of one session.
struct FakeSession {
  uint64_t number = 0;
  std::unique_ptr<RingReader> reader;  // Null for one without rings.
  std::unique_ptr<RingWriter> writer;
  JournalHead* journal = nullptr;
  bool stopped = false;
  uint64_t variables = 0;
  std::map<uint64_t, uint64_t> mapped;  // Sizes by addresses.
};

class FakeWorker {
 public:
  explicit FakeWorker(const Behaviour& behaviour) : behaviour_(behaviour) {}

  int Run() {
    if (behaviour_.die_at_start) return 5;
    while (true) {
      std::vector<pollfd> entries = {{socket_open_ ? kChildSocketFd : -1, POLLIN, 0}};
      bool idle = true;
      for (const auto& [number, session] : sessions_) {
        if (session.reader == nullptr) continue;
        idle = session.reader->PrepareToSleep() && idle;
        entries.push_back({session.reader->readable_fd(), POLLIN, 0});
      }
      poll(entries.data(), entries.size(), idle ? -1 : 0);
      if (entries[0].revents != 0 && !OnPacket()) return 0;
      for (auto& [number, session] : sessions_) {
        if (session.reader == nullptr || session.stopped) continue;
        session.reader->ClearDoorbell();
        OnCommands(&session);
      }
    }
  }

 private:
  static uint64_t Word(const std::string& payload, size_t at) {
    uint64_t word = 0;
    if (payload.size() >= at + 8) std::memcpy(&word, payload.data() + at, 8);
    return word;
  }

  static void Reply(FakeSession* session, uint32_t kind, std::string_view payload) {
    const std::string_view parts[] = {payload};
    while (true) {
      const auto written = session->writer->TryWrite(kind, parts);
      if (!written.ok()) _exit(6);
      if (*written) return;
      session->writer->WaitWritable(absl::Seconds(1));
    }
  }

  void OnCommands(FakeSession* session) {
    uint32_t kind;
    std::string payload;
    while (!session->stopped) {
      const auto read = session->reader->TryRead(&kind, &payload);
      if (!read.ok()) _exit(7);
      if (!*read) return;
      CommandsHeader header;
      std::memcpy(&header, payload.data(), sizeof(header));
      if (payload[sizeof(header)] == 'd') {
        // Complete, and then the end, as if killed at rest.
        Reply(session, kReplies, payload);
        session->journal->retired_seq.store(header.first_seq + header.count - 1);
        kill(getpid(), SIGKILL);
      }
      Obey(session, payload);
      if (payload[sizeof(header)] == 'v') {
        session->journal->flags.fetch_or(kJournalVariables);
        session->journal->retired_seq.store(header.first_seq + header.count - 1);
      }
    }
  }

  void Obey(FakeSession* session, const std::string& payload) {
    const size_t body = sizeof(CommandsHeader);
    switch (payload[body]) {
      case 'e':
        return Reply(session, kReplies, payload);
      case 'x':
        _exit(3);
      case 'k':
        kill(getpid(), SIGKILL);
        return;
      case 'g':
        return Reply(session, kGrantOfNobody, payload);
      case 's':
        session->stopped = true;
        return;
      case 'q':
        close(kChildSocketFd);
        socket_open_ = false;
        return;
      case 'w': {
        const uint64_t value = Word(payload, body + 8);
        std::memcpy(reinterpret_cast<void*>(Word(payload, body + 16)), &value, 8);
        return Reply(session, kReplies, payload);
      }
      case 'v': {
        if (const uint64_t value = Word(payload, body + 8); value != 0) session->variables = value;
        return Reply(session, kReplies,
                     std::string_view(reinterpret_cast<const char*>(&session->variables), 8));
      }
      case 'c': {
        FromWorker message;
        message.set_session(session->number);
        message.mutable_charge()->set_bytes(Word(payload, body + 8));
        message.mutable_charge()->set_device(static_cast<uint32_t>(Word(payload, body + 16)));
        if (!SendPacket(kChildSocketFd, message, {}).ok()) _exit(12);
        return;
      }
      case 'u': {
        FromWorker message;
        message.set_session(session->number);
        message.mutable_uncharge()->set_bytes(Word(payload, body + 8));
        message.mutable_uncharge()->set_device(static_cast<uint32_t>(Word(payload, body + 16)));
        if (!SendPacket(kChildSocketFd, message, {}).ok()) _exit(12);
        return Reply(session, kReplies, payload);
      }
      case 'f': {
        for (auto& row : session->journal->usage.rows) row.store(~uint64_t{0});
        session->journal->usage.commands_taken.store(~uint64_t{0});
        return Reply(session, kReplies, payload);
      }
      case 'r': {
        const char* at = reinterpret_cast<const char*>(Word(payload, body + 8));
        return Reply(session, kReplies, std::string_view(at, 8));
      }
      default:
        return;
    }
  }

  // False at the end of the stream.
  bool OnPacket() {
    ToWorker message;
    std::vector<UniqueFd> fds;
    if (!ReceivePacket(kChildSocketFd, &message, &fds).ok()) return false;
    FromWorker reply;
    reply.set_session(message.session());
    FakeSession* const session = &sessions_[message.session()];
    session->number = message.session();
    if (message.has_prepare()) {
      reply.mutable_prepared();
    } else if (message.has_read()) {
      reply.mutable_read_done()->set_id(message.read().id());
      reply.mutable_read_done()->set_error(Read(message.read(), fds));
    } else if (message.has_open()) {
      reply.mutable_opened()->set_error(behaviour_.open_error);
      reply.mutable_opened()->set_message("as asked");
      const int devices = 1 + message.open().more_ordinals_size();
      for (int i = 0; i < devices && devices > 1; ++i) {
        reply.mutable_opened()->add_peers(~uint32_t{0});
      }
      Open(session, message.open(), &fds);
    } else if (message.has_save()) {
      if (fds.size() != 1 || pwrite(fds[0].get(), &session->variables, 8, 0) != 8) _exit(10);
      reply.mutable_saved()->set_id(message.save().id());
      reply.mutable_saved()->set_error(behaviour_.save_error);
    } else if (message.has_charged()) {
      const int32_t error = message.charged().error();
      Reply(session, kReplies,
            std::string_view(reinterpret_cast<const char*>(&error), sizeof(error)));
      return true;
    } else if (message.has_close()) {
      reply.mutable_closed()->set_hangs(message.session() == behaviour_.hangs);
      for (const auto& [va, bytes] : session->mapped) munmap(reinterpret_cast<void*>(va), bytes);
      if (session->journal != nullptr) munmap(session->journal, kJournalHeadBytes);
      sessions_.erase(message.session());
    } else if (message.has_hold()) {
      reply.mutable_memory_done()->set_id(message.hold().id());
    } else if (message.has_host()) {
      reply.mutable_host_done()->set_id(message.host().id());
    } else if (message.has_window()) {
      reply.mutable_window_done()->set_number(message.window().number());
    } else if (message.has_drop()) {
      reply.mutable_memory_done()->set_id(message.drop().id());
    } else if (message.has_map()) {
      reply.mutable_memory_done()->set_id(message.map().id());
      reply.mutable_memory_done()->set_error(Map(session, message.map(), fds));
    } else {
      reply.mutable_memory_done()->set_id(message.unmap().id());
      reply.mutable_memory_done()->set_error(Unmap(session, message.unmap()));
    }
    return SendPacket(kChildSocketFd, reply, {}).ok();
  }

  static int Read(const warpline_internal::ReadMemory& request, const std::vector<UniqueFd>& fds) {
    const void* const at = reinterpret_cast<const void*>(request.va());
    const auto bytes = static_cast<ssize_t>(request.bytes());
    return fds.size() == 1 && pwrite(fds[0].get(), at, request.bytes(), 0) == bytes ? 0 : 1;
  }

  static void Open(FakeSession* session, const warpline_internal::OpenWorker& open,
                   std::vector<UniqueFd>* fds) {
    if (open.reader()) return;
    const size_t board = open.board_generation() > 0 ? 1 : 0;
    const size_t page = open.dispatch() ? 1 : 0;  // It asks for no turns.
    if (fds->size() != 7 + board + (open.variables() ? 1 : 0) + page) _exit(8);
    if (open.variables() && pread((*fds)[7 + board].get(), &session->variables, 8, 0) != 8) {
      _exit(11);
    }
    session->journal = static_cast<JournalHead*>(
        mmap(nullptr, kJournalHeadBytes, PROT_READ | PROT_WRITE, MAP_SHARED, (*fds)[6].get(), 0));
    const auto ring = [&](size_t first) {
      RingDescriptors descriptors;
      descriptors.memory = std::move((*fds)[first]);
      descriptors.readable = std::move((*fds)[first + 1]);
      descriptors.writable = std::move((*fds)[first + 2]);
      return descriptors;
    };
    auto reader = RingReader::Attach(ring(0));
    auto writer = RingWriter::Attach(ring(3));
    if (!reader.ok() || !writer.ok()) _exit(9);
    session->reader = std::move(*reader);
    session->writer = std::move(*writer);
  }

  int Map(FakeSession* session, const warpline_internal::MapMemory& request,
          const std::vector<UniqueFd>& fds) {
    if (behaviour_.map_error_after >= 0 && maps_++ >= behaviour_.map_error_after) return 2;
    if (static_cast<size_t>(request.chunk_bytes_size()) != fds.size()) return 1;
    uint64_t va = request.va();
    for (size_t i = 0; i < fds.size(); ++i) {
      const uint64_t bytes = request.chunk_bytes(static_cast<int>(i));
      if (mmap(reinterpret_cast<void*>(va), bytes, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_FIXED_NOREPLACE, fds[i].get(), 0) == MAP_FAILED) {
        return 1;
      }
      session->mapped[va] = bytes;
      va += bytes;
    }
    return 0;
  }

  static int Unmap(FakeSession* session, const warpline_internal::UnmapMemory& request) {
    uint64_t va = request.va();
    for (const uint64_t bytes : request.chunk_bytes()) {
      munmap(reinterpret_cast<void*>(va), bytes);
      session->mapped.erase(va);
      va += bytes;
    }
    return 0;
  }

  // No worker may send frames of this kind.
  static constexpr uint32_t kGrantOfNobody = kMemoryGrant;

  const Behaviour behaviour_;
  std::map<uint64_t, FakeSession> sessions_;
  bool socket_open_ = true;
  int maps_ = 0;
};

}  // namespace
}  // namespace warpline::server

int main(int argc, char** argv) {
  warpline::server::Behaviour behaviour;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const int value = std::atoi(argv[i] + arg.find('=') + 1);
    if (absl::StartsWith(arg, "--open_error=")) behaviour.open_error = value;
    if (arg == "--die_at_start") behaviour.die_at_start = true;
    if (absl::StartsWith(arg, "--save_error=")) behaviour.save_error = value;
    if (absl::StartsWith(arg, "--hangs=")) behaviour.hangs = static_cast<uint64_t>(value);
    if (absl::StartsWith(arg, "--map_error_after=")) behaviour.map_error_after = value;
  }
  return warpline::server::FakeWorker(behaviour).Run();
}
