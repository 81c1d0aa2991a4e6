#include "report/operations/tables/text_tables.h"

#include "common/base/tr.h"
#include "common/model/language/vocabulary_words.h"
#include "report/operations/tables/idle_tables.h"
#include "report/speed/primitives/statistics.h"
#include "report/speed/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace xpurun::report {

namespace {

constexpr double kMiB = 1024 * 1024;
constexpr double kWorthNaming = 0.03;  // a rank that needs this much longer

std::string mib(double bytes) {
  return bytes > 0 ? short_number(bytes / kMiB) : "";
}

double all_calls(const model::CallTimes& t) {
  return t.calls < 0 ? static_cast<double>(t.count) : t.calls;
}

std::string count(double calls) {
  return fmt::format("{:.0f}", calls);
}

// Of all calls, if their number is known.
double all_seconds(const model::CallTimes& t) {
  return t.count > 0 ? t.total_s / static_cast<double>(t.count) * all_calls(t) : 0;
}

std::string slowest_text(const std::vector<model::SlowestRank>& ranks) {
  return ranks.empty() || !ranks.front().outlier || ranks.front().excess < kWorthNaming
             ? ""
             : fmt::format("{} (+{})", ranks.front().rank, percent(ranks.front().excess));
}

// The rank that costs the others most, and its share of their waiting time.
std::string latest(const model::Lateness& l) {
  return l.ranks.empty() || !(l.wait_s > 0)
             ? ""
             : fmt::format("{} ({})", l.ranks.front().rank, percent(l.ranks.front().cost_s / l.wait_s));
}

std::string wait(const model::Lateness& l) {
  return l.meetings == 0 ? "" : short_number(l.wait_s);
}

// "1,200 of about 14,000 calls were timed", the method
template <typename R>
std::string about_calls(const std::vector<R>& rows) {
  double timed = 0;
  double calls = 0;
  bool known = true;
  std::vector<std::string> sources;
  for (const R& row : rows) {
    timed += static_cast<double>(row.times.count);
    calls += all_calls(row.times);
    known = known && row.times.calls >= 0;
    if (std::find(sources.begin(), sources.end(), row.times.sources) == sources.end() &&
        !row.times.sources.empty()) {
      sources.push_back(row.times.sources);
    }
  }
  std::string out = base::tr("{} calls were timed", grouped(std::llround(timed)));
  if (!known) {
    out += base::tr(", the number of all calls is not known for every row");
  } else if (timed < 0.995 * calls) {
    out += base::tr(" of about {}; total time is scaled up to all", grouped(std::llround(calls)));
  }
  if (sources.size() == 1) {
    out += base::tr("; measured by {}", sources.front());
  } else if (!sources.empty()) {
    out += base::tr("; measured by several methods, which the JSON names");
  }
  return out + base::tr(".");
}

template <typename R, typename F>
void put_rows(TextTable& table, const std::vector<R>& rows, size_t most, F&& cells) {
  table.all_rows = rows.size();
  for (size_t i = 0; i < std::min(rows.size(), most); ++i) {
    table.rows.push_back(cells(rows[i]));
  }
}

TextTable matmul_table(const std::vector<model::MatmulRow>& rows, size_t most) {
  TextTable out{.id = "matmuls", .title = "Matmuls", .about = about_calls(rows)};
  out.columns = {{"Shape", false, 9}, {"Types", false, 6},       {"A B", false, 0},
                 {"Calls", true, 4},  {"Timed", true, 1},        {"Median ms", true, 8},
                 {"p99 ms", true, 3}, {"Total s", true, 7},      {"TFLOP/s", true, 8},
                 {"Peak %", true, 5}, {"Slowest rank", false, 7}};
  put_rows(out, rows, most, [](const model::MatmulRow& r) -> std::vector<std::string> {
    return {r.shape,
            r.types,
            r.transposes,
            count(all_calls(r.times)),
            count(static_cast<double>(r.times.count)),
            ms_cell(r.times.median_s),
            ms_cell(r.times.p99_s),
            short_number(all_seconds(r.times)),
            short_number(r.tflops),
            percent_cell(r.peak_share),
            slowest_text(r.slowest)};
  });
  return out;
}

std::string communicator(const model::CollectiveRow& r) {
  const std::string ranks = r.group == "all ranks" ? base::tr("all ranks") : base::tr("ranks {}", r.members);
  return r.communicator.empty() ? ranks : fmt::format("{} ({})", r.communicator, ranks);
}

TextTable collective_table(const std::vector<model::CollectiveRow>& rows, size_t most) {
  TextTable out{.id = "collectives",
                .title = "Collectives",
                .about = about_calls(rows) +
                         base::tr(" A rank's own time includes waiting for others; transfer is from the last "
                                  "arrival to the last end. The last rank is the rank that kept the others "
                                  "waiting most, with its share of their waiting time.")};
  out.columns = {{"Communicator", false, 9},
                 {"Groups", false, 0},
                 {"Links", false, 2},
                 {"Operation", false, 8},
                 {"Type", false, 2},
                 {"MiB", true, 7},
                 {"Calls", true, 3},
                 {"Timed", true, 1},
                 {"Median ms", true, 7},
                 {"p99 ms", true, 2},
                 {"Total s", true, 5},
                 {"Algorithm GB/s", true, 0},
                 {"Bus GB/s", true, 4},
                 {"Transfer ms", true, 3},
                 {"Transfer algorithm GB/s", true, 0},
                 {"Transfer bus GB/s", true, 1},
                 {"Waits s", true, 4},
                 {"Last rank", false, 6}};
  put_rows(out, rows, most, [](const model::CollectiveRow& r) -> std::vector<std::string> {
    return {communicator(r),
            r.group,
            model::word_of(r.link),
            r.operation,
            r.type,
            mib(r.mean_bytes),
            count(all_calls(r.times)),
            count(static_cast<double>(r.times.count)),
            ms_cell(r.times.median_s),
            ms_cell(r.times.p99_s),
            short_number(all_seconds(r.times)),
            short_number(r.algorithm_gb_s),
            short_number(r.bus_gb_s),
            ms_cell(r.lateness.transfer_s),
            short_number(r.transfer_algorithm_gb_s),
            short_number(r.transfer_bus_gb_s),
            wait(r.lateness),
            latest(r.lateness)};
  });
  return out;
}

TextTable program_table(const std::vector<model::ProgramCallRow>& rows, size_t most) {
  TextTable out{.id = "calls",
                .title = "Calls of torch.distributed and MPI",
                .about = base::tr(
                    "As the program saw them, until the call returned; a call inside another call counts in "
                    "both rows. Where calls of MPI come often, some are timed. Share: of a rank's time from "
                    "its first span to its last. The last rank is "
                    "the rank that kept the others waiting most, with its share of their waiting time.")};
  out.columns = {{"Function", false, 9}, {"Place", false, 8},  {"Ranks", false, 2},
                 {"MiB", true, 1},       {"Calls", true, 3},   {"Median ms", true, 7},
                 {"p99 ms", true, 4},    {"Total s", true, 5}, {"Share %", true, 6},
                 {"Bus GB/s", true, 1},  {"Waits s", true, 4}, {"Last rank", false, 5}};
  put_rows(out, rows, most, [](const model::ProgramCallRow& r) -> std::vector<std::string> {
    return {r.function,
            r.place,
            r.ranks,
            mib(r.mean_bytes),
            count(all_calls(r.times)),
            ms_cell(r.times.median_s),
            ms_cell(r.times.p99_s),
            short_number(all_seconds(r.times)),
            percent_cell(r.share),
            short_number(r.bus_gb_s),
            wait(r.lateness),
            latest(r.lateness)};
  });
  return out;
}

TextTable memory_table(const std::vector<model::MemoryRow>& rows, size_t most) {
  TextTable out{.id = "memory", .title = "Memory operations", .about = about_calls(rows)};
  out.columns = {{"Operation", false, 9}, {"MiB", true, 8},       {"Calls", true, 5},
                 {"Timed", true, 1},      {"Median ms", true, 7}, {"p99 ms", true, 3},
                 {"Total s", true, 6},    {"GB/s", true, 8},      {"Slowest rank", false, 2}};
  put_rows(out, rows, most, [](const model::MemoryRow& r) -> std::vector<std::string> {
    return {r.operation,
            mib(r.mean_bytes),
            count(all_calls(r.times)),
            count(static_cast<double>(r.times.count)),
            ms_cell(r.times.median_s),
            ms_cell(r.times.p99_s),
            short_number(all_seconds(r.times)),
            short_number(r.gb_s),
            slowest_text(r.slowest)};
  });
  return out;
}

std::string about_breakdown(const std::vector<model::RankBreakdown>& ranks) {
  double least = 1;
  double most = 0;
  double untraced = 0;
  bool known = true;
  bool exact = true;
  for (const model::RankBreakdown& r : ranks) {
    known = known && r.timed_share >= 0;
    least = std::min(least, r.timed_share);
    most = std::max(most, r.timed_share);
    untraced = std::max(untraced, r.untraced_share);
    exact = exact && r.exact;
  }
  std::string out =
      !known ? base::tr("The number of untimed calls is unknown.")
             : base::tr(
                   "{}{} of the calls were timed; kernels outside of library calls take up to {} of a rank's "
                   "GPU time.",
                   percent(least), percent(most) == percent(least) ? "" : base::tr(" to {}", percent(most)),
                   percent(untraced));
  if (!exact) {
    out += base::tr(
        " Compute, communication and memory are estimates from the timed calls; time on several streams "
        "counts on each. Exposed communication is an upper limit: untimed calls may hide more of it.");
  }
  return out;
}

// Where there are too many ranks, those that differ most from the others in their communication come first: a
// rank for which the others wait communicates less.
std::vector<model::RankBreakdown> unusual_first(std::vector<model::RankBreakdown> ranks, size_t most) {
  if (ranks.size() <= most) {
    return ranks;
  }
  const auto share = [](const model::RankBreakdown& r) { return r.communication_s / r.window_s; };
  std::vector<double> shares;
  for (const model::RankBreakdown& one : ranks) {
    shares.push_back(share(one));
  }
  const double usual = quantile(shares, 0.5);
  std::stable_sort(ranks.begin(), ranks.end(), [&](const auto& a, const auto& b) {
    return std::abs(share(a) - usual) > std::abs(share(b) - usual);
  });
  return ranks;
}

TextTable breakdown_table(const std::vector<model::RankBreakdown>& all, size_t most) {
  const std::vector<model::RankBreakdown> ranks = unusual_first(all, most);
  const bool exact = std::all_of(ranks.begin(), ranks.end(), [](const auto& r) { return r.exact; });
  TextTable out{.id = "breakdown", .title = "Time of the GPUs", .about = about_breakdown(ranks)};
  out.columns = {{"Rank", true, 9},
                 {"Seconds", true, 5},
                 {"Timed %", true, 4},
                 {"Untraced %", true, 3},
                 {"Compute %", true, 8},
                 {"Communication %", true, 8},
                 {std::string(exact ? base::later("Exposed %") : base::later("Exposed at most %")), true, 7},
                 {"Memory %", true, 6},
                 {"Idle %", true, 6}};
  put_rows(out, ranks, most, [](const model::RankBreakdown& r) -> std::vector<std::string> {
    const auto part = [&r](double seconds) { return seconds < 0 ? "" : percent_cell(seconds / r.window_s); };
    return {fmt::format("{}", r.rank),
            short_number(r.window_s),
            percent_cell(r.timed_share),
            percent_cell(r.untraced_share),
            part(r.compute_s),
            part(r.communication_s),
            r.exposed_share < 0 ? "" : part(r.exposed_share * r.communication_s),
            part(r.memory_s),
            part(r.idle_s)};
  });
  return out;
}

TextTable unsafe_table(const std::vector<model::UnsafeSendRow>& rows, size_t most) {
  TextTable out{
      .id = "unsafe_sends",
      .title = "Sends that only buffering lets through",
      .about = base::tr(
          "These calls of MPI_Send come before the receives that their circle needs. They end because the "
          "library buffers small messages: with larger ones, or another library, the "
          "program hangs. Of the timed calls.")};
  out.columns = {{"Places", false, 9}, {"Ranks", false, 3}, {"Times", true, 2}, {"Most bytes", true, 1}};
  put_rows(out, rows, most, [](const model::UnsafeSendRow& r) -> std::vector<std::string> {
    return {r.places, r.ranks, grouped(r.times), grouped(static_cast<int64_t>(r.most_bytes))};
  });
  return out;
}

// Of many ranks those that are latest.
TextTable lateness_table(const model::LatenessMatrix& matrix, size_t most) {
  TextTable out{.id = "lateness",
                .title = "Lateness at collectives",
                .about = base::tr("Mean ms by which a rank arrives after the median of the other ranks.")};
  out.columns = {{"Collectives", false, kNeverLeftOut}};
  std::vector<double> latest(matrix.ranks.size(), 0);
  for (const model::LatenessRow& row : matrix.rows) {
    for (size_t i = 0; i < std::min(latest.size(), row.late_s.size()); ++i) {
      latest[i] = std::max(latest[i], row.late_s[i]);
    }
  }
  for (size_t i = 0; i < latest.size(); ++i) {
    const auto later =
        std::count_if(latest.begin(), latest.end(), [&](double one) { return one > latest[i]; });
    out.columns.push_back({base::tr("rank {}", matrix.ranks[i]), true,
                           std::max(kNeverLeftOut - 1 - static_cast<int>(later), 0)});
  }
  put_rows(out, matrix.rows, most, [&matrix](const model::LatenessRow& r) {
    std::vector<std::string> cells{r.name};
    for (size_t i = 0; i < matrix.ranks.size(); ++i) {
      cells.push_back(i < r.late_s.size() ? ms_cell(r.late_s[i]) : "");
    }
    return cells;
  });
  return out;
}

}  // namespace

