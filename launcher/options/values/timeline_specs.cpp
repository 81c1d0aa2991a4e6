#include "launcher/options/values/timeline_specs.h"

#include "common/base/strings.h"
#include "common/base/tr.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

namespace xpurun::launcher {

namespace {

constexpr size_t kMostSpecs = 20;
constexpr int64_t kLatestStep = 1'000'000'000'000;
constexpr double kLongestEveryS = 7 * 86'400;

std::optional<uint64_t> number(std::string_view text) {
  const auto n = base::parse_int(text);
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  return digits && n && *n >= 1 && *n <= kLatestStep ? std::optional<uint64_t>(*n) : std::nullopt;
}

base::Status check_length(uint64_t steps, const std::string& shown) {
  if (steps > kMostTimelineSteps) {
    return base::fail(base::cli_text("'{}' has more than {} steps", shown, kMostTimelineSteps));
  }
  return {};
}

base::Result<TimelineSpec> first_steps(std::string_view value, const std::string& shown) {
  const auto last = number(value);
  if (!last) {
    // A number without a unit is one of steps, also where it is wrong.
    const bool has_unit = value.find_first_of("smhd") != std::string_view::npos;
    const auto seconds = has_unit ? base::parse_duration_s(value) : std::nullopt;
    if (!seconds || *seconds <= 0 || *seconds > kLongestFirstS) {
      return base::fail(base::cli_text(
          "'{}': first: needs a number of steps, or a time of at most 10 minutes, as in first:10 or first:2s",
          shown));
    }
    return TimelineSpec{.first = 1, .last = 1, .first_s = *seconds};
  }
  XPURUN_TRY(check_length(*last, shown));
  return TimelineSpec{.first = 1, .last = *last};
}

base::Result<TimelineSpec> some_steps(std::string_view value, const std::string& shown) {
  const size_t dash = value.find('-');
  const auto first = number(value.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : number(value.substr(dash + 1));
  if (!first || !last) {
    return base::fail(
        base::cli_text("'{}': steps: needs the first and the last step, as in steps:100-110", shown));
  }
  if (*last < *first) {
    return base::fail(base::cli_text("'{}' ends before it begins", shown));
  }
  XPURUN_TRY(check_length(*last - *first + 1, shown));
  return TimelineSpec{.first = *first, .last = *last};
}

base::Result<TimelineSpec> every(std::string_view value, const std::string& shown) {
  const auto seconds = base::parse_duration_s(value);
  if (!seconds) {
    return base::fail(base::cli_text("'{}': every: needs a duration, as in every:10m", shown));
  }
  if (*seconds < kShortestEveryS || *seconds > kLongestEveryS) {
    return base::fail(base::cli_text("'{}' is not between 10 s and 7 days", shown));
  }
  return TimelineSpec{.kind = TimelineSpec::Kind::every, .every_s = *seconds};
}

base::Result<TimelineSpec> spec_of(std::string_view entry) {
  const std::string shown = base::sanitize(entry);
  constexpr std::string_view kHost = "+host";
  if (entry.ends_with(kHost)) {
    XPURUN_TRY_ASSIGN(TimelineSpec out, spec_of(entry.substr(0, entry.size() - kHost.size())));
    out.host = true;
    return out;
  }
  const size_t colon = entry.find(':');
  const std::string_view word = entry.substr(0, colon);
  const std::string_view value = colon == std::string_view::npos ? "" : entry.substr(colon + 1);
  if (word == "first") {
    return first_steps(value, shown);
  }
  if (word == "steps") {
    return some_steps(value, shown);
  }
  if (word == "every") {
    return every(value, shown);
  }
  return base::fail(
      base::cli_text("'{}' is not first:N, first:DURATION, steps:A-B or every:DURATION", shown));
}

}  // namespace

base::Result<std::vector<TimelineSpec>> timeline_specs(std::string_view list) {
  std::vector<TimelineSpec> out;
  for (const std::string_view part : base::split(list, ',')) {
    const std::string_view entry = base::trim(part);
    if (entry.empty()) {
      continue;
    }
    XPURUN_TRY_ASSIGN(TimelineSpec spec, spec_of(entry));
    spec.text = entry;
    if (std::find(out.begin(), out.end(), spec) == out.end()) {
      out.push_back(std::move(spec));
    }
  }
  if (out.size() > kMostSpecs) {
    return base::fail(base::cli_text("more than {} time lines", kMostSpecs));
  }
  std::stable_sort(out.begin(), out.end(), [](const TimelineSpec& a, const TimelineSpec& b) {
    return std::tuple(a.kind, a.first) < std::tuple(b.kind, b.first);
  });
  for (size_t i = 1; i < out.size(); ++i) {
    const TimelineSpec& a = out[i - 1];
    const TimelineSpec& b = out[i];
    if (a.kind == TimelineSpec::Kind::every) {
      return base::fail(base::cli_text("{} and {}: only one time line can be periodic", a.text, b.text));
    }
    if (b.kind == TimelineSpec::Kind::steps && b.first <= a.last) {
      return base::fail(base::cli_text("{} and {} overlap", a.text, b.text));
    }
  }
  return out;
}

}  // namespace xpurun::launcher
