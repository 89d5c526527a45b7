#include "server/compiler/client/compiler_client.h"

#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/compiler/layout_format.h"

namespace warpline::compiler {
namespace {

absl::StatusOr<Compiled> Read(const CompileReply& reply, const std::vector<UniqueFd>& fds) {
  if (reply.magic != CompileReply::kMagic) return absl::UnavailableError("no answer of a compiler");
  if (reply.code != 0) {
    const size_t bytes = std::min<size_t>(reply.reason_bytes, sizeof(reply.reason));
    const auto code = static_cast<absl::StatusCode>(reply.code);
    return absl::Status(code, absl::string_view(reply.reason, bytes));
  }
  if (fds.size() != 2) return absl::UnavailableError("the compiler's answer lacks its files");
  auto code = FrozenView::Map(fds[0].get(), kMostOutputBytes);
  if (!code.ok()) return code.status();
  const auto layout = FrozenView::Map(fds[1].get(), kMostOutputBytes);
  if (!layout.ok()) return layout.status();
  auto guarded = ParseLayout(layout->bytes());
  if (!guarded.ok()) return absl::InternalError(guarded.status().message());
  return Compiled(*std::move(guarded), *std::move(code), reply.cached != 0);
}

}  // namespace

absl::StatusOr<Compiled> CompilerClient::Compile(std::string_view module,
                                                 const guard::RewriteOptions& options, int sm,
                                                 Output output, Source source) {
  if (module.size() > MostBytes(source)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("it has more than ", MostBytes(source) >> 20, " MiB"));
  }
  const auto file = FrozenFile("ptx", module);
  if (!file.ok()) return file.status();
  CompileRequest request;
  request.output = output;
  request.source = source;
  request.arena_bits = static_cast<uint32_t>(options.arena_bits);
  request.hardened = options.hardened ? 1 : 0;
  request.checks = options.checks ? 1 : 0;
  request.first_site = options.first_site;
  request.sm = static_cast<uint32_t>(sm);
  CompileReply reply;
  std::vector<UniqueFd> fds;
  MutexLock lock(&mu_);
  if (ended_) return absl::UnavailableError("the compiler has ended");
  absl::Status status = SendRecord(socket_.get(), &request, sizeof(request), {file->get()});
  if (status.ok()) status = ReceiveRecord(socket_.get(), &reply, sizeof(reply), &fds);
  if (!status.ok()) {
    // Answers have no numbers: one that comes late would be taken for the next.
    ended_ = true;
    return absl::UnavailableError("the compiler has ended");
  }
  return Read(reply, fds);
}

void CompilerClient::Close() { shutdown(socket_.get(), SHUT_RDWR); }

}  // namespace warpline::compiler
