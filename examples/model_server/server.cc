// Serves a language model to several tenants, each on a GPU session of its own:
//
//   model_server --tenants=FOLDER --listen=127.0.0.1:14200 --warpline=/usr/bin/warpline
//
// It uses gRPC and no CUDA; the sessions are those of its workers (tenant_worker.h). The
// environment says where leases come from (WARPLINE_ENDPOINT, WARPLINE_TLS_*). Ends with SIGTERM.
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "examples/model_server/language_model.grpc.pb.h"
#include "examples/model_server/model.h"
#include "examples/model_server/tenant_worker.h"
#include "examples/model_server/tenants.h"

ABSL_FLAG(std::string, listen, "127.0.0.1:14200", "address for clients; port 0 chooses one");
ABSL_FLAG(std::string, port_file, "", "file that gets the port once it serves");
ABSL_FLAG(std::string, health_listen, "",
          "address for gRPC health checks in plain text (services liveness and readiness)");
ABSL_FLAG(std::string, tenants, "", "folder with a NAME.key and a NAME.credential for each tenant");
ABSL_FLAG(std::string, warpline, "warpline", "the program `warpline`");
ABSL_FLAG(std::string, worker, "", "the program of worker.cu; beside this one unless given");
ABSL_FLAG(std::string, memory, "256MiB", "device memory of each tenant's lease");
ABSL_FLAG(std::string, tls_cert, "",
          "PEM file of the server's certificates; without it, only loopback is served");
ABSL_FLAG(std::string, tls_key, "", "PEM file of its key");

namespace model_server {
namespace {

namespace wire = warpline::examples;

// All tenants together: a call that waits has a thread.
constexpr int kMostThreads = 512;
constexpr int kMostRequestBytes = 64 << 10;

// A client that goes away without a word is noticed by these.
constexpr int kPingEveryMs = 10000;

grpc::Status ToGrpc(const absl::Status& status) {
  // The codes have the same numbers.
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

// The prompt's tokens. INVALID_ARGUMENT for a request that the model cannot serve.
absl::StatusOr<std::vector<int>> ReadRequest(const wire::GenerateRequest& request) {
  if (request.prompt().empty()) return absl::InvalidArgumentError("the prompt is empty");
  std::vector<int> tokens;
  for (const char character : request.prompt()) {
    tokens.push_back(model::TokenOf(character));
    if (tokens.back() >= 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("the model does not know the byte ",
                                                   static_cast<unsigned char>(character),
                                                   " of the prompt: it reads printable ASCII"));
  }
  if (tokens.size() >= model::kContext) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the prompt has ", tokens.size(), " tokens, and the model reads ", model::kContext - 1));
  }
  const size_t room = model::kContext - tokens.size();
  if (request.max_tokens() == 0 || request.max_tokens() > room) {
    return absl::InvalidArgumentError(absl::StrCat("max_tokens is ", request.max_tokens(),
                                                   ": behind this prompt it is 1 to ", room));
  }
  return tokens;
}

class Service final : public wire::LanguageModel::Service {
 public:
  Service(std::vector<Tenant> tenants, const std::vector<std::string>& command)
      : tenants_(std::move(tenants)) {
    for (const Tenant& tenant : tenants_) {
      workers_.emplace(tenant.name,
                       std::make_unique<TenantWorker>(TenantWorker::Options{
                           .command = command, .environment = EnvironmentFor(tenant)}));
    }
  }

  grpc::Status Generate(grpc::ServerContext* context, const wire::GenerateRequest* request,
                        grpc::ServerWriter<wire::GenerateReply>* writer) override {
    const Tenant* const tenant = TenantOf(*context);
    if (tenant == nullptr) return {grpc::StatusCode::UNAUTHENTICATED, "no tenant has this key"};
    const auto prompt = ReadRequest(*request);
    if (!prompt.ok()) return ToGrpc(prompt.status());
    // Tenants' texts are not logged.
    std::fprintf(stderr, "model_server: tenant=%s asks for tokens=%u\n", tenant->name.c_str(),
                 request->max_tokens());
    int sent = 0;
    const absl::Status status = workers_.at(tenant->name)
                                    ->Generate(
                                        *prompt, static_cast<int>(request->max_tokens()),
                                        [&](int token) {
                                          wire::GenerateReply reply;
                                          reply.set_text(std::string(1, model::CharacterOf(token)));
                                          if (!writer->Write(reply)) return false;
                                          ++sent;
                                          return true;
                                        },
                                        [context] { return context->IsCancelled(); });
    std::fprintf(stderr, "model_server: tenant=%s tokens=%d of=%u status=%s\n",
                 tenant->name.c_str(), sent, request->max_tokens(),
                 context->IsCancelled() ? "CANCELLED" : status.ToString().c_str());
    return ToGrpc(status);
  }

