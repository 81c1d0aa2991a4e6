#include "launcher/options/run_settings.h"

#include "common/base/strings.h"
#include "common/base/suggest.h"
#include "common/base/tr.h"
#include "common/model/secrets/redact.h"
#include "launcher/options/argv_split.h"
#include "launcher/options/values/timeline_specs.h"
#include "launcher/options/values/traced_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <optional>

namespace xpurun::launcher {

namespace {

// About three years. Longer durations would overflow nanoseconds in 64 bits or milliseconds in timers.
constexpr double kLongestDuration = 1e8;
constexpr double kLongestSlowCaptureS = 60;
constexpr int64_t kMostSlowSteps = 100'000;
// Event files: each of their eight parts must hold a few blocks.
constexpr uint64_t kSmallestSize = uint64_t{1} << 20;
constexpr int64_t kLargestNumber = 1'000'000;

std::vector<std::string> words_of(const OptionSpec& o) {
  std::vector<std::string> out;
  for (std::string_view word : base::split(o.words, ' ')) {
    if (!word.empty()) {
      out.emplace_back(word);
    }
  }
  return out;
}

bool is_word(const OptionSpec& o, std::string_view value) {
  const auto words = words_of(o);
  return std::find(words.begin(), words.end(), value) != words.end();
}

std::optional<std::string_view> on_off(std::string_view value) {
  for (std::string_view yes : {"on", "yes", "true", "1"}) {
    if (value == yes) {
      return "on";
    }
  }
  for (std::string_view no : {"off", "no", "false", "0"}) {
    if (value == no) {
      return "off";
    }
  }
  return std::nullopt;
}

int signal_number(std::string_view name) {
  if (name == "HUP") {
    return SIGHUP;
  }
  if (name == "QUIT") {
    return SIGQUIT;
  }
  if (name == "USR1") {
    return SIGUSR1;
  }
  return name == "USR2" ? SIGUSR2 : 0;
}

// "0.1%" is 0.001.
std::optional<double> share_of(const std::string& value) {
  char* end = nullptr;
  const double percent = std::strtod(value.c_str(), &end);
  const bool plain = !value.empty() && value.find_first_not_of("0123456789.%") == std::string::npos;
  if (!plain || end == value.c_str() || std::string_view(end) != "%" || percent < 0.0001 || percent > 100) {
    return std::nullopt;
  }
  return percent / 100;
}

Timing timing_named(std::string_view name) {
  return name == "light" ? Timing::light : (name == "full" ? Timing::full : Timing::off);
}

NcclProfiler profiler_named(std::string_view name) {
  return name == "always" ? NcclProfiler::always
                          : (name == "never" ? NcclProfiler::never : NcclProfiler::automatic);
}

// Reads values that check_value has passed.
class Reader {
 public:
  explicit Reader(const Settings& settings) : settings_(settings) {}

  // As set, or the default of the table; empty if there is neither.
  std::string text(std::string_view name) const {
    const Setting* s = settings_.find(name);
    return s != nullptr ? s->value : std::string(find_option(run_options(), name)->default_text);
  }
  // `of_word`: what the option's word means, "off" or "auto".
  double seconds(std::string_view name, double of_word) const {
    return base::parse_duration_s(text(name)).value_or(of_word);
  }
  int number(std::string_view name, int of_word = 0) const {
    return static_cast<int>(base::parse_int(text(name)).value_or(of_word));
  }
  uint64_t size(std::string_view name, uint64_t of_word) const {
    return base::parse_size(text(name)).value_or(of_word);
  }
  // 0: "auto".
  int port(std::string_view name) const { return text(name) == "off" ? kNoPort : number(name); }
  bool is_on(std::string_view name) const { return on_off(text(name)) == "on"; }

