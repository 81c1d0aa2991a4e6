#include "report/replay/tables.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::report {

namespace {

std::string percent_of(double ratio) {
  return ratio < 0 ? "" : fmt::format("{:.1f}", 100 * ratio);
}

std::string ms_text(double seconds) {
  return seconds < 0 ? "" : short_number(seconds * 1e3);
}

std::string mhz(int clock) {
  return clock < 0 ? "" : fmt::format("{}", clock);
}

std::string slow_ranks(const model::ReplayedMatmul& m) {
  std::vector<base::Rank> out;
  for (const model::ShapeOnRank& r : m.ranks) {
    if (r.slow) {
      out.push_back(r.rank);
    }
  }
  return model::RankSet::of(out).brief();
}

std::string with_epilogue(const model::ReplayedMatmul& m) {
  return m.transposes + (m.epilogue.empty() ? "" : " + " + m.epilogue);
}

TextTable matmul_table(const model::Replay& replay) {
  TextTable out{.id = "matmuls",
                .title = "Matmuls",
                .about = "TFLOP/s in the run (got) and in the replay (expected), at the medians."};
  out.columns = {{"m x n x k", false, 9}, {"Type", false, 8},       {"Op", false, 8},
                 {"Share %", true, 3},    {"Calls", true, 1},       {"Beside collectives", true, 1},
                 {"Got", true, 9},        {"Expected", true, 9},    {"Got %", true, 8},
                 {"Got ms", true, 2},     {"Expected ms", true, 2}, {"Slow ranks", false, 6},
                 {"MHz", true, 4}};
  out.all_rows = replay.matmuls.size();
  for (const model::ReplayedMatmul& m : replay.matmuls) {
    out.rows.push_back({base::sanitize(m.shape), m.types, with_epilogue(m), percent_of(m.share),
                        fmt::format("{}", m.count), fmt::format("{}", m.overlapped), short_number(m.tflops),
                        short_number(m.replay_tflops), percent_of(m.of_replay), ms_text(m.median_s),
                        ms_text(m.replay.median_s), slow_ranks(m), mhz(m.replay.sm_clock_mhz)});
  }
  return out;
}

TextTable rank_table(const model::Replay& replay, size_t most) {
  TextTable out{.id = "ranks",
                .title = "Ranks",
                .about =
                    "Speed of all replayed shapes of a rank, over the median of the ranks and over the "
                    "replay; the slowest first."};
  out.columns = {{"Rank", true, 9},        {"Median %", true, 9},   {"Replay %", true, 9},
                 {"Slow shapes", true, 7}, {"Judgement", false, 9}, {"Host", false, 5},
                 {"GPU", false, 3}};
  std::vector<model::ReplayedRank> ranks = replay.ranks;
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const auto& a, const auto& b) { return a.of_median < b.of_median; });
  out.all_rows = ranks.size();
  for (size_t i = 0; i < std::min(most, ranks.size()); ++i) {
    const model::ReplayedRank& r = ranks[i];
    out.rows.push_back({fmt::format("{}", r.rank), percent_of(r.of_median), percent_of(r.of_replay),
                        fmt::format("{}", r.slow_shapes), r.slow ? "slow" : "", base::sanitize(r.host),
                        base::sanitize(r.gpu)});
  }
  return out;
}

TextTable collective_table(const model::Replay& replay) {
  TextTable out{
      .id = "collectives",
      .title = "Collectives",
      .about =
          "Bus bandwidth, GB/s: in the run from the last arrival on (got), and in the replay (expected)."};
  out.columns = {{"Operation", false, 9}, {"Type", false, 4},  {"MiB", true, 8},
                 {"Ranks", true, 6},      {"GPUs", true, 6},   {"Share %", true, 3},
                 {"Calls", true, 1},      {"Got", true, 9},    {"Expected", true, 9},
                 {"Got %", true, 8},      {"Got ms", true, 2}, {"Expected ms", true, 2}};
  out.all_rows = replay.collectives.size();
  for (const model::ReplayedCollective& c : replay.collectives) {
    out.rows.push_back({c.operation, c.type, short_number(static_cast<double>(c.bytes) / (1 << 20)),
                        fmt::format("{}", c.size), fmt::format("{}", c.devices), percent_of(c.share),
                        fmt::format("{}", c.count), short_number(c.bus_gb_s), short_number(c.replay_bus_gb_s),
                        percent_of(c.of_replay), ms_text(c.transfer_s), ms_text(c.replay.median_s)});
  }
  return out;
}

}  // namespace

std::vector<TextTable> replay_tables(const model::Replay& replay, size_t most) {
  std::vector<TextTable> out;
  for (TextTable& table :
       std::vector<TextTable>{matmul_table(replay), rank_table(replay, most), collective_table(replay)}) {
    if (!table.rows.empty()) {
      out.push_back(std::move(table));
    }
  }
  return out;
}

}  // namespace xpurun::report
