// Uses the system's gRPC itself, server and client, with messages of the same names as Warpline's,
// while CUDA runs on other threads and exceptions are thrown on all of them.
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "proto/admin.grpc.pb.h"
#include "workload.h"

namespace {

class EchoService : public warpline_internal::Admin::Service {
  grpc::Status Echo(grpc::ServerContext*, const warpline_internal::StatRequest* request,
                    warpline_internal::StatReply* reply) override {
    for (int i = 0; i < 3; ++i) reply->add_texts(request->text());
    return grpc::Status::OK;
  }
};

bool CallItself(warpline_internal::Admin::Stub* stub) {
  grpc::ClientContext context;
  warpline_internal::StatRequest request;
  warpline_internal::StatReply reply;
  request.set_text("a text that is long enough to be allocated");
  return stub->Echo(&context, request, &reply).ok() && reply.texts_size() == 3 &&
         reply.texts(2) == request.text();
}

bool Throws(int value) {
  try {
    if (value >= 0) throw std::runtime_error(std::to_string(value));
  } catch (const std::exception& error) {
    return error.what() == std::to_string(value);
  }
  return false;
}

}  // namespace

int main() {
  EchoService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return WorkloadFailed("own server", 0);
  const auto stub = warpline_internal::Admin::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));

  std::atomic<bool> failed{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < 200; ++call) {
        if (!CallItself(stub.get()) || !Throws(call)) failed = true;
      }
    });
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        if (RunWorkload(10) != 0 || !Throws(round)) failed = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  server->Shutdown();
  if (failed) return WorkloadFailed("a thread", 0);
  std::puts("host: ok");
  return 0;
}
