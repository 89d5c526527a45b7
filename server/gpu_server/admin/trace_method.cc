#include "server/gpu_server/admin/trace_method.h"

#include <cstdint>
#include <map>

#include "common/text.h"
#include "proto/admin.pb.h"

namespace warpline::server {
namespace {

// A reply stays below a megabyte: a span takes some 60 bytes.
constexpr size_t kMostSpans = 8192;
constexpr size_t kMostNameBytes = 128;

void Fill(const dispatch::TraceSpan& from, warpline_internal::TraceSpan* to) {
  to->set_kind(NameOf(from.kind));
  to->set_reason(NameOf(from.reason));
  to->set_engine(from.engine);
  to->set_slice(from.slice);
  to->set_other(from.other);
  to->set_begin_ns(from.begin_ns);
  to->set_end_ns(from.end_ns);
  to->set_charged_ns(from.charged_ns);
  to->set_commands(from.commands);
  to->set_bytes(from.bytes);
  to->set_session(from.session);
  to->set_wanted_by(from.wanted_by);
}

}  // namespace

absl::StatusOr<std::string> AnswerTrace(dispatch::Dispatcher* dispatcher,
                                        const std::string& request) {
  warpline_internal::TraceRequest parsed;
  if (!parsed.ParseFromString(request)) return absl::InvalidArgumentError("a malformed request");
  if (dispatcher == nullptr) {
    return absl::FailedPreconditionError(
        "this server was started with --dispatch=off, and records no turns");
  }
  std::map<int, uint64_t> after;
  for (const auto& mark : parsed.after()) after[mark.gpu()] = mark.next();
  warpline_internal::TraceReply reply;
  const size_t most = parsed.latest() ? 0 : kMostSpans;
  for (const auto& [ordinal, part] : dispatcher->Trace(after, most)) {
    auto* const gpu = reply.add_gpus();
    gpu->set_gpu(ordinal);
    gpu->set_lost(part.lost);
    gpu->set_next(part.next);
    for (const auto& [number, name] : part.slices) {
      auto* const slice = gpu->add_slices();
      slice->set_slice(number);
      slice->set_name(FitText(name, kMostNameBytes));
    }
    for (const dispatch::TraceSpan& span : part.spans) Fill(span, gpu->add_spans());
  }
  reply.set_now_ns(dispatch::MonotonicNs());
  return reply.SerializeAsString();
}

}  // namespace warpline::server
