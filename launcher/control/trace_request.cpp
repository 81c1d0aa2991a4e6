#include "launcher/control/trace_request.h"

#include "common/base/clock.h"
#include "common/base/strings.h"
#include "common/model/json_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace xpurun::launcher {

namespace {

using nlohmann::json;

constexpr size_t kLongestName = 64;
constexpr size_t kLongestPath = 4096;
// Value 4: host functions by xpu_timer's documentation, memory by its code. In both, 0 stands for everything.
constexpr uint32_t kKernelTypes = kTraceMatmul | kTraceCollective | kTraceMemory;

base::Status only_known(const json& j, std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : j.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return base::fail(fmt::format("there is no field \"{}\"", base::sanitize(key)));
    }
  }
  return {};
}

base::Result<uint32_t> count_of(const json& j, const char* key) {
  const json* value = model::member(j, key);
  if (value == nullptr) {
    return TraceRequest().count;
  }
  if (!value->is_number_unsigned() || value->get<uint64_t>() < 1 ||
      value->get<uint64_t>() > kMostTraceEvents) {
    return base::fail(fmt::format("\"{}\" must be a number from 1 to {}", key, kMostTraceEvents));
  }
  return static_cast<uint32_t>(value->get<uint64_t>());
}

// Seconds since the epoch; 0 and past times mean now.
base::Result<int64_t> start_of(const json& j, const char* key, int64_t now_wall_ns) {
  const json* value = model::member(j, key);
  if (value == nullptr) {
    return 0;
  }
  if (!value->is_number()) {
    return base::fail(fmt::format("\"{}\" must be a number of seconds since 1970, UTC", key));
  }
  const double at_s = value->get<double>();
  if (!std::isfinite(at_s) || at_s < 0 || at_s > base::ns_to_s(now_wall_ns) + kLongestTraceWaitS) {
    return base::fail(fmt::format("\"{}\" must be in seconds since 1970, UTC, at most a day from now", key));
  }
  return at_s <= base::ns_to_s(now_wall_ns) ? 0 : base::s_to_ns(at_s);
}

bool fit_for_a_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName && text != "." && text != ".." &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                  std::string_view("-_.").find(c) != std::string_view::npos;
         });
}

base::Result<uint32_t> kinds_of(const json& j) {
  const json* value = model::member(j, "kinds");
  if (value == nullptr) {
    return kTraceGpu;
  }
  uint32_t kinds = 0;
  for (const json& word : value->is_array() ? *value : json::array()) {
    const uint32_t kind = word.is_string() ? trace_kind(word.get<std::string>()) : 0;
    if (kind == 0) {
      kinds = 0;
      break;
    }
    kinds |= kind;
  }
  if (kinds == 0) {
    return base::fail("\"kinds\" must be a list of matmul, collective, memory, host");
  }
  return kinds;
}

// "/root/timeline/" gives "timeline".
base::Result<std::string> name_from_path(const json& j) {
  const json* value = model::member(j, "dump_path");
  if (value == nullptr) {
    return std::string();
  }
  if (!value->is_string() || value->get<std::string>().size() > kLongestPath) {
    return base::fail("\"dump_path\" must be a path");
  }
  std::string name;
  for (const std::string_view part : base::split(value->get_ref<const std::string&>(), '/')) {
    if (part == "..") {
      return base::fail("\"dump_path\" must not lead upwards");
    }
    if (!part.empty() && part != ".") {
      name = part;
    }
  }
  if (!name.empty() && !fit_for_a_name(name)) {
    return base::fail("the last part of \"dump_path\" must be letters, digits, '-', '_' and '.'");
  }
  return name;
}

// xpu_timer uploads traces to an object store with these arguments; xpurun leaves uploads to other programs.
base::Status no_upload(const json& j) {
  const json* upload = model::member(j, "oss_args");
  if (upload == nullptr) {
    return {};
  }
  const bool empty = upload->is_object() && std::all_of(upload->begin(), upload->end(), [](const json& v) {
                       return v.is_null() || (v.is_string() && v.get_ref<const std::string&>().empty());
                     });
  return empty ? base::Status() : base::fail("nothing is uploaded here: leave \"oss_args\" out");
}

}  // namespace

base::Result<TraceRequest> trace_request_from(const json& j, int64_t now_wall_ns) {
  TraceRequest out;
  XPURUN_TRY(only_known(j, {"cmd", "count", "at", "kinds", "timeout_s", "name", "wait"}));
  XPURUN_TRY_ASSIGN(out.count, count_of(j, "count"));
  XPURUN_TRY_ASSIGN(out.start_wall_ns, start_of(j, "at", now_wall_ns));
  XPURUN_TRY_ASSIGN(out.kinds, kinds_of(j));
  if (const json* timeout = model::member(j, "timeout_s")) {
    out.timeout_s = timeout->is_number() ? timeout->get<double>() : 0;
    if (!(out.timeout_s > 0 && out.timeout_s <= kLongestTraceS)) {
      return base::fail(fmt::format("\"timeout_s\" must be more than 0 and at most {}", kLongestTraceS));
    }
  }
  if (const json* name = model::member(j, "name")) {
    if (!name->is_string() || !fit_for_a_name(name->get_ref<const std::string&>())) {
      return base::fail("\"name\" must be letters, digits, '-', '_' and '.', at most 64");
    }
    out.name = name->get<std::string>();
  }
  if (const json* wait = model::member(j, "wait"); wait != nullptr && !wait->is_boolean()) {
    return base::fail("\"wait\" must be true or false");
  }
  return out;
}

base::Result<KernelTraceRequest> kernel_trace_request_from(const json& j, int64_t now_wall_ns) {
  KernelTraceRequest out;
  XPURUN_TRY(
      only_known(j, {"dump_path", "dump_count", "dump_time", "reset", "dump_kernel_type", "oss_args"}));
  XPURUN_TRY_ASSIGN(out.trace.count, count_of(j, "dump_count"));
  XPURUN_TRY_ASSIGN(out.trace.start_wall_ns, start_of(j, "dump_time", now_wall_ns));
  XPURUN_TRY_ASSIGN(out.trace.name, name_from_path(j));
  XPURUN_TRY(no_upload(j));
  if (const json* reset = model::member(j, "reset")) {
    if (!reset->is_boolean()) {
      return base::fail("\"reset\" must be true or false");
    }
    out.reset = reset->get<bool>();
  }
  if (const json* kinds = model::member(j, "dump_kernel_type")) {
    if (!kinds->is_number_unsigned() || kinds->get<uint64_t>() > kKernelTypes) {
      return base::fail("\"dump_kernel_type\" must be 0 or a sum of 1 (matmul), 2 (collectives), 4 (memory)");
    }
    const auto bits = static_cast<uint32_t>(kinds->get<uint64_t>());
    out.trace.kinds = bits == 0 ? kTraceGpu : bits;
  }
  return out;
}

}  // namespace xpurun::launcher