 private:
  const Settings& settings_;
};

base::Error bad_value(const OptionSpec& option, const Setting& setting, const base::Error& why) {
  const std::string where =
      setting.precedence == 0 ? std::string() : base::cli_text(" (set in {})", setting.source);
  if (setting.precedence >= static_cast<int>(FileLevel::project)) {
    return {.what = fmt::format("{}: {}: {}", setting.source, option.name, why.what),
            .id = "E-CONFIG",
            .hint = "man 5 xpurun.conf"};
  }
  return usage_error(fmt::format("--{}: {}{}", option.name, why.what, where), *find_command("run"));
}

OnHang on_hang_named(std::string_view name) {
  return name == "kill" ? OnHang::kill : (name == "restart" ? OnHang::restart : OnHang::report);
}

ShowStatus status_line(std::string_view word) {
  return word == "always" ? ShowStatus::always : word == "never" ? ShowStatus::never : ShowStatus::automatic;
}

int verbosity(const Settings& settings, const Reader& read) {
  const Setting* quiet = settings.find("quiet");
  const Setting* verbose = settings.find("verbose");
  const bool is_quiet = read.is_on("quiet");
  const int level = std::min(read.number("verbose"), 2);
  if (!is_quiet || level == 0) {
    return is_quiet ? -1 : level;
  }
  // If both are set, the source with the higher precedence decides. On one command line -q wins over -v.
  return verbose->precedence < quiet->precedence ? level : -1;
}

// As run.json and --print-config may show the value.
std::string shown_value(const OptionSpec& o, const std::string& value) {
  const bool secret = o.name == "nats-token" || o.name == "nats-password";
  return secret && !value.empty() ? std::string(model::kMask) : model::redact_urls(value);
}

// For a command line that starts the job again.
std::string typed_option(const OptionSpec& o, const std::string& value) {
  if (o.kind == ValueKind::on_off) {
    return fmt::format("--{}{}", value == "off" ? "no-" : "", o.name);
  }
  return o.kind == ValueKind::repeated
             ? "-" + std::string(static_cast<size_t>(base::parse_int(value).value_or(1)), o.short_name)
             : fmt::format("--{}={}", o.name, value);
}

NodeOptions node_options(const Reader& read) {
  return {.url = read.text("nats"),
          .token = read.text("nats-token"),
          .user = read.text("nats-user"),
          .password = read.text("nats-password"),
          .creds = read.text("nats-creds"),
          .ca = read.text("nats-ca"),
          .cert = read.text("nats-cert"),
          .key = read.text("nats-key"),
          .secret_file = read.text("nats-secret"),
          .collect_all = read.text("collect") == "all",
          .nodes = read.number("nodes"),
          .node_rank = read.number("node-rank", -1)};
}

struct SlowCapture {
  double seconds = 0;
  int steps = 0;
};

// "10s", "20steps", "off"
base::Result<SlowCapture> slow_capture_of(const std::string& value) {
  constexpr std::string_view kSteps = "steps";
  if (value == "off") {
    return SlowCapture{};
  }
  if (value.ends_with(kSteps)) {
    const auto steps = base::parse_int(std::string_view(value).substr(0, value.size() - kSteps.size()));
    if (steps && *steps >= 1 && *steps <= kMostSlowSteps) {
      return SlowCapture{.steps = static_cast<int>(*steps)};
    }
  } else if (const auto seconds = base::parse_duration_s(value)) {
    return SlowCapture{.seconds = std::min(*seconds, kLongestSlowCaptureS)};
  }
  return base::fail(
      base::cli_text("'{}' is not a duration, such as 10s, a number of steps, such as 20steps, or off",
                     base::sanitize(value)));
}

base::Status check_nats(const std::string& value) {
  const bool word = value == "auto" || value == "off";
  if (word || value.starts_with("nats://") || value.starts_with("tls://")) {
    return {};
  }
  return base::fail(base::cli_text("'{}' is neither nats://HOST:PORT or tls://HOST:PORT nor auto or off",
                                   base::sanitize(model::redact_urls(value))));
}

base::Status check_number(const OptionSpec& o, const std::string& value, const std::string& shown) {
  const auto n = base::parse_int(value);
  const int64_t least = o.kind == ValueKind::number ? 1 : 0;
  if (!n || *n < least || *n > kLargestNumber) {
    const std::string or_word = o.words.empty() ? "" : base::cli_text(", or {}", o.words);
    return base::fail(
        base::cli_text("'{}' is not a number from {} to {}{}", shown, least, kLargestNumber, or_word));
  }
  return {};
}

base::Status check_duration(const OptionSpec& o, const std::string& value, const std::string& shown) {
  const auto s = base::parse_duration_s(value);
  if (!s) {
    const std::string or_word = o.words.empty() ? "" : base::cli_text(", or {}", o.words);
    return base::fail(
        base::cli_text("'{}' is not a duration; write 90, 90s, 5m, 1.5h, 2d or 250ms{}", shown, or_word));
  }
  if (*s > kLongestDuration) {
    return base::fail(base::cli_text("'{}' is longer than three years", shown));
  }
  return {};
}

base::Status check_port(const OptionSpec& o, const std::string& value, const std::string& shown) {
  const auto n = base::parse_int(value);
  if (!n || *n < 1 || *n > 65535) {
    const auto words = base::join(words_of(o), ", ");
    return base::fail(base::cli_text("'{}' is not a port from 1 to 65535, nor one of {}", shown, words));
  }
  return {};
}

base::Status no_such_word(const OptionSpec& o, const std::string& value, const std::string& shown) {
  const auto near = base::closest(value, words_of(o));
  return base::fail(base::cli_text("'{}' is not one of {}{}", shown, base::join(words_of(o), ", "),
                                   near ? base::cli_text("; did you mean {}?", *near) : std::string()));
}

// The value is none of the option's words.
base::Status check_free_value(const OptionSpec& o, const std::string& value, const std::string& shown) {
  switch (o.kind) {
    case ValueKind::repeated:
    case ValueKind::number:
      return check_number(o, value, shown);
    case ValueKind::duration:
      return check_duration(o, value, shown);
    case ValueKind::size:
      if (!base::parse_size(value)) {
        return base::fail(base::cli_text("'{}' is not a size; write 4096, 64K, 500M or 10G", shown));
      }
      return {};
    case ValueKind::choice:
      return no_such_word(o, value, shown);
    case ValueKind::share:
      if (!share_of(value)) {
        return base::fail(base::cli_text("'{}' is not a share from 0.0001% to 100%; write 0.1%", shown));
      }
      return {};
    case ValueKind::port:
      return check_port(o, value, shown);
    case ValueKind::on_off:
      if (!on_off(value)) {
        return base::fail(base::cli_text("'{}' is neither on nor off", shown));
      }
      return {};
    case ValueKind::none:
    case ValueKind::directory:
    case ValueKind::file:
    case ValueKind::text:
    case ValueKind::list:
    case ValueKind::processes:
      break;
  }
  return {};
}

base::Status check_longer_than_zero(const std::string& value) {
  return base::parse_duration_s(value) == 0.0 ? base::fail(base::cli_text("must be longer than 0"))
                                              : base::Status();
}

base::Status check_peak(const std::string& value) {
  if (const auto peaks = model::Peaks::parse(value); !value.empty() && !peaks) {
    return base::fail(peaks.error());
  }
  return {};
}

// Of a value that has a reader of its own.
template <auto kRead>
base::Status check_by_reading(const std::string& value) {
  if (const auto read = kRead(value); !read) {
    return base::fail(read.error());
  }
  return {};
}

// What the kind of the option does not say about its values.
struct MeaningCheck {
  std::string_view option;
  base::Status (*check)(const std::string& value);
};
constexpr MeaningCheck kMeaningChecks[] = {
    {"dump-deadline", check_longer_than_zero},
    {"poll", check_longer_than_zero},
    {"on-event-timeout", check_longer_than_zero},
    {"peak", check_peak},
    {"on-event-kinds", check_by_reading<parse_event_kinds>},
    {"trace-python", check_by_reading<traced_functions>},
    {"timeline", check_by_reading<timeline_specs>},
    {"slow-capture", check_by_reading<slow_capture_of>},
    {"nats", check_nats},
};

base::Status check_run_value(const OptionSpec& o, const std::string& value) {
  XPURUN_TRY(check_value(o, value));
  const uint64_t size = o.kind == ValueKind::size ? base::parse_size(value).value_or(0) : 0;
  if (size > 0 && size < kSmallestSize) {
    return base::fail(base::cli_text("must be 0 or at least 1M"));
  }
  for (const MeaningCheck& meaning : kMeaningChecks) {
    if (meaning.option == o.name) {
      return meaning.check(value);
    }
  }
  return {};
}

// Checks all values. Where each comes from, with secrets masked.
base::Result<std::vector<model::OptionOrigin>> checked_origins(const Settings& settings) {
  std::vector<model::OptionOrigin> out;
  for (const OptionSpec& o : run_options()) {
    const Setting* s = settings.find(o.name);
    if (s == nullptr) {
      continue;
    }
    if (const auto checked = check_run_value(o, s->value); !checked) {
      return base::fail(bad_value(o, *s, checked.error()));
    }
    const std::string value = shown_value(o, s->value);
    out.push_back(
        {std::string(o.name), value, s->source, s->precedence == 0 ? typed_option(o, value) : std::string()});
  }
  return out;
}

}  // namespace

base::Status check_value(const OptionSpec& o, const std::string& value) {
  return is_word(o, value) ? base::Status() : check_free_value(o, value, base::sanitize(value));
}

base::Result<RunOptions> to_run_options(const Settings& settings) {
  RunOptions out;
  XPURUN_TRY_ASSIGN(out.origins, checked_origins(settings));
  const Reader read(settings);
  out.hang_timeout_s = read.seconds("hang-timeout", 0);
  out.busy_timeouts = read.number("busy-timeouts", 0);
  out.proof_grace_s = read.seconds("proof-grace", 0);
  out.on_hang = on_hang_named(read.text("on-hang"));
  out.max_hangs = read.number("max-hangs");
  out.hang_idle = read.is_on("hang-idle");
  out.poll_s = read.seconds("poll", 0);
  out.dump_signal = signal_number(read.text("dump-signal"));
  out.gpu_stacks = model::from_name<model::GpuStacks>(read.text("gpu-stacks")).value_or(out.gpu_stacks);
  out.dump_deadline_s = read.seconds("dump-deadline", 0);
  out.evidence_timeout_s = read.seconds("evidence-timeout", 0);
  out.flight_recorder = read.is_on("flight-recorder");
  out.crash_wait_s = read.seconds("crash-wait", 0);
  out.grace_s = read.seconds("grace", kForever);
  out.on_event = read.text("on-event");
  XPURUN_TRY_ASSIGN(out.on_event_kinds, parse_event_kinds(read.text("on-event-kinds")));
  out.event_limit_s = read.seconds("on-event-timeout", 0);
  out.plugins = read.text("plugin");
  out.out_dir = read.text("out");
  out.runs_dir = read.text("runs-dir");
  out.name = read.text("name");
  out.report = read.is_on("report");
  out.source = read.is_on("source");
  out.share_with_group = read.text("share") == "group";
  const std::string log = read.text("termination-log");
  out.termination_log = {.automatic = log == "auto", .file = log == "auto" || log == "off" ? "" : log};
  out.prefix = read.is_on("prefix");
  out.logs = read.is_on("logs") || out.prefix;
  out.status = status_line(read.text("status"));
  out.verbosity = verbosity(settings, read);
  out.preload = read.is_on("preload");
  out.python_hooks = read.is_on("python-hooks");
  XPURUN_TRY_ASSIGN(out.trace_python, traced_functions(read.text("trace-python")));
  out.trace_python_min_s = read.seconds("trace-python-min", 0);
  out.preload_path = read.text("preload-library");
  out.timing = timing_named(read.text("timing"));
  out.samples_memory = read.text("memory") != "off";
  out.nccl_profiler = profiler_named(read.text("nccl-profiler"));
  out.overhead_budget = share_of(read.text("overhead-budget")).value_or(0);
  out.slow_threshold = share_of(read.text("slow-threshold")).value_or(0);
  const SlowCapture slow_capture = slow_capture_of(read.text("slow-capture")).value_or(SlowCapture{});
  out.slow_capture_s = slow_capture.seconds;
  out.slow_capture_steps = slow_capture.steps;
  if (const std::string peak = read.text("peak"); !peak.empty()) {
    XPURUN_TRY_ASSIGN(out.peaks, model::Peaks::parse(peak));
  }
  XPURUN_TRY_ASSIGN(out.timelines, timeline_specs(read.text("timeline")));
  out.metrics_port = read.port("metrics-port");
  out.shape_metrics = read.is_on("shape-metrics");
  out.event_bytes = read.size("events", 0);
  out.control_port = read.port("control-port");
  out.control_token = read.text("control-auth") == "token";
  out.nodes = node_options(read);
  return out;
}

base::Result<JobEventKinds> parse_event_kinds(std::string_view list) {
  JobEventKinds out;
  if (list == "all") {
    for (size_t i = 0; i < model::kNames<model::JobEventKind>.size(); ++i) {
      out.insert(static_cast<model::JobEventKind>(i));
    }
    return out;
  }
  for (const std::string_view word : base::split(list, ',')) {
    const auto kind = model::from_name<model::JobEventKind>(word);
    if (!kind) {
      const auto& names = model::kNames<model::JobEventKind>;
      return base::fail(
          base::cli_text("'{}' is not one of {}", base::sanitize(word), fmt::join(names, ", ")));
    }
    out.insert(*kind);
  }
  return out;
}

RunOptions default_run_options() {
  return *to_run_options(Settings());
}

std::string print_config(const Settings& settings) {
  std::string out;
  for (const OptionSpec& o : run_options()) {
    if (o.scope == Scope::command_line) {
      continue;
    }
    const Setting* s = settings.find(o.name);
    const std::string value = s != nullptr ? s->value : std::string(o.default_text);
    const std::string source = s != nullptr ? s->source : "default";
    out += fmt::format("{:<16} {:<16} {}\n", o.name,
                       value.empty() ? "-" : base::sanitize(shown_value(o, value)), base::sanitize(source));
  }
  return out;
}

}  // namespace xpurun::launcher
