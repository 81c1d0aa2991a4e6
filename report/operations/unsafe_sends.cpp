#include "report/operations/unsafe_sends.h"

#include "common/base/hash.h"
#include "common/base/strings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace xpurun::report {

void UnsafeSends::add(const RankRecord& rank) {
  std::unordered_map<uint32_t, uint64_t> latest;  // send, by thread
  size_t messages = 0;
  for (const model::SpanFile& file : rank.spans) {
    std::vector<const model::Span*> calls;
    for (const model::Span& span : file.spans) {
      const std::string& name = file.names[span.name];
      const bool message =
          span.group != 0 && span.sequence != 0 && (name == "MPI_Send" || name == "MPI_Recv");
      if (message && messages++ < kMostOfARank) {
        calls.push_back(&span);
      }
    }
    // A span is written when it ends; these calls do not nest.
    for (const model::Span* span : calls) {
      const uint64_t key = base::hash_words(base::hash_text(file.names[span->group]), {span->sequence});
      if (file.names[span->name] == "MPI_Send") {
        latest[span->thread] = key;
        sends_[key] = {
            .rank = rank.rank, .place = base::sanitize(file.names[span->place]), .bytes = span->bytes};
      } else if (const auto send = latest.find(span->thread); send != latest.end()) {
        before_[key] = send->second;
      }
    }
  }
}

std::vector<model::UnsafeSendRow> UnsafeSends::finish() {
  struct Circle {
    model::RankSet ranks;
    model::UnsafeSendRow row;
  };
  std::map<std::string, Circle> by_places;
  std::unordered_map<uint64_t, uint64_t> seen;  // send: the walk that has met it first
  uint64_t walk = 0;
  for (const auto& [start, first] : sends_) {
    ++walk;
    uint64_t at = start;
    while (sends_.contains(at) && before_.contains(at) && seen.try_emplace(at, walk).second) {
      at = before_.at(at);
    }
    const auto met = seen.find(at);
    if (met == seen.end() || met->second != walk) {
      continue;  // it ends, or leads to what an earlier walk has seen
    }
    std::set<std::string> places;
    Circle circle;
    const uint64_t begin = at;
    do {
      const Send& send = sends_.at(at);
      places.insert(send.place);
      circle.ranks.insert(send.rank);
      circle.row.most_bytes = std::max(circle.row.most_bytes, send.bytes);
      at = before_.at(at);
    } while (at != begin);
    if (circle.ranks.size() < 2) {
      continue;  // a rank that sends itself a message has received it by then
    }
    Circle& known = by_places[fmt::format("{}", fmt::join(places, ", "))];
    known.ranks.insert(circle.ranks);
    known.row.most_bytes = std::max(known.row.most_bytes, circle.row.most_bytes);
    ++known.row.times;
  }
  std::vector<model::UnsafeSendRow> out;
  for (auto& [places, circle] : by_places) {
    circle.row.places = places;
    circle.row.ranks = circle.ranks.text();
    out.push_back(std::move(circle.row));
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.times > b.times; });
  out.resize(std::min(out.size(), kMostRows));
  return out;
}

}  // namespace xpurun::report
