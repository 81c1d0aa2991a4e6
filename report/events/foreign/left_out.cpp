#include "report/events/foreign/left_out.h"

#include "common/base/strings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace xpurun::report {

namespace {
constexpr size_t kNamed = 3;
constexpr size_t kLongestName = 120;
}  // namespace

void LeftOut::add(std::string_view name) {
  ++count_;
  if (names_.size() < kNamed) {
    names_.push_back(base::sanitize(name.substr(0, kLongestName)));
  }
}

void LeftOut::note(Activity& activity, bool whole) const {
  activity.complete = activity.complete && whole && empty();
  if (!empty()) {
    activity.damage = fmt::format("{} {} left out: {}{}", count_, count_ == 1 ? "event is" : "events are",
                                  fmt::join(names_, ", "), whole ? "" : fmt::format("; {}", kEndMissing));
  }
}

}  // namespace xpurun::report
