// Asks a model server to go on with a text, and prints what comes, as it comes:
//
//   model_client --server=127.0.0.1:14200 --key_file=FILE --tokens=32 "The lease is"
//
// Exits with 0, or with the number of the gRPC status, which it prints on stderr.
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "examples/model_server/language_model.grpc.pb.h"

ABSL_FLAG(std::string, server, "127.0.0.1:14200", "address of the model server");
ABSL_FLAG(std::string, key_file, "", "file with the tenant's key");
ABSL_FLAG(uint32_t, tokens, 32, "how many tokens");
ABSL_FLAG(std::string, tls_ca, "",
          "PEM file of the authority of the server's certificate; plain text without it");

namespace {

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

int Generate(const std::string& prompt) {
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (const std::string ca = absl::GetFlag(FLAGS_tls_ca); !ca.empty()) {
    credentials = grpc::SslCredentials(
        {.pem_root_certs = Contents(ca), .pem_private_key = "", .pem_cert_chain = ""});
  }
  const auto stub = warpline::examples::LanguageModel::NewStub(
      grpc::CreateChannel(absl::GetFlag(FLAGS_server), credentials));
  grpc::ClientContext context;
  const std::string key = Contents(absl::GetFlag(FLAGS_key_file));
  context.AddMetadata("authorization", "Bearer " + std::string(absl::StripAsciiWhitespace(key)));
  warpline::examples::GenerateRequest request;
  request.set_prompt(prompt);
  request.set_max_tokens(absl::GetFlag(FLAGS_tokens));
  const auto reader = stub->Generate(&context, request);
  for (warpline::examples::GenerateReply reply; reader->Read(&reply);) {
    std::fputs(reply.text().c_str(), stdout);
    std::fflush(stdout);
  }
  const grpc::Status status = reader->Finish();
  if (status.ok()) return 0;
  std::fprintf(stderr, "model_client: %s (status %d)\n", status.error_message().c_str(),
               status.error_code());
  return status.error_code();
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("model_client [FLAGS] PROMPT");
  std::vector<char*> words = absl::ParseCommandLine(argc, argv);
  words.erase(words.begin());
  return Generate(absl::StrJoin(words, " "));
}
