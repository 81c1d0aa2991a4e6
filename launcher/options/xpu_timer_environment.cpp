#include "launcher/options/xpu_timer_environment.h"

#include "common/base/strings.h"
#include "common/base/suggest.h"
#include "launcher/options/run_settings.h"
#include "launcher/options/values/traced_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace xpurun::launcher {

namespace {

constexpr std::string_view kPrefix = "XPU_TIMER_";
constexpr std::string_view kNotSet = "NOT_SET";

using Converted = base::Result<std::string>;

Converted number_plus(const std::string& value, int more) {
  const auto number = base::parse_int(value);
  return number ? Converted(fmt::format("{}", *number + more))
                : base::fail(fmt::format("'{}' is not a number", base::sanitize(value)));
}
Converted as_number(const std::string& value) {
  return number_plus(value, 0);
}
Converted number_above(const std::string& value) {
  return number_plus(value, 1);
}
Converted number_below(const std::string& value) {
  return number_plus(value, -1);
}
Converted as_functions(const std::string& value) {
  return traced_functions(value);
}
Converted kill_on_hang(const std::string&) {
  return std::string("kill");
}

// What a variable sets: an option.
struct Mapped {
  std::string_view variable;  // without kPrefix
  std::string_view option;
  Converted (*convert)(const std::string& value);
};
constexpr Mapped kMapped[] = {
    {"HANG_TIMEOUT", "hang-timeout", as_number},
    {"HANG_KILL", "on-hang", kill_on_hang},
    {"PORT", "metrics-port", as_number},
    {"PORT", "control-port", number_below},
    {"BASEPORT", "control-port", as_number},
    {"BASEPORT", "metrics-port", number_above},
    {"HOST_TRACING_FUNC", "trace-python", as_functions},
};

// What replaces a variable that sets nothing. Empty: the variable has its effect elsewhere.
struct Replaced {
  std::string_view variable;
  std::string_view instead;
};
constexpr std::string_view kEveryScrape = "metrics are computed at each scrape";
constexpr std::string_view kNewest = "statistics cover the newest 512 calls";
constexpr std::string_view kNoLibraries = "xpurun needs no path of a library, program or list of symbols";
constexpr std::string_view kLevels = "there are 10 levels of matmuls and 20 of collectives";
constexpr std::string_view kOut =
    "stacks, traces and the log are in the run directory; --out chooses the place";
constexpr std::string_view kLog = "xpurun.log is in the run directory";
constexpr Replaced kReplaced[] = {
    {"EXIT_HOOK_PLUGIN", ""},
    {"DEBUG_MODE", "xpurun works with any part of the GPUs"},
    {"CONFIG", "write xpurun.conf (man 5 xpurun.conf)"},
    {"PROMETHEUS_UPDATE_INTERVAL", kEveryScrape},
    {"LOCAL_UPDATE_INTERVAL", kEveryScrape},
    {"MM_BVAR_WINDOW_SIZE", kNewest},
    {"COLL_BVAR_WINDOW_SIZE", kNewest},
    {"BVAR_WINDOW_SIZE", kNewest},
    {"DEREGISTER_TIME", "a series without a call for five minutes disappears"},
    {"DEREGISTER_COUNT", "a series without a call for five minutes disappears"},
    {"MM_BUCKETING_COUNT", kLevels},
    {"COMM_BUCKETING_COUNT", kLevels},
    {"BUCKETING_METRICS", kLevels},
    {"DEVICE_NAME", "--peak sets the peak throughput of the GPU"},
    {"SKIP_TP", "--timing light records no events that would cost overlap"},
    {"TIMELINE_PATH", kOut},
    {"TIMELINE_TRACE_COUNT", "xpurun ctl trace takes the number of calls"},
    {"ALL_DUMP_TIMELINE", "every rank writes its trace"},
    {"DUMP_STACK_COUNT", "xpurun capture samples the stacks of all ranks"},
    {"LOGGING_DIR", kLog},
    {"LOGGING_APPEND", kLog},
    {"OPENBRPC", "--control-port answers requests over HTTP"},
    {"DAEMON_PATH", kNoLibraries},
    {"SYMS_FILE", kNoLibraries},
    {"LIB_PATH", kNoLibraries},
    {"NCCL_LIB_PATH", kNoLibraries},
    {"CUBLAS_LIB_PATH", kNoLibraries},
    {"CUBLASLT_LIB_PATH", kNoLibraries},
    {"TORCH_CUDA_LIB_PATH", kNoLibraries},
    {"TP_SIZE", "xpu_timer did not use it either"},
};

bool is_off(std::string_view value) {
  return value == "0" || value == "false";
}

// As a setting of the option.
Converted value_of(const Mapped& mapped, const std::string& text) {
  XPURUN_TRY_ASSIGN(std::string value, mapped.convert(text));
  XPURUN_TRY(check_value(*find_option(run_options(), mapped.option), value));
  return value;
}

std::string unknown_text(const std::string& variable) {
  std::vector<std::string> known;
  for (const Mapped& m : kMapped) {
    known.emplace_back(m.variable);
  }
  for (const Replaced& r : kReplaced) {
    known.emplace_back(r.variable);
  }
  const auto near = base::closest(variable, known);
  return near ? fmt::format("is not known; did you mean {}{}?", kPrefix, *near) : "is not known";
}

// Of a variable without an option. Empty: nothing is to be said.
std::string warning_about(const std::string& variable, const std::string& value) {
  const auto* found = std::find_if(std::begin(kReplaced), std::end(kReplaced),
                                   [&](const Replaced& r) { return r.variable == variable; });
  if (found == std::end(kReplaced)) {
    return unknown_text(variable);
  }
  return found->instead.empty() || is_off(value) ? "" : fmt::format("has no effect: {}", found->instead);
}

}  // namespace

std::vector<std::string> add_xpu_timer_environment(Settings& settings,
                                                   const std::map<std::string, std::string>& env) {
  std::vector<std::string> out;
  for (const auto& [name, text] : env) {
    if (!name.starts_with(kPrefix) || text.empty() || text == kNotSet) {
      continue;
    }
    const std::string variable = name.substr(kPrefix.size());
    std::string warning;
    bool is_mapped = false;
    for (const Mapped& mapped : kMapped) {
      if (mapped.variable != variable) {
        continue;
      }
      is_mapped = true;
      const auto value = value_of(mapped, text);
      if (!value) {
        warning = fmt::format("is ignored: {}", base::to_line(value.error()));
      } else if (mapped.convert != kill_on_hang || !is_off(text)) {
        settings.set(mapped.option, {.value = *value, .source = name, .precedence = 1});
      }
    }
    if (!is_mapped) {
      warning = warning_about(variable, text);
    }
    if (!warning.empty()) {
      out.push_back(base::sanitize(fmt::format("{} {}", name, warning)));
    }
  }
  return out;
}

}  // namespace xpurun::launcher
