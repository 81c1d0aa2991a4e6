// Database: SQLite in a temporary file without a name, for questions about a run: ten million calls take a
// gigabyte. SQLite deletes the file; TMPDIR says where it lies. Statements of users may only read. One
// thread.
#pragma once

#include "common/base/result.h"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace xpurun::report {

// monostate is NULL.
using SqlValue = std::variant<std::monostate, int64_t, double, std::string>;
// NULL if negative, and if empty.
inline SqlValue known_or_null(double value) {
  return value < 0 ? SqlValue() : SqlValue(value);
}
inline SqlValue text_or_null(std::string text) {
  return text.empty() ? SqlValue() : SqlValue(std::move(text));
}

// Inserts rows into one table; prepared once.
class Inserter {
 public:
  // The number of values is that of the table's columns.
  void add(std::initializer_list<SqlValue> values);

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class Database {
 public:
  static base::Result<Database> create();

  // Own statements: tables, indexes. Throws std::logic_error on a mistake in them.
  void execute(const std::string& sql);
  Inserter inserter(std::string_view table);

  // A statement of a user. Anything but one reading statement fails with E-QUERY, which has SQLite's words.
  // `row` returns false to stop. `seconds` limits the time.
  base::Status read(const std::string& sql, double seconds,
                    const std::function<void(const std::vector<std::string>& columns)>& begin,
                    const std::function<bool(const std::vector<SqlValue>& row)>& row);
  // Writes the whole database to a new file.
  base::Status save(const std::string& path);

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  explicit Database(sqlite3* handle) : handle_(handle) {}
  base::Error error(std::string what) const;
  // Throws std::logic_error on a mistake in the statement.
  Inserter prepared(const std::string& sql);

  std::unique_ptr<sqlite3, Close> handle_;
};

}  // namespace xpurun::report
