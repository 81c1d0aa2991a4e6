#include "report/events/foreign/nsys_export.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/model/speed/kernel_name.h"
#include "report/events/foreign/left_out.h"
#include "report/events/foreign/operation_names.h"
#include "report/events/op_facts.h"

#include <fmt/format.h>

#include <cctype>
#include <map>
#include <memory>
#include <sqlite3.h>
#include <tuple>

namespace xpurun::report {

namespace {

// Ids of processes and threads, and what else it puts together: three bytes of each.
constexpr int64_t kIdMask = 0xffffff;
constexpr int kPidShift = 24;

struct Close {
  void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
};
struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

// One row of the tables of work and calls, with equal columns.
struct Row {
  int64_t begin_ns = 0;  // since the begin of the session
  int64_t end_ns = 0;
  int64_t track = 0;  // stream, or global thread id
  int64_t correlation = 0;
  int64_t bytes = 0;
  std::string name;
};

constexpr int64_t kNoTime = -1;

struct Table {
  const char* sql;
  Category category;
  TrackKind track;
  std::string_view name;  // of rows without one
  const char* older_sql = nullptr;
};
constexpr Table kTables[] = {
    {"SELECT k.start, k.end, k.streamId, k.correlationId, 0, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL AS k "
     "LEFT JOIN StringIds AS s ON s.id = k.demangledName",
     Category::kernel, TrackKind::compute, "kernel"},
    {"SELECT start, end, streamId, correlationId, bytes, NULL FROM CUPTI_ACTIVITY_KIND_MEMCPY",
     Category::memory, TrackKind::memory, "Memcpy"},
    {"SELECT start, end, streamId, correlationId, bytes, NULL FROM CUPTI_ACTIVITY_KIND_MEMSET",
     Category::memory, TrackKind::memory, "Memset"},
    // Of CUDA graphs that are not recorded node by node.
    {"SELECT start, end, streamId, correlationId, 0, NULL FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
     Category::graph, TrackKind::compute, "CUDA graph"},
    {"SELECT r.start, r.end, r.globalTid, r.correlationId, 0, s.value FROM CUPTI_ACTIVITY_KIND_RUNTIME AS r "
     "LEFT JOIN StringIds AS s ON s.id = r.nameId",
     Category::host, TrackKind::host, "CUDA call"},
    {"SELECT n.start, n.end, n.globalTid, 0, 0, coalesce(n.text, s.value) FROM NVTX_EVENTS AS n "
     "LEFT JOIN StringIds AS s ON s.id = n.textId WHERE n.end IS NOT NULL",
     Category::python, TrackKind::host, "NVTX range",
     "SELECT start, end, globalTid, 0, 0, text FROM NVTX_EVENTS WHERE end IS NOT NULL"},
};

class NsysReader {
 public:
  NsysReader(Activity& out, sqlite3* handle) : out_(out), handle_(handle) {}

  // Whether one of the tables is there.
  bool read() {
    const auto began = first_number("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME");
    began_ns_ = began > 0 && began < kLatestNs / 2 ? began : 0;
    bool found = false;
    for (const Table& table : kTables) {
      found = read(table) || found;
    }
    left_out_.note(out_);
    return found;
  }

 private:
  using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

  // Null: there is no such table.
  Statement prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(handle_, sql, -1, &statement, nullptr) != SQLITE_OK) {
      return nullptr;
    }
    return Statement(statement);
  }

  int64_t first_number(const char* sql) {
    const Statement statement = prepare(sql);
    return statement != nullptr && sqlite3_step(statement.get()) == SQLITE_ROW
               ? sqlite3_column_int64(statement.get(), 0)
               : 0;
  }

