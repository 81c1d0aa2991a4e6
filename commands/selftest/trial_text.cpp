#include "commands/selftest/trial_text.h"

#include "common/base/strings.h"
#include "launcher/output/text_block.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace xpurun::launcher {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> kOutcomes = {"right", "wrong", "skipped"};
constexpr std::array kColours = {Ink::Colour::good, Ink::Colour::bad, Ink::Colour::faint};

// Columns of the table; the expectation takes the rest of the line.
constexpr size_t kNarrow = 76;
constexpr size_t kResultWidth = 8;
constexpr size_t kNameWidth = 20;
constexpr size_t kGivenWidth = 17;
constexpr size_t kSecondsWidth = 7;

size_t expected_width(size_t columns) {
  return columns - kResultWidth - kNameWidth - kGivenWidth - kSecondsWidth;
}

std::string pad(std::string_view text, size_t width) {
  const std::string cut = cut_end(text, width - 1);
  return cut + std::string(width - std::min(width, base::display_width(cut)), ' ');
}

std::string seconds_text(const Trial& trial) {
  return trial.seconds < 0 ? "-" : fmt::format("{:.1f}", trial.seconds);
}

std::string given_text(const Trial& trial) {
  return trial.given ? base::sanitize(short_text(*trial.given)) : "no verdict";
}

// The place is in the expectation, or in the lines below.
std::string brief_given_text(const Trial& trial) {
  if (!trial.given) {
    return "no verdict";
  }
  model::Verdict brief = *trial.given;
  brief.where = {};
  return base::sanitize(short_text(brief));
}

std::string explanation(const Trial& trial, size_t columns, size_t indent) {
  if (trial.outcome == TrialOutcome::skipped) {
    return {};
  }
  std::string out;
  for (const std::string& difference : trial.differences) {
    out += text_block(base::sanitize(difference), columns, indent);
  }
  if (!trial.differences.empty() && trial.given) {
    out += text_block(fmt::format("\"{}\"", base::sanitize(trial.given->sentence)), columns, indent);
  }
  return out;
}

size_t count(const std::vector<Trial>& trials, TrialOutcome outcome) {
  return static_cast<size_t>(
      std::count_if(trials.begin(), trials.end(), [&](const Trial& t) { return t.outcome == outcome; }));
}

std::string narrow_text(const Trial& trial, size_t columns, const std::string& result) {
  std::string out = result + std::string(trial.injection->name) + '\n';
  if (trial.outcome == TrialOutcome::skipped) {
    return out + text_block(trial.reason, columns, kResultWidth);
  }
  out += text_block("expected: " + short_text(trial.expected), columns, kResultWidth);
  out += text_block("given: " + given_text(trial), columns, kResultWidth);
  if (trial.seconds >= 0) {
    out += text_block(seconds_text(trial) + " s to the verdict", columns, kResultWidth);
  }
  return out + explanation(trial, columns, kResultWidth);
}

Json expected_json(const Expected& expected) {
  Json places = Json::array();
  for (const Place& place : expected.places) {
    places.push_back({{"function", place.function}, {"file", place.file}, {"line", place.line}});
  }
  return {{"ids", expected.ids},     {"ranks", expected.ranks.ranks()}, {"places", places},
          {"words", expected.words}, {"evidence", expected.evidence},   {"signal", expected.signal}};
}

Json trial_json(const Trial& trial) {
  Json j{{"injection", trial.injection->name}, {"result", name_of(trial.outcome)}};
  if (trial.outcome == TrialOutcome::skipped) {
    j["reason"] = trial.reason;
    return j;
  }
  j["seconds"] = trial.seconds < 0 ? Json() : Json(trial.seconds);
  if (trial.injection->slow) {
    j["steps"] = trial.steps < 0 ? Json() : Json(trial.steps);
  }
  j["expected"] = expected_json(trial.expected);
  j["given"] = trial.given ? model::to_json(*trial.given) : Json();
  j["differences"] = trial.differences;
  if (!trial.directory.empty()) {
    j["directory"] = trial.directory;
  }
  return j;
}

