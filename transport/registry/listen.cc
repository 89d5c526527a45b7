#include "transport/registry/listen.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "transport/registry/by_scheme.h"

namespace warpline {

#define TRANSPORT(name) ServerEnd name##ServerEnd();
#define CLIENT_TRANSPORT(name)
#include "transport/registry/transports.inc"
#undef TRANSPORT
#undef CLIENT_TRANSPORT

namespace {

absl::Span<const ServerEnd> Registered() {
  static const ServerEnd ends[] = {
#define TRANSPORT(name) name##ServerEnd(),
#define CLIENT_TRANSPORT(name)
#include "transport/registry/transports.inc"
#undef TRANSPORT
#undef CLIENT_TRANSPORT
  };
  return ends;
}

absl::Status NoTransport(const std::string& address) {
  return absl::InvalidArgumentError(absl::StrCat("\"", address, "\" is no transport's address"));
}

// The listeners of several transports as one.
class ListenerOfAll : public Listener {
 public:
  ListenerOfAll(absl::Span<const ServerEnd> ends, ListenerOptions options)
      : ends_(ends), options_(std::move(options)) {}

  absl::Status Start(const std::vector<std::string>& addresses, Acceptor* acceptor) override {
    bool answers = options_.methods.empty();
    for (const std::string& address : addresses) {
      const ServerEnd* const end = EndFor(ends_, address);
      if (end == nullptr) return NoTransport(address);
      answers |= end->transport.can.Has(TransportCapability::kMethods);
      Part& part = PartOf(end);
      places_.push_back({PlaceOf(part), part.addresses.size()});
      part.addresses.push_back(address);
    }
    if (!answers) {
      return absl::InvalidArgumentError("no address answers what is asked besides sessions");
    }
    for (Part& part : parts_) {
      part.listener = part.end->make(options_);
      absl::Status started = part.listener->Start(part.addresses, acceptor);
      if (!started.ok()) return started;
    }
    return absl::OkStatus();
  }

  std::vector<std::string> addresses() const override {
    std::vector<std::vector<std::string>> of_parts;
    for (const Part& part : parts_) of_parts.push_back(part.listener->addresses());
    std::vector<std::string> all;
    for (const Place& place : places_) all.push_back(of_parts[place.part][place.index]);
    return all;
  }

  void SetServing(bool serving) override {
    for (const Part& part : parts_) part.listener->SetServing(serving);
  }

  int sessions() const override {
    int sum = 0;
    for (const Part& part : parts_) sum += part.listener->sessions();
    return sum;
  }

  void Shutdown(absl::Duration deadline) override {
    const absl::Time until = absl::Now() + deadline;
    for (const Part& part : parts_) {
      if (part.listener == nullptr) continue;  // Start() did not get that far.
      part.listener->Shutdown(std::max(until - absl::Now(), absl::ZeroDuration()));
    }
  }

 private:
  // One transport's.
  struct Part {
    const ServerEnd* end;
    std::vector<std::string> addresses;
    std::unique_ptr<Listener> listener;
  };
  // Where an address went.
  struct Place {
    size_t part;
    size_t index;
  };

  Part& PartOf(const ServerEnd* end) {
    for (Part& part : parts_) {
      if (part.end == end) return part;
    }
    return parts_.emplace_back(Part{end, {}, nullptr});
  }
  size_t PlaceOf(const Part& part) const { return static_cast<size_t>(&part - parts_.data()); }

  const absl::Span<const ServerEnd> ends_;
  const ListenerOptions options_;
  std::vector<Part> parts_;    // Constant after Start(), as are
  std::vector<Place> places_;  // the places of its addresses, in their order.
};

}  // namespace

absl::Status CheckAddress(const std::string& address, bool tls) {
  return CheckAddressAmong(Registered(), address, tls);
}

std::unique_ptr<Listener> MakeListener(ListenerOptions options) {
  return MakeListenerAmong(Registered(), std::move(options));
}

absl::Status CheckAddressAmong(absl::Span<const ServerEnd> ends, const std::string& address,
                               bool tls) {
  const ServerEnd* const end = EndFor(ends, address);
  if (end == nullptr) return NoTransport(address);
  return end->check(address, tls && end->transport.can.Has(TransportCapability::kTls));
}

std::unique_ptr<Listener> MakeListenerAmong(absl::Span<const ServerEnd> ends,
                                            ListenerOptions options) {
  return std::make_unique<ListenerOfAll>(ends, std::move(options));
}

}  // namespace warpline
