#include "report/formats/systrace.h"

#include "common/base/strings.h"
#include "common/model/json/json_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace xpurun::report {

namespace {

using Json = nlohmann::ordered_json;
using model::SlowCause;

constexpr int kNormal = 200;
constexpr int kSlowNode = 201;

// "2026-11-23 14:03:07"
std::string time_text(int64_t wall_ns) {
  std::string text = base::utc_iso8601(wall_ns).substr(0, 19);
  if (text.size() > 10) {
    text[10] = ' ';
  }
  return text;
}

std::string ms_text(double seconds) {
  return fmt::format("{:.1f}ms", seconds * 1e3);
}

Json slow_steps(const model::SpeedReport& report) {
  Json list = Json::array();
  for (const model::StepChange& change : report.changes) {
    if (change.share > 0) {
      list.push_back({{"training_step", change.step},
                      {"anomaly_time", time_text(change.wall_ns)},
                      {"anomaly_degree", std::round(change.share * 1000) / 1000},
                      {"anomaly_training_time", ms_text(change.after_s)},
                      {"normal_training_time", ms_text(change.before_s)}});
    }
  }
  const auto ms = [](int64_t ns) { return ns / 1'000'000; };
  Json j;
  j["is_anomaly"] = !list.empty();
  j["anomaly_count_times"] = list.size();
  j["anomaly_type"] = list.empty() ? "normal" : "failslow";
  j["anomaly_info"] = std::move(list);
  j["start_time"] = ms(report.first_wall_ns);
  j["end_time"] = ms(report.last_wall_ns);
  return j;
}

bool is_storage(SlowCause cause) {
  return cause == SlowCause::input || cause == SlowCause::checkpoint;
}

// Mean own time of a step in seconds, over time; empty where the ranks are not shown one by one.
Json own_times(const model::HeatMap& heat, base::Rank rank) {
  Json out = Json::array();
  for (size_t row = 0; row < heat.rows.size(); ++row) {
    if (heat.rows[row] != model::RankSet{rank}) {
      continue;
    }
    for (size_t column = 0; column < heat.columns; ++column) {
      if (const float own_s = heat.own_s[row * heat.columns + column]; own_s >= 0) {
        out.push_back(own_s);
      }
    }
  }
  return out;
}

Json other_ranks(const model::SpeedReport& report, const model::RankSet& ranks) {
  Json out = Json::array();
  for (const model::RankSpeed& rank : report.ranks) {
    if (!ranks.contains(rank.rank)) {
      out.push_back(rank.rank);
    }
  }
  return out;
}

Json slow_nodes(const model::SpeedReport& report) {
  Json abnormal = Json::array();
  Json normal = Json::array();
  model::RankSet slow;
  bool compute = false;
  bool network = false;
  bool storage = false;
  // `compared`: with which other ranks, none for a rank that is not abnormal.
  const auto item = [&](const model::RankSpeed& rank, std::string_view kpi, Json compared) {
    return Json{{"objectId", fmt::format("{}", rank.rank)},
                {"serverIp", rank.host},
                {"deviceInfo", fmt::format("rank_{}", rank.rank)},
                {"kpiId", kpi},
                {"methodType", "SPACE"},
                {"kpiData", own_times(report.heat, rank.rank)},
                {"relaIds", std::move(compared)},
                {"omittedDevices", Json::array()}};
  };
  for (const model::SpeedFinding& finding : report.findings) {
    if (finding.severity != model::SpeedSeverity::warning) {
      continue;
    }
    network = network || finding.cause == SlowCause::network;
    storage = storage || is_storage(finding.cause);
    compute = compute || (finding.cause != SlowCause::network && !is_storage(finding.cause));
    for (const model::RankSpeed& rank : report.ranks) {
      if (finding.ranks.contains(rank.rank) && !slow.contains(rank.rank)) {
        slow.insert(rank.rank);
        abnormal.push_back(item(rank, name_of(finding.cause), other_ranks(report, finding.ranks)));
      }
    }
  }
  for (const model::RankSpeed& rank : report.ranks) {
    if (!slow.empty() && !slow.contains(rank.rank)) {
      normal.push_back(item(rank, "step", Json::array()));
    }
  }
  return {{"timestamp", report.last_wall_ns / 1'000'000},
          {"resultCode", compute || network || storage ? kSlowNode : kNormal},
          {"compute", compute},
          {"network", network},
          {"storage", storage},
          {"abnormalDetail", std::move(abnormal)},
          {"normalDetail", std::move(normal)},
          {"errorMsg", report.source == model::StepSource::none ? report.sentence : ""}};
}

}  // namespace

std::string systrace_scheduler(const model::RunManifest& run, const model::MachineHistory& machine) {
  const auto us = [](double seconds) { return static_cast<int64_t>(std::llround(seconds * 1e6)); };
  Json list = Json::array();
  for (const model::Intruder& i : machine.intruders) {
    const auto rank = std::find_if(run.processes.begin(), run.processes.end(), [&](const auto& p) {
      return p.rank == i.rank && p.role == model::ProcessRole::rank;
    });
    list.push_back({{"rank", i.rank},
                    {"pid", rank == run.processes.end() ? 0 : rank->pid},
                    {"comm", rank == run.processes.end() ? std::string() : base::sanitize(rank->comm)},
                    {"start_us", i.begin_wall_ns / 1000},
                    {"dur", us(i.watched_s)},
                    {"rundelay", us(i.ready_s)},
                    {"nxt_pid", i.pid},
                    {"nxt_comm", base::sanitize(i.command)},
                    {"nxt_dur", us(i.cpu_s)}});
  }
  Json j;
  j["os_events"] = list;
  return list.empty() ? std::string() : model::json_text(j) + "\n";
}

std::string systrace_results(const model::SpeedReport& report) {
  return model::json_text(slow_steps(report)) + "\n" + model::json_text(slow_nodes(report)) + "\n";
}

}  // namespace xpurun::report
