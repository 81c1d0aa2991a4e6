#include "report/query/database.h"

#include "common/base/clock.h"
#include "common/base/os/fd.h"
#include "common/base/scope.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <cerrno>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdexcept>
#include <sys/stat.h>
#include <unistd.h>

namespace xpurun::report {

namespace {

constexpr int kCacheKiB = 128 << 10;
constexpr int kStepsBetweenChecks = 10'000;  // of SQLite's machine, between two looks at the clock

void bind(sqlite3_stmt* statement, int at, const SqlValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) {
    sqlite3_bind_int64(statement, at, *number);
  } else if (const auto* real = std::get_if<double>(&value)) {
    sqlite3_bind_double(statement, at, *real);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    sqlite3_bind_text64(statement, at, text->data(), text->size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  } else {
    sqlite3_bind_null(statement, at);
  }
}

SqlValue column(sqlite3_stmt* statement, int at) {
  switch (sqlite3_column_type(statement, at)) {
    case SQLITE_NULL:
      return {};
    case SQLITE_INTEGER:
      return int64_t{sqlite3_column_int64(statement, at)};
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement, at);
    default: {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, at));
      return std::string(text != nullptr ? text : "",
                         static_cast<size_t>(sqlite3_column_bytes(statement, at)));
    }
  }
}

// Reading alone: no ATTACH, which could open or create a file, and no PRAGMA.
int only_reading(void*, int action, const char*, const char*, const char*, const char*) {
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_FUNCTION:
    case SQLITE_RECURSIVE:
      return SQLITE_OK;
    default:
      return SQLITE_DENY;
  }
}

int past(void* deadline) {
  return base::mono_ns() > *static_cast<base::MonoNs*>(deadline) ? 1 : 0;
}

}  // namespace

void Inserter::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

void Inserter::add(std::initializer_list<SqlValue> values) {
  int at = 0;
  for (const SqlValue& value : values) {
    bind(statement_.get(), ++at, value);
  }
  if (at != sqlite3_bind_parameter_count(statement_.get()) || sqlite3_step(statement_.get()) != SQLITE_DONE) {
    throw std::logic_error(sqlite3_errmsg(sqlite3_db_handle(statement_.get())));
  }
  sqlite3_reset(statement_.get());
}

void Database::Close::operator()(sqlite3* handle) const {
  sqlite3_close_v2(handle);
}

base::Error Database::error(std::string what) const {
  return {.what = std::move(what),
          .id = "E-QUERY",
          .cause = base::sanitize(sqlite3_errmsg(handle_.get())),
          .hint = "xpurun query --list"};
}

base::Result<Database> Database::create() {
  sqlite3* handle = nullptr;
  const int status =
      sqlite3_open_v2("", &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  Database out(handle);
  if (status != SQLITE_OK) {
    return base::fail(out.error("cannot make a temporary database"));
  }
  out.execute(fmt::format("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -{};",
                          kCacheKiB));
  return out;
}

void Database::execute(const std::string& sql) {
  if (sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw std::logic_error(fmt::format("{}: {}", sqlite3_errmsg(handle_.get()), sql));
  }
}

Inserter Database::inserter(std::string_view table) {
  Inserter all = prepared(fmt::format("SELECT * FROM {}", table));
  std::string sql = fmt::format("INSERT INTO {} VALUES (?", table);
  for (int i = 1; i < sqlite3_column_count(all.statement_.get()); ++i) {
    sql += ",?";
  }
  return prepared(sql + ")");
}

Inserter Database::prepared(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle_.get(), sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) {
    throw std::logic_error(fmt::format("{}: {}", sqlite3_errmsg(handle_.get()), sql));
  }
  Inserter out;
  out.statement_.reset(statement);
  return out;
}

base::Status Database::read(const std::string& sql, double seconds,
                            const std::function<void(const std::vector<std::string>&)>& begin,
                            const std::function<bool(const std::vector<SqlValue>&)>& row) {
  sqlite3* handle = handle_.get();
  base::MonoNs deadline = base::mono_ns() + base::s_to_ns(seconds);
  sqlite3_set_authorizer(handle, only_reading, nullptr);
  sqlite3_progress_handler(handle, kStepsBetweenChecks, past, &deadline);
  const auto restore = base::on_scope_exit([handle] {
    sqlite3_set_authorizer(handle, nullptr, nullptr);
    sqlite3_progress_handler(handle, 0, nullptr, nullptr);
  });
  sqlite3_stmt* raw = nullptr;
  const char* rest = nullptr;
  if (sqlite3_prepare_v2(handle, sql.c_str(), static_cast<int>(sql.size()), &raw, &rest) != SQLITE_OK) {
    return base::fail(error("the question cannot be asked"));
  }
  const std::unique_ptr<sqlite3_stmt, Inserter::Finalize> statement(raw);
  if (raw == nullptr || !base::trim(rest).empty()) {
    return base::fail(base::Error{.what = raw == nullptr ? "the question is empty" : "one question at a time",
                                  .id = "E-QUERY",
                                  .hint = "xpurun query --list"});
  }
  const int count = sqlite3_column_count(raw);
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    names.emplace_back(sqlite3_column_name(raw, i));
  }
  begin(names);
  std::vector<SqlValue> values(static_cast<size_t>(count));
  for (;;) {
    const int status = sqlite3_step(raw);
    if (status == SQLITE_DONE) {
      return {};
    }
    if (status != SQLITE_ROW) {
      return base::fail(error(status == SQLITE_INTERRUPT
                                  ? fmt::format("no answer within {}", base::human_duration(seconds))
                                  : std::string("the question failed")));
    }
    for (int i = 0; i < count; ++i) {
      values[static_cast<size_t>(i)] = column(raw, i);
    }
    if (!row(values)) {
      return {};
    }
  }
}

namespace {

// SQLite accepts an empty file. It would give a new file the umask's mode, and follow a link.
base::Status make_private_file(const std::string& path) {
  if (const base::UniqueFd made(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)); made) {
    return {};
  }
  const int failure = errno;
  struct stat st {};
  if (failure == EEXIST && ::lstat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0) {
    return {};
  }
  return base::fail(base::Error{.what = fmt::format("cannot write {}", base::sanitize(path)),
                                .sys_errno = failure,
                                .id = "E-QUERY",
                                .cause = failure == EEXIST ? "the file already exists" : "",
                                .hint = "xpurun query --save NEW_FILE"});
}

}  // namespace

base::Status Database::save(const std::string& path) {
  XPURUN_TRY(make_private_file(path));
  // A bound parameter is refused here ("non-text filename").
  char* sql = sqlite3_mprintf("VACUUM INTO %Q", path.c_str());
  const int status = sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr);
  sqlite3_free(sql);
  if (status != SQLITE_OK) {
    base::Error failure = error(fmt::format("cannot write {}", base::sanitize(path)));
    ::unlink(path.c_str());
    return base::fail(std::move(failure));
  }
  return {};
}

}  // namespace xpurun::report
