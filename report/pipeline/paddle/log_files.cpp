#include "report/pipeline/paddle/log_files.h"

#include "common/base/strings.h"
#include "report/pipeline/paddle/log.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string_view>

namespace xpurun::report {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLog = "workerlog.";
constexpr std::string_view kMachine = "machine";
constexpr int64_t kMostNumber = 1'000'000;

// The number behind `head` in the name of a file or folder.
std::optional<int> number_behind(std::string_view name, std::string_view head) {
  const auto number = name.starts_with(head) ? base::parse_int(name.substr(head.size())) : std::nullopt;
  return number && *number >= 0 && *number < kMostNumber ? std::optional(static_cast<int>(*number))
                                                         : std::nullopt;
}

std::map<int, std::string> entries(const std::string& directory, std::string_view head, bool folders) {
  std::map<int, std::string> out;
  std::error_code ec;
  for (auto it = fs::directory_iterator(directory, ec); !ec && it != fs::directory_iterator();
       it.increment(ec)) {
    std::error_code other;
    const auto number = number_behind(it->path().filename().string(), head);
    if (number && (folders ? it->is_directory(other) : it->is_regular_file(other))) {
      out.emplace(*number, it->path().string());
    }
  }
  return out;
}

void read_machine(const std::string& directory, int machine, PaddleLogs& out) {
  for (const auto& [device, path] : entries(directory, kLog, false)) {
    out.found = true;
    auto log = load_paddle_log(path);
    if (!log) {
      out.problems.push_back(log.error());
      continue;
    }
    if (log->damaged > 0 || log->cut) {
      out.problems.push_back(
          {.what = log->cut ? fmt::format("{}: too many jobs; the later ones are left out", path)
                            : fmt::format("{}: {} damaged {} left out", path, log->damaged,
                                          log->damaged == 1 ? "job is" : "jobs are")});
    }
    out.first_step = out.ranks.empty() && log->first_step > 0 ? log->first_step : out.first_step;
    RankJobs rank{.rank = static_cast<base::Rank>(out.ranks.size()),
                  .device = device,
                  .machine = machine,
                  .host = machine < 0 ? std::string() : fmt::format("machine {}", machine),
                  .source = model::JobSource::log,
                  .jobs = std::move(log->jobs)};
    for (Job& job : rank.jobs) {
      job.gpu = true;  // Paddle records CUDA events
    }
    put_in_order(rank.jobs);
    if (!rank.jobs.empty()) {
      out.ranks.push_back(std::move(rank));
    }
  }
}

}  // namespace

bool holds_paddle_logs(const std::string& directory) {
  if (!entries(directory, kLog, false).empty()) {
    return true;
  }
  for (const auto& [number, path] : entries(directory, kMachine, true)) {
    if (!entries(path, kLog, false).empty()) {
      return true;
    }
  }
  return false;
}

PaddleLogs read_paddle_logs(const std::vector<std::string>& directories) {
  PaddleLogs out;
  for (size_t i = 0; i < directories.size(); ++i) {
    if (!entries(directories[i], kLog, false).empty()) {
      read_machine(directories[i], directories.size() == 1 ? -1 : static_cast<int>(i), out);
      continue;
    }
    for (const auto& [number, path] : entries(directories[i], kMachine, true)) {
      read_machine(path, number, out);
    }
  }
  return out;
}

}  // namespace xpurun::report
