// Stands between clients and a server, and makes each look like an older one to the other: in every
// Hello it lowers the newest version of the protocol, and takes features away. Frames go on as they
// are otherwise.
//
//   older_peer --server=HOST:PORT --port_file=FILE [--newest=N] [--features=BITS]
//
// Ends with its standard input.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <deque>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "proto/frames.h"
#include "proto/session.pb.h"
#include "transport/channel.h"
#include "transport/grpc/grpc_client.h"
#include "transport/grpc/grpc_server.h"

ABSL_FLAG(std::string, server, "", "Where sessions go on. Empty refuses every one.");
ABSL_FLAG(std::string, port_file, "", "Where to write the port that it listens on.");
ABSL_FLAG(uint32_t, newest, 0, "The newest version that clients speak; 0 for their own.");
ABSL_FLAG(uint64_t, features, ~uint64_t{0}, "The feature bits that clients may have.");

namespace warpline {
namespace {

// More than this on their way in one direction have their sender wait.
constexpr size_t kMostFrames = 256;

// Frames from one channel to another. Thread-safe.
class Pipe {
 public:
  bool Put(Frame* frame) {
    MutexLock lock(&mu_);
    if (frames_.size() >= kMostFrames) return false;
    frames_.push_back(std::move(*frame));
    return true;
  }
  bool Take(Frame* frame) {
    MutexLock lock(&mu_);
    if (frames_.empty()) return false;
    *frame = std::move(frames_.front());
    frames_.pop_front();
    return true;
  }

 private:
  Mutex mu_;
  std::deque<Frame> frames_ ABSL_GUARDED_BY(mu_);
};

// The two channels of a session, of which each may end first. Thread-safe.
class Ends {
 public:
  void Set(int side, Channel* channel) {
    MutexLock lock(&mu_);
    channels_[side] = channel;
  }
  void Wake(int side) {
    MutexLock lock(&mu_);
    if (channels_[side] != nullptr) channels_[side]->Wake();
  }
  // One of them has ended, so the other one does.
  void Ended(int side, const absl::Status& status) {
    MutexLock lock(&mu_);
    channels_[side] = nullptr;
    if (channels_[1 - side] != nullptr) channels_[1 - side]->Close(status);
  }

 private:
  Mutex mu_;
  Channel* channels_[2] ABSL_GUARDED_BY(mu_) = {nullptr, nullptr};
};

constexpr int kClient = 0;
constexpr int kServer = 1;

struct Session {
  Pipe to_server;
  Pipe to_client;
  Ends ends;
};

// The handler's half of a session's end: takes from one pipe and puts into the other.
bool NextOf(Session* session, int side, Frame* frame) {
  Pipe& pipe = side == kClient ? session->to_client : session->to_server;
  if (!pipe.Take(frame)) return false;
  session->ends.Wake(1 - side);  // There is room again.
  return true;
}

Accept Pass(Session* session, int side, Frame* frame) {
  Pipe& pipe = side == kClient ? session->to_server : session->to_client;
  if (!pipe.Put(frame)) return Accept::kLater;
  session->ends.Wake(1 - side);
  return Accept::kTaken;
}

class Upstream : public ChannelHandler {
 public:
  explicit Upstream(std::shared_ptr<Session> session) : session_(std::move(session)) {}
  bool NextFrame(Frame* frame) override { return NextOf(session_.get(), kServer, frame); }
  Accept OnFrame(Frame* frame) override { return Pass(session_.get(), kServer, frame); }
  void OnClosed(const absl::Status& status) override { session_->ends.Ended(kServer, status); }

 private:
  const std::shared_ptr<Session> session_;
};

class Downstream : public SessionHandler {
 public:
  void Started(Channel* channel) override {
    channel->Admit();
    session_->ends.Set(kClient, channel);
    upstream_ = std::make_unique<Upstream>(session_);
    auto dialled = DialGrpc({absl::GetFlag(FLAGS_server)}, upstream_.get(), ChannelOptions(),
                            absl::Seconds(10));
    if (!dialled.ok()) return channel->Close(dialled.status());
    server_ = *std::move(dialled);
    session_->ends.Set(kServer, server_.get());
    server_->Wake();
  }
  bool NextFrame(Frame* frame) override { return NextOf(session_.get(), kClient, frame); }
  Accept OnFrame(Frame* frame) override {
    if (!std::exchange(begun_, true)) MakeOlder(frame);
    return Pass(session_.get(), kClient, frame);
  }
  void OnClosed(const absl::Status& status) override { session_->ends.Ended(kClient, status); }

 private:
  static void MakeOlder(Frame* frame) {
    warpline_internal::Hello hello;
    if (frame->kind != kHello || !hello.ParseFromString(frame->payload)) return;
    if (absl::GetFlag(FLAGS_newest) != 0) hello.set_max_version(absl::GetFlag(FLAGS_newest));
    hello.set_features(hello.features() & absl::GetFlag(FLAGS_features));
    frame->payload = hello.SerializeAsString();
  }

  const std::shared_ptr<Session> session_ = std::make_shared<Session>();
  std::unique_ptr<Upstream> upstream_;
  std::unique_ptr<Channel> server_;
  bool begun_ = false;
};

class Between : public Acceptor {
 public:
  std::unique_ptr<SessionHandler> Accept(const std::string&, absl::Status*) override {
    return std::make_unique<Downstream>();
  }
};

int Run() {
  Between between;
  GrpcServer server({});
  if (auto status = server.Start({"127.0.0.1:0"}, &between); !status.ok()) {
    std::fprintf(stderr, "older_peer: %s\n", status.ToString().c_str());
    return 1;
  }
  server.SetServing(true);
  const std::string path = absl::GetFlag(FLAGS_port_file);
  std::ofstream(path + ".part") << server.port() << "\n";
  if (std::rename((path + ".part").c_str(), path.c_str()) != 0) return 1;
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  server.Shutdown(absl::Seconds(1));
  return 0;
}

}  // namespace
}  // namespace warpline

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return warpline::Run();
}
