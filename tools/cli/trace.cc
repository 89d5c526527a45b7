#include "tools/cli/trace.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tools/cli/administration.h"
#include "tools/cli/call_timeout.h"
#include "tools/cli/text.h"

namespace warpline::cli {
namespace {

using warpline_internal::TraceGpu;
using warpline_internal::TraceReply;
using warpline_internal::TraceRequest;
using warpline_internal::TraceSpan;

constexpr char kMethod[] = "/warpline_internal.Admin/Trace";
// A reply has thousands of spans.
constexpr absl::Duration kLeastTimeout = absl::Seconds(10);
// Two busy slices leave some thousands of spans behind in a second, and a reply has as many.
constexpr absl::Duration kEvery = absl::Milliseconds(200);
constexpr uint64_t kMostSeconds = 600;
constexpr const char* kEngines[] = {"compute", "copies in", "copies out"};
// Rows of an engine: its turns, then those of each slice.
constexpr uint64_t kRowsOfEngine = 1'000'000'000;
constexpr uint64_t kRowsOfSlice = 4;

// Of a span that is no turn, among its slice's.
uint64_t RowOf(const std::string& kind) {
  if (kind == "wait") return 1;
  if (kind == "limit") return 2;
  return kind == "move" ? 3 : 0;
}

// A text between the quotes of JSON. Shown() has taken out what is not printable.
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : Shown(text)) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

std::string EngineName(uint32_t engine) {
  return engine < std::size(kEngines) ? kEngines[engine] : absl::StrCat("engine ", engine);
}

class Writer {
 public:
  explicit Writer(int64_t start_ns) : start_ns_(start_ns) {}

  void Add(const TraceGpu& gpu) {
    for (const auto& slice : gpu.slices()) names_[{gpu.gpu(), slice.slice()}] = slice.name();
    for (const TraceSpan& span : gpu.spans()) Add(gpu.gpu(), span);
    lost_ += gpu.lost();
  }

  std::string Finish() {
    for (const int gpu : gpus_) Meta("process_name", gpu, 0, absl::StrCat("gpu ", gpu));
    for (const auto& [row, name] : rows_) {
      Meta("thread_name", row.first, row.second, name);
      events_.push_back(absl::StrFormat(
          R"({"name":"thread_sort_index","ph":"M","pid":%d,"tid":%d,"args":{"sort_index":%d}})",
          row.first, row.second, row.second));
    }
    return absl::StrCat("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"spans_lost\":", lost_,
                        "},\"traceEvents\":[\n", absl::StrJoin(events_, ",\n"), "\n]}\n");
  }

 private:
  std::string NameOf(int gpu, uint32_t slice) const {
    const auto name = names_.find({gpu, slice});
    const std::string number = absl::StrCat("slice ", slice);
    return name == names_.end() ? number : absl::StrCat(name->second, " (", number, ")");
  }

  void Meta(const char* what, int gpu, uint64_t row, const std::string& name) {
    events_.push_back(
        absl::StrFormat(R"({"name":"%s","ph":"M","pid":%d,"tid":%d,"args":{"name":%s}})", what, gpu,
                        row, Quoted(name)));
  }

  void Add(int gpu, const TraceSpan& span) {
    const std::string slice = NameOf(gpu, span.slice());
    const bool turn = span.kind() == "turn";
    uint64_t row = span.engine() * kRowsOfEngine;
    if (!turn) row += 1 + kRowsOfSlice * uint64_t{span.slice()} + RowOf(span.kind());
    const std::string engine = EngineName(span.engine());
    rows_[{gpu, row}] = turn ? absl::StrCat(engine, ": turns")
                             : absl::StrCat(engine, ": ", slice, " ", span.kind());
    gpus_.insert(gpu);
    std::string args =
        absl::StrCat("\"slice\":", Quoted(slice), ",\"reason\":", Quoted(span.reason()));
    if (span.other() != 0) absl::StrAppend(&args, ",\"for\":", Quoted(NameOf(gpu, span.other())));
    if (turn) absl::StrAppend(&args, ",\"charged_us\":", span.charged_ns() / 1000);
    if (span.kind() == "work") {
      absl::StrAppend(&args, ",\"commands\":", span.commands(), ",\"bytes\":", span.bytes());
    }
    if (span.kind() == "move") {
      absl::StrAppend(&args, ",\"bytes\":", span.bytes(), ",\"session\":", span.session());
      if (span.wanted_by() != 0) absl::StrAppend(&args, ",\"for_session\":", span.wanted_by());
    }
    const int64_t length_ns = std::max<int64_t>(span.end_ns() - span.begin_ns(), 0);
    events_.push_back(absl::StrFormat(
        R"({"name":%s,"cat":%s,"ph":"X","pid":%d,"tid":%d,"ts":%.3f,"dur":%.3f,"args":{%s}})",
        Quoted(turn ? slice : absl::StrCat(span.kind(), ": ", span.reason())), Quoted(span.kind()),
        gpu, row, static_cast<double>(span.begin_ns() - start_ns_) / 1e3,
        static_cast<double>(length_ns) / 1e3, args));
  }

