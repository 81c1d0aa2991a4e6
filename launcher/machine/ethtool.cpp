#include "launcher/machine/ethtool.h"

#include "common/base/os/fd.h"

#include <algorithm>
#include <cstring>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <map>
#include <net/if.h>
#include <string_view>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace xpurun::launcher {

using model::MachineFact;

namespace {

constexpr uint32_t kMostCounters = 16'384;

bool ask(int socket, const std::string& interface, void* question) {
  ifreq request{};
  interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
  request.ifr_data = static_cast<char*>(question);
  return ::ioctl(socket, SIOCETHTOOL, &request) == 0;
}

// A question of ethtool with an answer of any length behind its header.
template <typename Header>
std::vector<std::byte> question_of(const Header& header, size_t answer_bytes) {
  std::vector<std::byte> out(sizeof header + answer_bytes);
  std::memcpy(out.data(), &header, sizeof header);
  return out;
}

bool is_numbered(std::string_view name, std::string_view begin, std::string_view end) {
  if (!name.starts_with(begin) || !name.ends_with(end) || name.size() <= begin.size() + end.size()) {
    return false;
  }
  const std::string_view number = name.substr(begin.size(), name.size() - begin.size() - end.size());
  return std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

struct Meaning {
  MachineFact fact;
  bool known = false;
};

Meaning meaning_of(std::string_view name) {
  if (is_numbered(name, "rx_prio", "_pause") || is_numbered(name, "rx_pfc_ena_frames_pri", "") ||
      name == "rx_pause_ctrl_phy" || name == "rx_pause_frames") {
    return {MachineFact::pause_frames, true};
  }
  if (is_numbered(name, "rx_prio", "_pause_duration")) {
    return {MachineFact::paused, true};
  }
  if (name == "rx_discards_phy" || name == "rx_total_discard_pkts") {
    return {MachineFact::port_discards, true};
  }
  if (name == "link_down_events_phy" || name == "link_down_events") {
    return {MachineFact::link_downed, true};
  }
  return {MachineFact::link_downed, false};
}

}  // namespace

std::vector<AdapterCounter> adapter_counters(const std::string& interface) {
  const base::UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ethtool_drvinfo driver{};
  driver.cmd = ETHTOOL_GDRVINFO;
  if (socket.get() < 0 || !ask(socket.get(), interface, &driver) || driver.n_stats == 0 ||
      driver.n_stats > kMostCounters) {
    return {};
  }
  const size_t count = driver.n_stats;
  ethtool_gstrings names{};
  names.cmd = ETHTOOL_GSTRINGS;
  names.string_set = ETH_SS_STATS;
  names.len = driver.n_stats;
  ethtool_stats values{};
  values.cmd = ETHTOOL_GSTATS;
  values.n_stats = driver.n_stats;
  // A driver that has more counters by now would write more than there is room for; twice is enough.
  auto name_text = question_of(names, 2 * count * ETH_GSTRING_LEN);
  auto value_text = question_of(values, 2 * count * sizeof(uint64_t));
  if (!ask(socket.get(), interface, name_text.data()) || !ask(socket.get(), interface, value_text.data())) {
    return {};
  }
  std::vector<AdapterCounter> out(count);
  for (size_t i = 0; i < count; ++i) {
    const char* name = reinterpret_cast<const char*>(name_text.data()) + sizeof names + i * ETH_GSTRING_LEN;
    out[i].name.assign(name, ::strnlen(name, ETH_GSTRING_LEN));
    std::memcpy(&out[i].value, value_text.data() + sizeof values + i * sizeof(uint64_t), sizeof(uint64_t));
  }
  return out;
}

void add_adapter_counters(const std::vector<AdapterCounter>& counters, const std::string& object,
                          model::MachineReading& out) {
  std::map<MachineFact, uint64_t> sums;
  for (const AdapterCounter& counter : counters) {
    if (const Meaning meaning = meaning_of(counter.name); meaning.known) {
      sums[meaning.fact] += counter.value;
    }
  }
  for (const auto& [fact, sum] : sums) {
    out.values.push_back({.fact = fact, .object = object, .value = static_cast<double>(sum), .detail = {}});
  }
}

}  // namespace xpurun::launcher