 private:
  // This process's environment, with the credential of this tenant and no other.
  static std::vector<std::string> EnvironmentFor(const Tenant& tenant) {
    // A device that does not answer gives the tenant's turn back.
    std::vector<std::string> variables;
    if (getenv("WARPLINE_WAIT_SECONDS") == nullptr) variables.push_back("WARPLINE_WAIT_SECONDS=60");
    for (char** variable = environ; *variable != nullptr; ++variable) {
      if (!absl::StartsWith(*variable, "WARPLINE_CREDENTIAL")) variables.push_back(*variable);
    }
    if (!tenant.credential_file.empty()) {
      variables.push_back("WARPLINE_CREDENTIAL_FILE=" + tenant.credential_file);
    }
    return variables;
  }

  const Tenant* TenantOf(const grpc::ServerContext& context) const {
    const auto& metadata = context.client_metadata();
    if (metadata.count("authorization") != 1) return nullptr;
    const grpc::string_ref& value = metadata.find("authorization")->second;
    absl::string_view key(value.data(), value.size());
    return absl::ConsumePrefix(&key, "Bearer ") ? FindTenant(tenants_, key) : nullptr;
  }

  const std::vector<Tenant> tenants_;
  std::map<std::string, std::unique_ptr<TenantWorker>> workers_;
};

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

int Complain(const std::string& why) {
  std::fprintf(stderr, "model_server: %s\n", why.c_str());
  return 1;
}

// Keys of tenants do not go over a network in plain text.
bool IsLoopback(const std::string& address) {
  return absl::StartsWith(address, "127.") || absl::StartsWith(address, "[::1]:") ||
         absl::StartsWith(address, "localhost:");
}

// Answers health checks and nothing else. Null when it cannot listen there.
std::unique_ptr<grpc::Server> ServeHealth(const std::string& address) {
  grpc::EnableDefaultHealthCheckService(true);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(kMostRequestBytes);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // gRPC wants one service besides. This one refuses every call as unimplemented.
  static wire::LanguageModel::Service nothing;
  builder.RegisterService(&nothing);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  grpc::EnableDefaultHealthCheckService(false);
  if (server == nullptr || port == 0) return nullptr;
  for (const char* service : {"liveness", "readiness"}) {
    server->GetHealthCheckService()->SetServingStatus(service, true);
  }
  return server;
}

int Serve() {
  auto tenants = ReadTenants(absl::GetFlag(FLAGS_tenants));
  if (!tenants.ok()) return Complain("--tenants: " + std::string(tenants.status().message()));
  std::string worker = absl::GetFlag(FLAGS_worker);
  if (worker.empty()) {
    worker =
        std::filesystem::read_symlink("/proc/self/exe").replace_filename("model_worker").string();
  }
  if (access(worker.c_str(), X_OK) != 0) return Complain("--worker: cannot run " + worker);
  const std::string address = absl::GetFlag(FLAGS_listen);
  std::shared_ptr<grpc::ServerCredentials> credentials;
  if (absl::GetFlag(FLAGS_tls_cert).empty()) {
    if (!IsLoopback(address)) {
      return Complain("--listen=" + address + " needs --tls_cert and --tls_key");
    }
    credentials = grpc::InsecureServerCredentials();
  } else {
    grpc::SslServerCredentialsOptions tls;
    tls.pem_key_cert_pairs.push_back(
        {Contents(absl::GetFlag(FLAGS_tls_key)), Contents(absl::GetFlag(FLAGS_tls_cert))});
    credentials = grpc::SslServerCredentials(tls);
  }

  // Before there are threads, so that the signal waits for sigwait() below.
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  sigaddset(&ending, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  signal(SIGPIPE, SIG_IGN);

  Service service(*std::move(tenants),
                  {absl::GetFlag(FLAGS_warpline), "run", "--memory=" + absl::GetFlag(FLAGS_memory),
                   "--", worker, "--timeout_s=0"});
  grpc::ResourceQuota quota;
  quota.SetMaxThreads(kMostThreads);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, credentials, &port);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(kMostRequestBytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingEveryMs);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) return Complain("cannot listen at " + address);
  std::fprintf(stderr, "model_server: serves at port %d\n", port);
  if (const std::string file = absl::GetFlag(FLAGS_port_file); !file.empty()) {
    std::ofstream(file + ".part") << port << "\n";
    std::filesystem::rename(file + ".part", file);
  }
  std::unique_ptr<grpc::Server> health;
  if (const std::string at = absl::GetFlag(FLAGS_health_listen); !at.empty()) {
    health = ServeHealth(at);
    if (health == nullptr) return Complain("cannot listen at --health_listen=" + at);
  }
  int signal_number;
  sigwait(&ending, &signal_number);
  // Cancels the calls that are there.
  server->Shutdown(std::chrono::system_clock::now());
  if (health != nullptr) health->Shutdown(std::chrono::system_clock::now());
  return 0;
}

}  // namespace
}  // namespace model_server

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Serves a language model to several tenants, each on a GPU session of its own.");
  absl::ParseCommandLine(argc, argv);
  return model_server::Serve();
}