  const int64_t start_ns_;
  std::map<std::pair<int, uint32_t>, std::string> names_;
  std::map<std::pair<int, uint64_t>, std::string> rows_;
  std::set<int> gpus_;
  std::vector<std::string> events_;
  uint64_t lost_ = 0;
};

size_t SpansOf(const TraceReply& reply) {
  size_t spans = 0;
  for (const TraceGpu& gpu : reply.gpus()) spans += static_cast<size_t>(gpu.spans_size());
  return spans;
}

absl::StatusOr<TraceReply> Ask(const UnaryClient& admin, TraceRequest* request) {
  auto reply =
      CallUnary<TraceReply>(&admin, kMethod, *request, std::max(CallTimeout(), kLeastTimeout));
  if (absl::IsUnimplemented(reply.status())) {
    return absl::UnimplementedError("this server records no traces: it is older");
  }
  if (!reply.ok()) return reply;
  request->Clear();
  for (const TraceGpu& gpu : reply->gpus()) {
    auto* const mark = request->add_after();
    mark->set_gpu(gpu.gpu());
    mark->set_next(gpu.next());
  }
  return reply;
}

}  // namespace

std::string TraceJson(const std::vector<TraceReply>& replies) {
  int64_t start_ns = std::numeric_limits<int64_t>::max();
  for (const TraceReply& reply : replies) {
    for (const TraceGpu& gpu : reply.gpus()) {
      for (const TraceSpan& span : gpu.spans()) start_ns = std::min(start_ns, span.begin_ns());
    }
  }
  Writer writer(start_ns);
  for (const TraceReply& reply : replies) {
    for (const TraceGpu& gpu : reply.gpus()) writer.Add(gpu);
  }
  return writer.Finish();
}

absl::StatusOr<std::string> Trace(const CommandLine& line, const std::string& endpoint) {
  const std::string path = line.Text("output");
  if (path.empty()) return absl::InvalidArgumentError("no file named: -o FILE");
  const uint64_t seconds = line.Has("seconds") ? line.Number("seconds") : 5;
  if (seconds > kMostSeconds) {
    return absl::InvalidArgumentError(absl::StrCat("--seconds is at most ", kMostSeconds));
  }
  const auto admin = AdminOf(endpoint);
  if (!admin.ok()) return admin.status();
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
  }
  TraceRequest request;
  request.set_latest(seconds > 0);
  std::vector<TraceReply> replies;
  size_t spans = 0;
  const absl::Time end = absl::Now() + absl::Seconds(seconds);
  for (bool last = false; !last;) {
    last = absl::Now() >= end;
    auto reply = Ask(*admin, &request);
    if (!reply.ok()) return reply.status();
    const size_t more = SpansOf(*reply);
    spans += more;
    if (more > 0) {
      replies.push_back(*std::move(reply));
      last = false;  // There may be more than one reply has.
    } else if (!last) {
      absl::SleepFor(std::min(kEvery, end - absl::Now()));
    }
    if (absl::Now() >= end + absl::Seconds(30)) break;
  }
  file << TraceJson(replies);
  if (!file.flush()) return absl::DataLossError(absl::StrCat("cannot write ", path));
  return absl::StrCat(spans, " spans in ", path,
                      spans == 0 ? ": nobody shared a device in this time\n" : "\n");
}

}  // namespace warpline::cli
