#include "common/model/evidence/kernel_events.h"

#include "common/model/json_visitors.h"

namespace xpurun::model {

template <typename V, Self<KernelEvent> E>
void fields(V& visit, E& e) {
  visit("kind", e.kind);
  visit("at_s", e.at_s);
  visit("pid", e.pid, WhenEmpty::omit);
  visit("comm", e.comm, WhenEmpty::omit);
  visit.optional("xid", e.xid);
  visit("pci", e.pci, WhenEmpty::omit);
  visit("memory_limit", e.memory_limit, WhenEmpty::omit);
  visit("text", e.text);
}

template <typename V, Self<KernelEvents> K>
void fields(V& visit, K& k) {
  visit("events", k.events);
  visit("host_pids", k.host_pids);
}

nlohmann::ordered_json to_json(const KernelEvents& k) {
  return write_object(kKernelSchema, k);
}

base::Result<KernelEvents> kernel_events_from_json(const nlohmann::json& j) {
  return read_object<KernelEvents>(kKernelSchema, "kernel events", j);
}

base::Result<KernelEvents> load_kernel_events(const std::string& path) {
  return load_object(path, kernel_events_from_json);
}

}  // namespace xpurun::model
