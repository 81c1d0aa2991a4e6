#include "launcher/nodes/agent/protocol/upload.h"

#include "common/base/hash.h"
#include "launcher/nodes/node_limits.h"

namespace xpurun::nodes {

using namespace launcher;
using base::MonoNs;
using base::s_to_ns;

namespace {

// After a request for chunks, the offer is repeated only after this pause: the other side knows the offer.
constexpr double kQuietS = 5;
// A gathering ends much earlier.
constexpr double kLongestS = 600;

}  // namespace

Upload::Upload(Offer offer, std::string archive, uint64_t chunk, MonoNs now)
    : offer_(std::move(offer)), archive_(std::move(archive)), started_(now), next_offer_(now) {
  offer_.size = archive_.size();
  offer_.chunk = chunk;
  offer_.hash = base::hash_text(archive_);
}

std::optional<Offer> Upload::due(MonoNs now) {
  if (now < next_offer_) {
    return std::nullopt;
  }
  next_offer_ = now + s_to_ns(kRepeatS);
  return offer_;
}

std::vector<Part> Upload::wanted(const Want& want, MonoNs now) {
  std::vector<Part> out;
  if (want.request != offer_.request) {
    return out;
  }
  next_offer_ = now + s_to_ns(kQuietS);
  for (const uint64_t number : want.numbers) {
    if (number < offer_.chunks()) {
      out.push_back({.request = offer_.request,
                     .number = number,
                     .bytes = archive_.substr(number * offer_.chunk, offer_.chunk)});
    }
  }
  return out;
}

bool Upload::expired(MonoNs now) const {
  return now - started_ > s_to_ns(kLongestS);
}

}  // namespace xpurun::nodes
