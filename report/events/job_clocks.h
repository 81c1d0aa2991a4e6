// Clocks of the hosts made equal: no rank leaves an all-reduce before all have entered, so all leave at about
// the same time. The differences of the ends are the differences of the clocks.
#pragma once

#include "report/events/activity.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace xpurun::report {

// The only place that compares clocks of hosts. Add the ends of every rank, then solve() once. Memory and
// time are bounded: of too many collectives a part is kept, the same on every rank.
class JobClocks {
 public:
  // A host with fewer ends at collectives of several ranks keeps its clock.
  explicit JobClocks(size_t least_ends = 1) : least_ends_(least_ends) {}

  void add(const Activity& activity);
  // A number for add(); the first host is the one whose clock counts.
  uint32_t host(const std::string& name);
  // `meeting` ends on the host, by its clock. Only of collectives that no rank leaves before all have
  // entered.
  void add(uint32_t host, uint64_t meeting, int64_t end_ns);
  void solve();

  // Nanoseconds to add to wall times of the host; 0 before solve() and for a host without a common
  // collective with the first one.
  int64_t offset_ns(const std::string& host) const;

  struct Residual {
    size_t collectives = 0;  // with ends from at least two ranks
    double median_us = 0;    // distance of a rank's end from the median end of its collective
    double worst_us = 0;
    std::vector<std::string> unaligned;  // hosts without a common collective with the others
    std::map<std::string, int64_t> offsets_ns;
  };
  const Residual& residual() const { return residual_; }

 private:
  struct End {
    uint64_t meeting = 0;
    uint32_t host = 0;
    int64_t at_ns = 0;
  };
  // All ends of one collective: [first, last) of ends_.
  struct Meeting {
    size_t first = 0;
    size_t last = 0;
  };
  bool keeps(uint64_t meeting) const { return (meeting & mask_) == 0; }
  void thin_out();
  std::vector<Meeting> meetings();
  void find_offsets(const std::vector<Meeting>& meetings);
  // Median end of the collective by the clocks of aligned hosts, without the host `except`. False: no such
  // end.
  bool consensus(const Meeting& meeting, uint32_t except, int64_t& at_ns);
  bool move_host(uint32_t host, const std::vector<Meeting>& meetings);
  void leave_some(std::vector<Meeting>& meetings) const;
  void measure(const std::vector<Meeting>& meetings);

  size_t least_ends_;
  std::map<std::string, uint32_t> hosts_;
  std::vector<int64_t> offsets_;  // by host
  std::vector<bool> aligned_;
  std::vector<End> ends_;
  uint64_t mask_ = 0;
  std::vector<int64_t> scratch_;
  Residual residual_;
};

}  // namespace xpurun::report