std::vector<TextTable> text_tables(const model::OperationTables& operations, size_t most) {
  std::vector<TextTable> out;
  std::vector<TextTable> tables{breakdown_table(operations.ranks, most)};
  for (TextTable& table : idle_tables(operations, most)) {
    tables.push_back(std::move(table));
  }
  for (TextTable& table : std::vector<TextTable>{
           matmul_table(operations.matmuls, most), collective_table(operations.collectives, most),
           lateness_table(operations.lateness, most), memory_table(operations.memory, most),
           program_table(operations.program_calls, most), unsafe_table(operations.unsafe_sends, most)}) {
    tables.push_back(std::move(table));
  }
  for (TextTable& table : tables) {
    if (!table.rows.empty()) {
      out.push_back(std::move(table));
    }
  }
  return out;
}

std::string missing_text(const model::OperationTables& operations) {
  std::string out = missing_idle_text(operations);
  out += out.empty() ? "" : " ";
  if (operations.left_out > 0) {
    out += base::tr("{} rows with less time are left out. ", grouped(operations.left_out));
  }
  if (operations.lost > 0) {
    out += base::tr("{} events and spans are missing, because buffers of the ranks were full. ",
                    grouped(operations.lost));
  }
  return out.substr(0, out.find_last_not_of(' ') + 1);
}

}  // namespace xpurun::report
