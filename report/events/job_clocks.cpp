#include "report/events/job_clocks.h"

#include <algorithm>
#include <cmath>

namespace xpurun::report {

namespace {

constexpr size_t kMostEnds = 400'000;
constexpr int kRounds = 3;
// Ends that a round looks at: each host looks at all ends of its collectives.
constexpr size_t kMostLooks = 100'000'000;

int64_t median(std::vector<int64_t>& values) {
  const auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void JobClocks::thin_out() {
  while (ends_.size() > kMostEnds) {
    mask_ = mask_ << 1 | 1;
    ends_.erase(std::remove_if(ends_.begin(), ends_.end(), [&](const End& e) { return !keeps(e.meeting); }),
                ends_.end());
  }
}

uint32_t JobClocks::host(const std::string& name) {
  const auto [at, is_new] = hosts_.emplace(name, static_cast<uint32_t>(hosts_.size()));
  if (is_new) {
    offsets_.push_back(0);
  }
  return at->second;
}

void JobClocks::add(uint32_t host, uint64_t meeting, int64_t end_ns) {
  if (keeps(meeting)) {
    ends_.push_back({meeting, host, end_ns});
    if (ends_.size() > kMostEnds) {
      thin_out();
    }
  }
}

void JobClocks::add(const Activity& activity) {
  const uint32_t number = host(activity.host);
  for (const Slice& s : activity.slices) {
    if (s.meeting != 0 && activity.calls[s.call].ends_together) {
      add(number, s.meeting, s.end_ns());
    }
  }
}

void JobClocks::leave_some(std::vector<Meeting>& meetings) const {
  size_t looks = 0;
  size_t kept = 0;
  std::vector<bool> there(hosts_.size());
  for (; kept < meetings.size() && looks < kMostLooks; ++kept) {
    there.assign(hosts_.size(), false);
    for (size_t i = meetings[kept].first; i < meetings[kept].last; ++i) {
      there[ends_[i].host] = true;
    }
    looks += static_cast<size_t>(std::count(there.begin(), there.end(), true)) *
             (meetings[kept].last - meetings[kept].first);
  }
  meetings.resize(kept);
}

std::vector<JobClocks::Meeting> JobClocks::meetings() {
  std::sort(ends_.begin(), ends_.end(), [](const End& a, const End& b) { return a.meeting < b.meeting; });
  std::vector<Meeting> out;
  for (size_t first = 0; first < ends_.size();) {
    size_t last = first + 1;
    while (last < ends_.size() && ends_[last].meeting == ends_[first].meeting) {
      ++last;
    }
    if (last - first > 1) {
      out.push_back({first, last});
    }
    first = last;
  }
  return out;
}

bool JobClocks::consensus(const Meeting& meeting, uint32_t except, int64_t& at_ns) {
  scratch_.clear();
  for (size_t i = meeting.first; i < meeting.last; ++i) {
    const End& e = ends_[i];
    if (e.host != except && aligned_[e.host]) {
      scratch_.push_back(e.at_ns + offsets_[e.host]);
    }
  }
  if (scratch_.empty()) {
    return false;
  }
  at_ns = median(scratch_);
  return true;
}

// Sets the offset of a host by its collectives with aligned ones. False: there is none.
bool JobClocks::move_host(uint32_t host, const std::vector<Meeting>& meetings) {
  std::vector<int64_t> differences;
  for (const Meeting& m : meetings) {
    int64_t at_ns = 0;
    const bool is_member =
        std::any_of(ends_.begin() + static_cast<long>(m.first), ends_.begin() + static_cast<long>(m.last),
                    [&](const End& e) { return e.host == host; });
    if (!is_member || !consensus(m, host, at_ns)) {
      continue;
    }
    for (size_t i = m.first; i < m.last; ++i) {
      if (ends_[i].host == host) {
        differences.push_back(at_ns - ends_[i].at_ns);
      }
    }
  }
  if (differences.size() < least_ends_) {
    return false;
  }
  offsets_[host] = median(differences);
  return true;
}

void JobClocks::find_offsets(const std::vector<Meeting>& meetings) {
  aligned_.assign(hosts_.size(), false);
  aligned_[0] = true;
  // The collectives of each host.
  std::vector<std::vector<Meeting>> of(hosts_.size());
  for (const Meeting& m : meetings) {
    std::vector<uint32_t> hosts;
    for (size_t i = m.first; i < m.last; ++i) {
      hosts.push_back(ends_[i].host);
    }
    std::sort(hosts.begin(), hosts.end());
    hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
    for (const uint32_t host : hosts) {
      of[host].push_back(m);
    }
  }
  for (bool again = true; again;) {
    again = false;
    for (uint32_t host = 1; host < hosts_.size(); ++host) {
      if (!aligned_[host] && move_host(host, of[host])) {
        aligned_[host] = again = true;
      }
    }
  }
  for (int round = 0; round < kRounds; ++round) {
    for (uint32_t host = 1; host < hosts_.size(); ++host) {
      if (aligned_[host]) {
        (void)move_host(host, of[host]);
      }
    }
  }
}

void JobClocks::measure(const std::vector<Meeting>& meetings) {
  std::vector<int64_t> apart;
  for (const Meeting& m : meetings) {
    scratch_.clear();
    for (size_t i = m.first; i < m.last; ++i) {
      scratch_.push_back(ends_[i].at_ns + offsets_[ends_[i].host]);
    }
    const int64_t middle = median(scratch_);
    for (const int64_t at : scratch_) {
      apart.push_back(std::abs(at - middle));
    }
  }
  residual_.collectives = meetings.size();
  if (!apart.empty()) {
    residual_.worst_us = static_cast<double>(*std::max_element(apart.begin(), apart.end())) / 1e3;
    residual_.median_us = static_cast<double>(median(apart)) / 1e3;
  }
}

void JobClocks::solve() {
  if (hosts_.empty()) {
    return;
  }
  std::vector<Meeting> all = meetings();
  leave_some(all);
  find_offsets(all);
  measure(all);
  for (const auto& [name, index] : hosts_) {
    residual_.offsets_ns[name] = offsets_[index];
    if (!aligned_[index]) {
      residual_.unaligned.push_back(name);
    }
  }
  ends_ = {};
}

int64_t JobClocks::offset_ns(const std::string& host) const {
  const auto found = hosts_.find(host);
  return found == hosts_.end() ? 0 : offsets_[found->second];
}

}  // namespace xpurun::report
