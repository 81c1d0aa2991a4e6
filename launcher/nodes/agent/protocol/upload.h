// Upload: the sender's side of one archive. This node offers the archive until the elected node requests its
// chunks. Pure: the caller passes the times.
#pragma once

#include "common/base/clock.h"
#include "launcher/nodes/agent/protocol/wire.h"

#include <optional>
#include <string>
#include <vector>

namespace xpurun::nodes {

class Upload {
 public:
  // `chunk`: bytes of each chunk, so that a message with one fits the server's limit.
  Upload(Offer offer, std::string archive, uint64_t chunk, base::MonoNs now);

  const std::string& request() const { return offer_.request; }
  // The offer, when it is due again.
  std::optional<Offer> due(base::MonoNs now);
  // Those of the wanted chunks that exist.
  std::vector<Part> wanted(const Want& want, base::MonoNs now);
  bool expired(base::MonoNs now) const;

 private:
  Offer offer_;
  std::string archive_;
  base::MonoNs started_;
  base::MonoNs next_offer_;
};

}  // namespace xpurun::nodes
