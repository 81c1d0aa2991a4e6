#include "launcher/metrics/families.h"

#include <fmt/format.h>

namespace xpurun::launcher {

namespace {

std::string escaped(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c != '#') {
      // Readers of this family treat any line that contains '#' as a comment.
      out += c;
    }
  }
  return out;
}

std::string in_braces(const Labels& labels) {
  std::string out;
  for (const auto& [name, value] : labels) {
    out += fmt::format("{}{}=\"{}\"", out.empty() ? "{" : ",", name, escaped(value));
  }
  return out.empty() ? out : out + "}";
}

std::string_view type_name(FamilyType type, MetricsFormat format) {
  switch (type) {
    case FamilyType::counter:
      return "counter";
    case FamilyType::histogram:
      return "histogram";
    case FamilyType::info:
      return format == MetricsFormat::openmetrics ? "info" : "gauge";
    case FamilyType::gauge:
      break;
  }
  return "gauge";
}

// OpenMetrics names a family without the suffix of its samples, the Prometheus format with it.
std::string family_name(std::string_view name, FamilyType type, MetricsFormat format) {
  if (format == MetricsFormat::openmetrics) {
    return std::string(name);
  }
  const std::string_view suffix =
      type == FamilyType::counter ? "_total" : (type == FamilyType::info ? "_info" : "");
  return fmt::format("{}{}", name, suffix);
}

std::string_view unit_of(std::string_view name) {
  for (const std::string_view unit : {"seconds", "bytes", "ratio"}) {
    if (name.ends_with(unit)) {
      return unit;
    }
  }
  return "";
}

}  // namespace

Families::Family& Families::family(std::string_view name, FamilyType type, std::string_view help) {
  const auto it = families_.find(name);
  if (it != families_.end()) {
    return it->second;
  }
  order_.emplace_back(name);
  return families_.emplace(std::string(name), Family{type, std::string(help), {}}).first->second;
}

void Families::add(std::string_view name, FamilyType type, std::string_view help, const Labels& labels,
                   double value) {
  const std::string_view suffix =
      type == FamilyType::counter ? "_total" : (type == FamilyType::info ? "_info" : "");
  family(name, type, help).samples += fmt::format("{}{}{} {}\n", name, suffix, in_braces(labels), value);
}

void Families::add_integer(std::string_view name, std::string_view help, const Labels& labels,
                           uint64_t value) {
  family(name, FamilyType::gauge, help).samples += fmt::format("{}{} {}\n", name, in_braces(labels), value);
}

void Families::add(std::string_view name, std::string_view help, const Labels& labels,
                   const Histogram& histogram) {
  std::string& samples = family(name, FamilyType::histogram, help).samples;
  uint64_t below = 0;
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    below += histogram.counts[i];
    Labels with_bound = labels;
    with_bound.emplace_back(
        "le", i < Histogram::kBoundsS.size() ? fmt::format("{}", Histogram::kBoundsS[i]) : "+Inf");
    samples += fmt::format("{}_bucket{} {}\n", name, in_braces(with_bound), below);
  }
  samples += fmt::format("{}_sum{} {}\n", name, in_braces(labels), histogram.sum_s);
  samples += fmt::format("{}_count{} {}\n", name, in_braces(labels), below);
}

std::string Families::text() const {
  std::string out;
  for (const std::string& name : order_) {
    const Family& f = families_.at(name);
    const std::string shown = family_name(name, f.type, format_);
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", shown, f.help, shown, type_name(f.type, format_));
    const std::string_view unit = unit_of(name);
    if (format_ == MetricsFormat::openmetrics && !unit.empty()) {
      out += fmt::format("# UNIT {} {}\n", shown, unit);
    }
    out += f.samples;
  }
  return format_ == MetricsFormat::openmetrics ? out + "# EOF\n" : out;
}

}  // namespace xpurun::launcher
