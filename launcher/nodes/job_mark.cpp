#include "launcher/nodes/job_mark.h"

#include "common/base/strings.h"

namespace xpurun::launcher {

namespace {

bool differ(const std::string& a, const std::string& b) {
  return !a.empty() && !b.empty() && a != b;
}

// The node that holds the master may call it so.
bool is_loopback(const std::string& address) {
  return address == "localhost" || address.starts_with("127.") || address == "::1";
}

bool addresses_differ(const std::string& a, const std::string& b) {
  return differ(a, b) && !is_loopback(a) && !is_loopback(b);
}

}  // namespace

bool may_be_one_job(const JobMark& a, const JobMark& b) {
  if (!a.run_id.empty() && !b.run_id.empty()) {
    // The port and the world change when torchrun forms the job again.
    return a.run_id == b.run_id;
  }
  if (differ(a.port, b.port) || addresses_differ(a.address, b.address) ||
      (a.world_size > 0 && b.world_size > 0 && a.world_size != b.world_size)) {
    return false;
  }
  // One job may run in several jobs of the scheduler, one for each node.
  const bool one_master = !a.port.empty() && a.port == b.port;
  return one_master || !differ(a.scheduler, b.scheduler);
}

}  // namespace xpurun::launcher
