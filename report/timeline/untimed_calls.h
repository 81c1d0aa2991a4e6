// UntimedCalls: when a rank called GPU work whose times are not in its files. Every call of an entry of a
// process has a number, timed or not, so that the numbers of the timed calls show the others. Traces and
// captures time everything.
#pragma once

#include "common/base/ids.h"
#include "common/model/timing/event_file.h"
#include "report/events/activity.h"
#include "report/timeline/coverage/recorded_calls.h"

#include <cstdint>
#include <map>
#include <vector>

namespace xpurun::report {

class UntimedCalls {
 public:
  // The files of one rank, in any order; a call may be in several.
  void add(const model::EventFile& file, RecordedCalls recorded);
  // Wall times of the rank's host at which calls may lack times; in order, apart from each other.
  std::vector<Period> periods() const;
  // Of these, those between two timed calls of one entry with untimed ones between them.
  std::vector<Period> sampled() const;

 private:
  // Calls of an entry with consecutive numbers.
  struct Run {
    uint32_t first = 0;
    uint32_t last = 0;
    int64_t first_called = 0;
    int64_t last_called = 0;
  };
  struct Entry {
    bool kernel = false;
    std::vector<Run> runs;
  };
  using Entries = std::vector<Entry>;  // by number

  static void put(Entries& entries, const model::EventFile& file);
  static std::vector<Period> between(const Entry& entry);
  void cover(const model::EventFile& file, RecordedCalls recorded);
  void cover_captured(const model::EventFile& file);

  std::map<base::Pid, Entries> processes_;
  std::vector<Period> covered_;
};

// Adds a row with the periods of Activity::sampled.
void mark_sampled(Activity& activity);

}  // namespace xpurun::report
