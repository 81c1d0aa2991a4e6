// xpurun query: questions in SQL about a run.
#include "commands/commands.h"
#include "commands/run_paths.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/json/json_text.h"
#include "launcher/options/exit_status.h"
#include "launcher/options/run_settings.h"
#include "report/build/capture_files.h"
#include "report/build/idle/idle_files.h"
#include "report/operations/idle/void_outliers.h"
#include "report/query/capture_tables.h"
#include "report/query/idle_tables.h"
#include "report/query/run_tables.h"
#include "report/query/schema.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <set>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

using report::SqlValue;

constexpr double kLimitS = 60;
constexpr size_t kMostCell = 100;             // columns
constexpr size_t kMostRowsOfATable = 10'000;  // held in memory to align columns

std::string text_of(const SqlValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) {
    return fmt::to_string(*number);
  }
  if (const auto* real = std::get_if<double>(&value)) {
    return fmt::format("{:.6g}", *real);
  }
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? std::string() : base::sanitize(*text);
}

std::string csv_of(const SqlValue& value) {
  std::string text = text_of(value);
  if (text.find_first_of(",\"\n") == std::string::npos) {
    return text;
  }
  std::string out = "\"";
  for (const char c : text) {
    out += c == '"' ? "\"\"" : std::string(1, c);
  }
  return out + "\"";
}

nlohmann::ordered_json json_of(const SqlValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) {
    return *number;
  }
  if (const auto* real = std::get_if<double>(&value)) {
    return *real;
  }
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? nlohmann::ordered_json() : nlohmann::ordered_json(*text);
}

// Collects the answer and prints it in one of three forms.
class Answer {
 public:
  explicit Answer(std::string format) : format_(std::move(format)) {}

  void begin(const std::vector<std::string>& columns) {
    columns_ = columns;
    if (format_ == "csv") {
      std::vector<std::string> names;
      for (const std::string& column : columns) {
        names.push_back(csv_of(column));
      }
      out_ += base::join(names, ",") + "\n";
    }
  }

  bool empty() const { return empty_; }

  bool add(const std::vector<SqlValue>& row) {
    empty_ = false;
    if (format_ == "table") {
      rows_.emplace_back();
      for (const SqlValue& value : row) {
        rows_.back().push_back(base::elide_middle(text_of(value), kMostCell));
        numbers_.resize(row.size(), true);
        numbers_[rows_.back().size() - 1] =
            numbers_[rows_.back().size() - 1] && !std::holds_alternative<std::string>(value);
      }
      return rows_.size() < kMostRowsOfATable;
    }
    std::vector<std::string> cells;
    nlohmann::ordered_json object;
    for (size_t i = 0; i < row.size(); ++i) {
      if (format_ == "csv") {
        cells.push_back(csv_of(row[i]));
      } else {
        object[columns_[i]] = json_of(row[i]);
      }
    }
    out_ += format_ == "csv" ? base::join(cells, ",") + "\n" : model::json_text(object) + "\n";
    return true;
  }

  std::string text() {
    if (format_ != "table") {
      return std::move(out_);
    }
    std::vector<size_t> widths;
    for (size_t i = 0; i < columns_.size(); ++i) {
      widths.push_back(base::display_width(columns_[i]));
      for (const auto& row : rows_) {
        widths[i] = std::max(widths[i], base::display_width(row[i]));
      }
    }
    std::string out = line(columns_, widths);
    for (const auto& row : rows_) {
      out += line(row, widths);
    }
    if (rows_.size() >= kMostRowsOfATable) {
      out += fmt::format("the first {} rows; --format csv prints all\n", kMostRowsOfATable);
    }
    return out;
  }

 private:
  std::string line(const std::vector<std::string>& cells, const std::vector<size_t>& widths) const {
    std::string out;
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string space(widths[i] - base::display_width(cells[i]), ' ');
      const bool right = i < numbers_.size() && numbers_[i];
      out += (i == 0 ? "" : "  ") + (right ? space + cells[i] : cells[i] + space);
    }
    return out.erase(out.find_last_not_of(' ') + 1) + "\n";
  }

  std::string format_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> numbers_;  // columns without text are aligned to the right
  std::string out_;
  bool empty_ = true;
};

std::string list_text() {
  std::string out = "Ready questions (xpurun query --ask NAME [DIR]):\n\n";
  for (const report::ReadyQuestion& q : report::ready_questions()) {
    out += fmt::format("  {:<14} {}\n", q.name, q.about);
  }
  out += "\nTables (xpurun query \"SELECT ...\" [DIR]):\n";
  std::string_view table;
  for (const report::TableColumns& c : report::table_columns()) {
    out += c.table == table ? "" : fmt::format("\n  {}\n", c.table);
    table = c.table;
    out += fmt::format("    {}\n        {}\n", c.names(), c.about);
  }
  return out;
}

