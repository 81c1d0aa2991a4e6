// The profile as tables of text.
#include "common/base/strings.h"
#include "common/model/frame_text.h"
#include "report/profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

namespace xpurun::report {

namespace {

constexpr size_t kMostRows = 30;
constexpr double kLeastDifference = 0.01;  // of the samples

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string name_of(const FunctionShare& f) {
  return f.file.empty() ? f.function
         : f.line > 0   ? fmt::format("{} ({}:{})", f.function, model::source_name(f.file), f.line)
                        : fmt::format("{} ({})", f.function, model::source_name(f.file));
}

std::string heading(const Profile& p) {
  const size_t ranks = p.ranks().size();
  const std::string of = ranks == 0 ? p.about : fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s");
  std::string out =
      fmt::format("Profile of {}: {} samples in {}, {:.0f} a second", base::sanitize(of), p.samples(),
                  base::human_duration(p.seconds), p.interval_s > 0 ? 1 / p.interval_s : 0.0);
  if (p.torn > 0) {
    out += fmt::format(", {} torn and left out", p.torn);
  }
  return out + ".\n";
}

struct Difference {
  const FunctionShare* function;
  double here;
  double there;

  double size() const { return std::abs(here - there); }
};

// By self time: a slow callee makes its callers differ in total time as well, and only the callee is of
// interest.
std::vector<Difference> differences(const std::vector<FunctionShare>& here, uint64_t here_samples,
                                    const std::vector<FunctionShare>& there, uint64_t there_samples) {
  std::vector<Difference> out;
  const auto find = [](const std::vector<FunctionShare>& in, const FunctionShare& f) {
    const auto it = std::find_if(in.begin(), in.end(), [&](const FunctionShare& other) {
      return other.function == f.function && other.file == f.file && other.line == f.line;
    });
    return it == in.end() ? uint64_t{0} : it->self;
  };
  for (const FunctionShare& f : here) {
    out.push_back({&f, share(f.self, here_samples), share(find(there, f), there_samples)});
  }
  for (const FunctionShare& f : there) {
    if (find(here, f) == 0 && f.self > 0) {
      out.push_back({&f, 0, share(f.self, there_samples)});
    }
  }
  return out;
}

// Ranks that spend as long in a function may do so in different lines: then these take its place.
void put_lines(std::vector<Difference>& functions, const std::vector<Difference>& lines) {
  std::map<std::pair<std::string_view, std::string_view>, std::vector<Difference>> of;
  for (const Difference& line : lines) {
    of[{line.function->function, line.function->file}].push_back(line);
  }
  std::vector<Difference> out;
  for (const Difference& function : functions) {
    const auto& inside = of[{function.function->function, function.function->file}];
    const bool by_line = std::any_of(inside.begin(), inside.end(), [&](const Difference& line) {
      return line.function->line > 0 && line.size() >= function.size() + kLeastDifference;
    });
    out.insert(out.end(), by_line ? inside.begin() : inside.end(), inside.end());
    if (!by_line) {
      out.push_back(function);
    }
  }
  functions = std::move(out);
}

uint64_t samples_of(const Profile& profile, const model::RankSet& ranks) {
  uint64_t sum = 0;
  for (const ProfileTrack& track : profile.tracks) {
    sum += ranks.contains(track.rank) ? track.samples() : 0;
  }
  return sum;
}

std::string compared_text(const Profile& profile, const model::RankSet& ranks, size_t columns) {
  const model::RankSet others = profile.ranks().minus(ranks);
  const auto here = functions_of(profile, ranks);
  const auto there = functions_of(profile, others);
  const uint64_t here_samples = samples_of(profile, ranks);
  const uint64_t there_samples = samples_of(profile, others);
  auto rows = differences(here, here_samples, there, there_samples);
  const auto here_lines = lines_of(profile, ranks);
  const auto there_lines = lines_of(profile, others);
  put_lines(rows, differences(here_lines, here_samples, there_lines, there_samples));
  std::erase_if(rows, [](const Difference& d) { return d.size() < kLeastDifference; });
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Difference& a, const Difference& b) { return a.size() > b.size(); });
  std::string out =
      fmt::format("\nRanks {} compared with ranks {}, by self time:\n\n   MORE   THESE  OTHERS  FUNCTION\n",
                  ranks.text(), others.text());
  for (size_t i = 0; i < std::min(rows.size(), kMostRows); ++i) {
    const Difference& d = rows[i];
    out += fmt::format("{:+6.1f}% {:6.1f}% {:6.1f}%  {}\n", 100 * (d.here - d.there), 100 * d.here,
                       100 * d.there,
                       base::elide_middle(name_of(*d.function), std::max<size_t>(columns, 45) - 26));
  }
  if (rows.empty()) {
    out += "  no function differs by 1 % of the samples\n";
  }
  return out;
}

}  // namespace

std::string profile_text(const Profile& profile, const model::RankSet& compared, size_t columns) {
  std::string out = heading(profile);
  const uint64_t all = profile.samples();
  const auto functions = functions_of(profile);
  out += "\n   SELF   TOTAL  FUNCTION\n";
  for (size_t i = 0; i < std::min(functions.size(), kMostRows); ++i) {
    const FunctionShare& f = functions[i];
    out += fmt::format("{:6.1f}% {:6.1f}%  {}\n", 100 * share(f.self, all), 100 * share(f.total, all),
                       base::elide_middle(name_of(f), std::max<size_t>(columns, 40) - 18));
  }
  if (functions.size() > kMostRows) {
    out += fmt::format("  and {} more functions\n", functions.size() - kMostRows);
  }
  return compared.empty() ? out : out + compared_text(profile, compared, columns);
}

}  // namespace xpurun::report
