#include "scheduler/placement/waiting_line.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/str_join.h"

namespace warpline::placement {
namespace {

std::pair<uint32_t, uint64_t> InLine(const Entry& entry) {
  return {std::numeric_limits<uint32_t>::max() - entry.ask.priority(), entry.number};
}

uint32_t WeightOf(const QuotaTree& quotas, const std::string& tenant) {
  const TenantSpec* const spec = quotas.Find(tenant);
  return spec == nullptr ? 1 : std::max(spec->weight, 1u);
}

}  // namespace

WaitingLine::ShapeKey WaitingLine::KeyOf(const Entry& entry) {
  const Want& want = entry.want;
  return {want.memory_bytes, want.sm_percent, want.time_milli,
          want.gpus,         entry.members,   absl::StrJoin(want.named, ",")};
}

Entry* WaitingLine::Add(Entry entry) {
  const uint64_t number = entry.number;
  Entry* const kept = (entries_[number] = std::make_unique<Entry>(std::move(entry))).get();
  if (!kept->ask.gang().empty()) gangs_[{kept->ask.tenant(), kept->ask.gang()}] = number;
  Update(kept);
  return kept;
}

void WaitingLine::Update(Entry* entry) {
  const std::string& tenant = entry->ask.tenant();
  for (const auto& member : entry->asking) tickets_[{tenant, member.ticket()}] = entry->number;
  Count& count = counts_[tenant];
  uint32_t& counted = counted_[entry->number];
  const uint32_t now = entry->placed() ? 0 : static_cast<uint32_t>(entry->asking.size());
  count.requests += now - counted;
  uint32_t& of_priority = count.by_priority[entry->ask.priority()];
  of_priority += now - counted;
  if (of_priority == 0) count.by_priority.erase(entry->ask.priority());
  requests_ += now - counted;
  counted = now;
  if (count.requests == 0) counts_.erase(tenant);
  const ShapeKey key = KeyOf(*entry);
  if (entry->complete() && !entry->placed()) {
    Shape& shape = shapes_[key];
    if (shape.tenants[tenant].insert(InLine(*entry)).second) shape.unfit_at = 0;
    return;
  }
  const auto shape = shapes_.find(key);
  if (shape == shapes_.end()) return;
  const auto line = shape->second.tenants.find(tenant);
  if (line == shape->second.tenants.end()) return;
  line->second.erase(InLine(*entry));
  if (line->second.empty()) shape->second.tenants.erase(line);
  if (shape->second.tenants.empty()) shapes_.erase(shape);
}

void WaitingLine::Remove(uint64_t number) {
  const auto found = entries_.find(number);
  if (found == entries_.end()) return;
  Entry& entry = *found->second;
  for (const auto& member : entry.asking) tickets_.erase({entry.ask.tenant(), member.ticket()});
  if (!entry.ask.gang().empty()) gangs_.erase({entry.ask.tenant(), entry.ask.gang()});
  entry.asking.clear();
  entry.members = std::max(entry.members, 1u);
  Update(&entry);
  counted_.erase(number);
  entries_.erase(found);
}

void WaitingLine::RemoveMember(Entry* entry, const std::string& ticket) {
  auto& asking = entry->asking;
  const auto gone = std::find_if(asking.begin(), asking.end(),
                                 [&](const auto& member) { return member.ticket() == ticket; });
  if (gone == asking.end()) return;
  asking.erase(gone);
  tickets_.erase({entry->ask.tenant(), ticket});
  Update(entry);
}

Entry* WaitingLine::Find(uint64_t number) {
  const auto found = entries_.find(number);
  return found == entries_.end() ? nullptr : found->second.get();
}

Entry* WaitingLine::FindTicket(const std::string& tenant, const std::string& ticket) {
  const auto found = tickets_.find({tenant, ticket});
  return found == tickets_.end() ? nullptr : Find(found->second);
}

Entry* WaitingLine::FindGang(const std::string& tenant, const std::string& gang) {
  const auto found = gangs_.find({tenant, gang});
  return found == gangs_.end() ? nullptr : Find(found->second);
}

const Entry* WaitingLine::Look(const std::string& tenant, const std::string& ticket,
                               const std::string& gang) const {
  auto number = tickets_.find({tenant, ticket});
  if (number == tickets_.end()) {
    number = gangs_.find({tenant, gang});
    if (number == gangs_.end()) return nullptr;
  }
  const auto entry = entries_.find(number->second);
  return entry == entries_.end() ? nullptr : entry->second.get();
}

Entry* WaitingLine::Next(const QuotaTree& quotas,
                         absl::FunctionRef<bool(const Entry&)> within_reserve,
                         absl::FunctionRef<bool(const Entry&, Shape*)> fits,
                         absl::FunctionRef<Verdict(const Entry&)> may) {
  Entry* best = nullptr;
  bool best_reserved = false;
  for (auto& [key, shape] : shapes_) {
    if (shape.tenants.empty()) continue;
    const Entry& any = *Find(shape.tenants.begin()->second.begin()->second);
    if (!fits(any, &shape)) continue;
    for (const auto& [tenant, line] : shape.tenants) {
      Entry* entry = nullptr;
      for (const auto& [priority, number] : line) {
        Entry* const looked_at = Find(number);
        const Verdict verdict = may(*looked_at);
        if (verdict == Verdict::kYes) entry = looked_at;
        if (verdict != Verdict::kAnother) break;
      }
      if (entry == nullptr) continue;
      const bool reserved = within_reserve(*entry);
      if (best != nullptr) {
        if (reserved != best_reserved) {
          if (best_reserved) continue;
        } else if (entry->ask.priority() != best->ask.priority()) {
          if (entry->ask.priority() < best->ask.priority()) continue;
        } else {
          const int compared = quotas.Compare(tenant, best->ask.tenant());
          if (compared > 0 || (compared == 0 && entry->number > best->number)) continue;
        }
      }
      best = entry;
      best_reserved = reserved;
    }
  }
  return best;
}

uint32_t WaitingLine::PositionOf(const Entry& entry, const QuotaTree& quotas) const {
  // The first of its tenant's has the least number of them that waits.
  uint32_t own = 1;
  for (const auto& [key, shape] : shapes_) {
    const auto line = shape.tenants.find(entry.ask.tenant());
    if (line == shape.tenants.end()) continue;
    for (const auto& [priority, number] : line->second) {
      if (std::pair(priority, number) >= InLine(entry)) break;
      ++own;
    }
  }
  const uint64_t weight = WeightOf(quotas, entry.ask.tenant());
  uint32_t position = own;
  for (const auto& [tenant, count] : counts_) {
    if (tenant == entry.ask.tenant()) continue;
    const uint64_t turns = (own * uint64_t{WeightOf(quotas, tenant)} + weight - 1) / weight;
    for (const auto& [priority, requests] : count.by_priority) {
      if (priority < entry.ask.priority()) continue;
      position += priority > entry.ask.priority()
                      ? requests
                      : static_cast<uint32_t>(std::min<uint64_t>(turns, requests));
    }
  }
  return position;
}

uint32_t WaitingLine::RequestsOf(const std::string& tenant) const {
  const auto found = counts_.find(tenant);
  return found == counts_.end() ? 0 : found->second.requests;
}

}  // namespace warpline::placement