// The ready questions with their SQL, for programs: one object per line.
std::string list_json() {
  std::string out;
  for (const report::ReadyQuestion& q : report::ready_questions()) {
    const nlohmann::ordered_json entry{{"question", q.name}, {"about", q.about}, {"sql", q.sql}};
    out += model::json_text(entry) + "\n";
  }
  return out;
}

// Of the operands that are run directories.
void add_records_of(const std::vector<std::string>& operands, report::RunTables& tables) {
  for (const std::string& operand : operands) {
    const auto run = model::RunDir::find(operand);
    const auto job = run ? report::read_job(*run) : base::fail("no run");
    if (job) {
      const report::Captures captures = report::read_captures(*job, {}, tables.links);
      report::add_captures(tables, captures.reports, tables.began_ns);
      report::IdleFiles idle_files(*job, {});
      std::vector<model::IdleTime> idle = idle_files.finish();
      for (model::IdleTime& one : idle) {
        report::mark_void_outliers(one, {});
      }
      report::add_idle(tables, idle, tables.began_ns);
      std::set<std::string> notes(captures.notes.begin(), captures.notes.end());
      notes.insert(idle_files.notes().begin(), idle_files.notes().end());  // may name the same files
      for (const std::string& note : notes) {
        tables.problems.push_back(base::Error{.what = note});
      }
    }
  }
}

}  // namespace

int query_command(const Invocation& call) {
  const Settings& settings = call.words.settings;
  for (const auto& [name, s] : settings.all()) {
    if (const auto checked = check_value(*find_option(query_options(), name), s.value); !checked) {
      return complain_usage(call, fmt::format("--{}: {}", name, checked.error().what));
    }
  }
  if (settings.has("list")) {
    const Setting* form = settings.find("format");
    return print(form != nullptr && form->value == "json" ? list_json() : list_text());
  }
  std::vector<std::string> operands = call.words.operands;
  std::string sql;             // empty with --save alone
  std::string_view why_empty;  // of a ready question
  const Setting* save = settings.find("save");
  if (const Setting* ask = settings.find("ask")) {
    const auto questions = report::ready_questions();
    const auto it =
        std::find_if(questions.begin(), questions.end(), [&](const auto& q) { return q.name == ask->value; });
    if (it == questions.end()) {
      return complain_usage(call, base::cli_text("unknown question \"{}\"; --list shows the ready questions",
                                                 base::sanitize(ask->value)));
    }
    sql = it->sql;
    why_empty = it->empty;
  } else if (save == nullptr) {
    if (operands.empty()) {
      return complain_usage(call, base::cli_text("no question; give SQL, --ask NAME or --list"));
    }
    // The statement may also stand behind the directories.
    const auto statement = std::find_if(operands.begin(), operands.end(), [](const std::string& one) {
      std::error_code ec;
      return !std::filesystem::exists(one, ec);
    });
    if (statement == operands.end()) {
      return complain_usage(
          call, base::cli_text("no question; {} is a file or directory: give SQL or --ask NAME too",
                               base::sanitize(operands.front())));
    }
    sql = *statement;
    operands.erase(statement);
  }
  const auto found = run_paths(std::move(operands));
  if (!found) {
    return complain(found.error(), kExitFailure);
  }
  auto tables = report::load_run_tables(*found);
  if (!tables) {
    return complain(tables.error(), kExitFailure);
  }
  add_records_of(*found, *tables);
  int status = 0;
  for (const base::Error& problem : tables->problems) {
    status = complain(problem, kExitFailure);
  }
  if (save != nullptr) {
    if (const auto saved = tables->database.save(save->value); !saved) {
      return complain(saved.error(), kExitFailure);
    }
  }
  if (sql.empty() && save != nullptr) {
    return status;
  }
  const Setting* format = settings.find("format");
  Answer answer(format == nullptr ? "table" : format->value);
  const auto read = tables->database.read(
      sql, kLimitS, [&](const auto& columns) { answer.begin(columns); },
      [&](const auto& row) { return answer.add(row); });
  if (!read) {
    return complain(read.error(), kExitFailure);
  }
  const int printed = print(answer.text());
  if (answer.empty() && !why_empty.empty()) {
    base::write_stderr(fmt::format("xpurun: no rows: {}\n", why_empty));
  }
  return status != 0 ? status : printed;
}

}  // namespace xpurun::launcher