std::string look_closer(const std::vector<Trial>& trials, size_t columns) {
  std::vector<std::string> names;
  for (const Trial& trial : trials) {
    if (trial.outcome == TrialOutcome::wrong) {
      names.emplace_back(trial.injection->name);
    }
  }
  return text_block("look closer: xpurun selftest --keep --inject " + base::join(names, ","), columns, 0);
}

}  // namespace

std::string_view name_of(TrialOutcome outcome) {
  return kOutcomes[static_cast<size_t>(outcome)];
}

std::string trial_heading(size_t columns) {
  if (columns < kNarrow) {
    return {};
  }
  return fmt::format("{:<{}}{:<{}}{:<{}}{:<{}}{:>{}}\n", "RESULT", kResultWidth, "INJECTION", kNameWidth,
                     "EXPECTED", expected_width(columns), "GIVEN", kGivenWidth, "SECONDS", kSecondsWidth);
}

std::string trial_text(const Trial& trial, size_t columns, const Ink& ink) {
  const auto outcome = static_cast<size_t>(trial.outcome);
  const std::string result = ink.paint(kColours[outcome], kOutcomes[outcome]) +
                             std::string(kResultWidth - kOutcomes[outcome].size(), ' ');
  if (columns < kNarrow) {
    return narrow_text(trial, columns, result);
  }
  const std::string head = result + pad(trial.injection->name, kNameWidth);
  if (trial.outcome == TrialOutcome::skipped) {
    return head + cut_end(base::sanitize(trial.reason), columns - kResultWidth - kNameWidth) + '\n';
  }
  return head + pad(short_text(trial.expected), expected_width(columns)) +
         pad(brief_given_text(trial), kGivenWidth) +
         fmt::format("{:>{}}\n", seconds_text(trial), kSecondsWidth) +
         explanation(trial, columns, kResultWidth);
}

std::string trial_summary(const std::vector<Trial>& trials, size_t columns, const Ink& ink) {
  std::string out = "\n";
  std::string sep;
  for (const TrialOutcome outcome : {TrialOutcome::right, TrialOutcome::wrong, TrialOutcome::skipped}) {
    const size_t n = count(trials, outcome);
    const std::string part = fmt::format("{} {}", n, name_of(outcome));
    out += sep + (n != 0 ? ink.paint(kColours[static_cast<size_t>(outcome)], part) : part);
    sep = ", ";
  }
  out += '\n';
  if (count(trials, TrialOutcome::wrong) != 0) {
    out += look_closer(trials, columns);
  }
  if (count(trials, TrialOutcome::right) + count(trials, TrialOutcome::wrong) == 0) {
    out += text_block("Nothing could be tried here.", columns, 0);
  }
  return out;
}

nlohmann::ordered_json to_json(const std::vector<Trial>& trials, const TrialSettings& settings) {
  Json j{{"schema", "xpurun.selftest/1"},  {"version", XPURUN_VERSION},
         {"ok", all_right(trials)},        {"device", settings.device == Device::gpu ? "gpu" : "cpu"},
         {"python", settings.host.python}, {"torch", settings.host.torch},
         {"gpus", settings.host.gpus},     {"hang_timeout_s", settings.hang_timeout_s}};
  auto& list = j["trials"] = Json::array();
  for (const Trial& trial : trials) {
    list.push_back(trial_json(trial));
  }
  return j;
}

std::string list_text(std::span<const Injection* const> injections, size_t columns) {
  std::string out;
  for (const Injection* injection : injections) {
    out += definition(injection->name, injection->summary, columns, kNameWidth + 1);
  }
  return out;
}

nlohmann::ordered_json list_json(std::span<const Injection* const> injections) {
  Json j{{"schema", "xpurun.selftest-list/1"}};
  auto& list = j["injections"] = Json::array();
  for (const Injection* injection : injections) {
    list.push_back({{"name", injection->name},
                    {"summary", injection->summary},
                    {"ranks", injection->ranks},
                    {"slow", injection->slow},
                    {"gpu", injection->needs_gpu}});
  }
  return j;
}

bool all_right(const std::vector<Trial>& trials) {
  return count(trials, TrialOutcome::wrong) == 0 && count(trials, TrialOutcome::right) != 0;
}

}  // namespace xpurun::launcher