  bool read(const Table& table) {
    Statement statement = prepare(table.sql);
    if (statement == nullptr && table.older_sql != nullptr) {
      statement = prepare(table.older_sql);
    }
    if (statement == nullptr) {
      return false;
    }
    int state = SQLITE_ROW;
    while ((state = sqlite3_step(statement.get())) == SQLITE_ROW) {
      const auto number = [&](int column) { return int64_t{sqlite3_column_int64(statement.get(), column)}; };
      const auto time = [&](int column) {
        return sqlite3_column_type(statement.get(), column) == SQLITE_INTEGER ? number(column) : kNoTime;
      };
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement.get(), 5));
      add(table,
          {.begin_ns = time(0),
           .end_ns = time(1),
           .track = number(2),
           .correlation = number(3),
           .bytes = number(4),
           .name = text == nullptr
                       ? std::string(table.name)
                       : std::string(text, static_cast<size_t>(sqlite3_column_bytes(statement.get(), 5)))});
    }
    out_.complete = out_.complete && state == SQLITE_DONE;
    return true;
  }

  void add(const Table& table, const Row& row) {
    const bool possible = row.begin_ns >= 0 && row.begin_ns < kLatestNs / 2 && row.end_ns >= row.begin_ns &&
                          row.end_ns - row.begin_ns <= kLongestNs;
    if (!possible) {
      left_out_.add(row.name);
      return;
    }
    const bool nccl = table.category == Category::kernel && model::is_nccl_kernel(row.name);
    const TrackKind kind = nccl ? TrackKind::communication : table.track;
    const bool host = kind == TrackKind::host;
    if (const int64_t pid = (row.track >> kPidShift) & kIdMask; host && pid != 0) {
      out_.pid = static_cast<base::Pid>(pid);
    }
    out_.slices.push_back(
        {.begin_ns = row.begin_ns + began_ns_,
         .duration_ns = row.end_ns - row.begin_ns,
         .call = call_of(nccl ? Category::collective : table.category, row),
         .track = out_.track(kind, static_cast<uint32_t>(host ? row.track & kIdMask : row.track & 0xffff)),
         .launch = row.correlation > 0 && row.correlation < UINT32_MAX
                       ? static_cast<uint32_t>(row.correlation)
                       : 0});
  }

  uint32_t call_of(Category category, const Row& row) {
    const auto [at, is_new] =
        calls_.emplace(std::tuple(category, row.name, row.bytes), static_cast<uint32_t>(out_.calls.size()));
    if (is_new) {
      Call call{.name = model::kernel_name(base::sanitize(row.name)), .category = category};
      call.key = key_of_category(category);
      call.captured = true;
      if (category == Category::collective) {
        (void)set_collective(call.key, row.name);
      }
      if (row.bytes > 0) {
        call.work = static_cast<uint64_t>(row.bytes);
        call.arguments.push_back({"bytes", row.bytes});
      }
      out_.calls.push_back(std::move(call));
    }
    return at->second;
  }

  Activity& out_;
  sqlite3* handle_;
  LeftOut left_out_;
  int64_t began_ns_ = 0;
  std::map<std::tuple<Category, std::string, int64_t>, uint32_t> calls_;
};

}  // namespace

base::Result<RecordOwner> owner_of_nsys_export(const std::string& path) {
  const std::string_view name = base::base_name(path);
  size_t at = name.find("rank");
  if (at == std::string_view::npos) {
    return RecordOwner{};
  }
  at += std::string_view("rank").size();
  at += at < name.size() && (name[at] == '-' || name[at] == '_' || name[at] == '.') ? 1 : 0;
  size_t end = at;
  while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) {
    ++end;
  }
  const auto rank = base::parse_int(name.substr(at, end - at));
  return rank && *rank < base::kHighestRank ? RecordOwner{.rank = static_cast<base::Rank>(*rank)}
                                            : RecordOwner{};
}

base::Status add_nsys_export(Activity& out, const std::string& path) {
  // Of a FIFO or a device nothing is read.
  XPURUN_TRY(base::read_file_start(path, 0));
  sqlite3* opened = nullptr;
  const int status =
      sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, nullptr);
  const std::unique_ptr<sqlite3, Close> handle(opened);
  if (status != SQLITE_OK || !NsysReader(out, opened).read()) {
    return base::fail(
        fmt::format("{} is not an export of nsys with CUDA calls, kernels or NVTX ranges", path));
  }
  return {};
}

}  // namespace xpurun::report
