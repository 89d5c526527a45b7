#include "scheduler/page/page_handler.h"

#include "scheduler/page/assets.h"
#include "scheduler/page/own_host.h"

namespace warpline::scheduler::page {
namespace {

constexpr char kPoolPath[] = "/pool.json";
constexpr char kNoStore[] = "no-store";

PageResponse Refusal(int status, absl::string_view text) {
  PageResponse response;
  response.status = status;
  response.headers = {{"Content-Type", "text/plain; charset=utf-8"}, {"Cache-Control", kNoStore}};
  response.body = text;
  return response;
}

PageResponse RefusalFor(const absl::Status& status) {
  if (absl::IsUnauthenticated(status)) {
    PageResponse response = Refusal(401, "the credential is not known here\n");
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
    return response;
  }
  if (absl::IsResourceExhausted(status)) {
    PageResponse response = Refusal(429, "too many wrong credentials were tried\n");
    response.headers.emplace_back("Retry-After", "1");
    return response;
  }
  // The words would say to strangers where the state is.
  PageResponse response = Refusal(503, "the pool cannot be seen at the moment\n");
  response.headers.emplace_back("Retry-After", "2");
  return response;
}

}  // namespace

const std::vector<std::pair<std::string, std::string>>& SafetyHeaders() {
  static const auto* const headers = new std::vector<std::pair<std::string, std::string>>{
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
       "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
       "require-trusted-types-for 'script'; trusted-types 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
  };
  return *headers;
}

PageResponse PageHandler::Answer(const PageRequest& request) {
  if (!request.host.empty() && !IsOwnHost(request.host)) {
    return Refusal(
        421,
        "the page answers to localhost and loopback addresses alone: a proxy has to send "
        "the page's own address as Host\n");
  }
  if (!request.origin.empty() && !IsOwnOrigin(request.origin)) {
    return Refusal(403, "the page answers no other site\n");
  }
  const bool head = request.method == "HEAD";
  if (request.method != "GET" && !head) {
    PageResponse response = Refusal(405, "the page only shows\n");
    response.headers.emplace_back("Allow", "GET, HEAD");
    return response;
  }
  PageResponse response = Refusal(404, "there is no such page\n");
  if (request.path == kPoolPath) response = AnswerPool(request);
  for (const Asset& asset : Assets()) {
    if (asset.path != request.path) continue;
    response = PageResponse();
    // Another version of the program brings others, so they are asked for each time.
    response.headers = {{"Cache-Control", "no-cache"}, {"ETag", std::string(asset.etag)}};
    if (request.if_none_match == asset.etag) {
      response.status = 304;
      continue;
    }
    response.headers.emplace_back("Content-Type", std::string(asset.type));
    response.body = asset.content;
  }
  if (head) response.body = {};
  return response;
}

PageResponse PageHandler::AnswerPool(const PageRequest& request) {
  const auto viewer = sign_in_.ViewerOf(BearerCredential(request.authorization), request.peer);
  if (!viewer.ok()) return RefusalFor(viewer.status());
  const auto view = views_.ViewFor(*viewer);
  if (!view.ok()) return RefusalFor(view.status());
  PageResponse response;
  response.headers = {{"Cache-Control", kNoStore}};
  const std::string& etag = (*view)->etag;
  if (!etag.empty()) response.headers.emplace_back("ETag", etag);
  if (!etag.empty() && request.if_none_match == etag) {
    response.status = 304;
    return response;
  }
  response.headers.emplace_back("Content-Type", "application/json");
  response.body = (*view)->json;
  response.keeps = *view;
  return response;
}

}  // namespace warpline::scheduler::page
