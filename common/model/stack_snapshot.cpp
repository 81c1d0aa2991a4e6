#include "common/model/stack_snapshot.h"

#include "common/base/io.h"
#include "common/model/json_fields.h"
#include "common/model/redact.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>

namespace xpurun::model {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

constexpr std::array<std::string_view, 5> kFrameKinds = {"python", "native", "kernel", "gpu", "marker"};
constexpr std::array<std::string_view, 4> kGilStates = {"", "holder", "waiting", "dropping"};
constexpr std::array<std::string_view, 3> kStatuses = {"ok", "partial", "failed"};

template <typename E, size_t N>
E enum_from(const std::array<std::string_view, N>& names, const std::string& name, E fallback) {
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == name) {
      return static_cast<E>(i);
    }
  }
  return fallback;
}

void put(ordered_json& j, const char* key, const std::string& value) {
  if (!value.empty()) {
    j[key] = value;
  }
}

void put(ordered_json& j, const char* key, int value) {
  if (value != 0) {
    j[key] = value;
  }
}

ordered_json frame_json(const Frame& f) {
  ordered_json j;
  j["kind"] = name_of(f.kind);
  j["func"] = f.func;
  put(j, "full_func", f.full_func);
  put(j, "file", f.file);
  put(j, "line", f.line);
  put(j, "column", f.column);
  put(j, "end_line", f.end_line);
  put(j, "end_column", f.end_column);
  put(j, "callee", f.callee);
  put(j, "module", f.module);
  put(j, "build_id", f.build_id);
  if (f.pc != 0) {
    j["pc"] = fmt::format("{:#x}", f.pc);
    j["offset"] = fmt::format("{:#x}", f.offset);
  }
  for (const Local& l : f.locals) {
    j["locals"].push_back({{"name", l.name}, {"value", l.value}});
  }
  if (f.eval) {
    j["eval"] = true;
  }
  if (f.inlined) {
    j["inlined"] = true;
  }
  if (f.entry) {
    j["entry"] = true;
  }
  return j;
}

uint64_t hex_value(const json& j, const char* key) {
  const auto it = j.find(key);
  if (it == j.end() || !it->is_string()) {
    return 0;
  }
  return std::strtoull(it->get_ref<const std::string&>().c_str(), nullptr, 16);
}

Frame frame_from(const json& j) {
  Frame f;
  f.kind = enum_from(kFrameKinds, j.value("kind", ""), FrameKind::marker);
  f.func = j.value("func", "");
  f.full_func = j.value("full_func", "");
  f.file = j.value("file", "");
  f.line = integer(j, "line", 0);
  f.column = integer(j, "column", 0);
  f.end_line = integer(j, "end_line", 0);
  f.end_column = integer(j, "end_column", 0);
  f.callee = j.value("callee", "");
  f.module = j.value("module", "");
  f.build_id = j.value("build_id", "");
  f.pc = hex_value(j, "pc");
  f.offset = hex_value(j, "offset");
  for (const json& l : j.value("locals", json::array())) {
    f.locals.push_back({.name = l.value("name", ""), .value = l.value("value", "")});
  }
  f.eval = j.value("eval", false);
  f.inlined = j.value("inlined", false);
  f.entry = j.value("entry", false);
  return f;
}

ordered_json thread_json(const ThreadStack& t) {
  ordered_json j;
  j["tid"] = t.tid;
  if (t.thread_id != 0) {
    j["thread_id"] = t.thread_id;
  }
  j["comm"] = t.comm;
  put(j, "python_name", t.python_name);
  j["state"] = std::string(1, t.state);
  j["main"] = t.main;
  if (t.crashed) {
    j["crashed"] = true;
  }
  put(j, "gil", std::string(name_of(t.gil)));
  if (t.gc) {
    j["gc"] = true;
  }
  if (!t.interpreters.empty()) {
    j["interpreters"] = t.interpreters;
  }
  j["cpu_ms"] = t.cpu_ms;
  put(j, "wchan", t.wchan);
  put(j, "syscall", t.syscall);
  put(j, "motion", t.motion);
  auto& frames = j["frames"] = ordered_json::array();
  for (const Frame& f : t.frames) {
    frames.push_back(frame_json(f));
  }
  return j;
}

ThreadStack thread_from(const json& j) {
  ThreadStack t;
  t.tid = integer(j, "tid", 0);
  t.thread_id = integer(j, "thread_id", uint64_t{0});
  t.comm = j.value("comm", "");
  t.python_name = j.value("python_name", "");
  const std::string state = j.value("state", "?");
  t.state = state.empty() ? '?' : state[0];
  t.main = j.value("main", false);
  t.crashed = j.value("crashed", false);
  t.gil = enum_from(kGilStates, j.value("gil", ""), GilState::none);
  t.gc = j.value("gc", false);
  for (const json& i : j.value("interpreters", json::array())) {
    t.interpreters.push_back(to_integer<int64_t>(i));
  }
  t.cpu_ms = integer(j, "cpu_ms", uint64_t{0});
  t.wchan = j.value("wchan", "");
  t.syscall = j.value("syscall", "");
  t.motion = j.value("motion", "");
  for (const json& f : j.value("frames", json::array())) {
    t.frames.push_back(frame_from(f));
  }
  return t;
}

ordered_json kernel_json(const GpuKernel& k) {
  ordered_json j;
  j["name"] = k.name;
  put(j, "full_name", k.full_name);
  j["device"] = k.device;
  j["grid"] = k.grid;
  j["grid_dim"] = k.grid_dim;
  j["block_dim"] = k.block_dim;
  put(j, "status", k.status);
  return j;
}

GpuKernel kernel_from(const json& j) {
  GpuKernel k;
  k.name = j.value("name", "");
  k.full_name = j.value("full_name", "");
  k.device = integer(j, "device", -1);
  k.grid = integer(j, "grid", int64_t{-1});
  k.grid_dim = j.value("grid_dim", "");
  k.block_dim = j.value("block_dim", "");
  k.status = j.value("status", "");
  return k;
}

}  // namespace

std::string_view name_of(FrameKind kind) {
  return kFrameKinds[static_cast<size_t>(kind)];
}
std::string_view name_of(GilState state) {
  return kGilStates[static_cast<size_t>(state)];
}
std::string_view name_of(DumpStatus status) {
  return kStatuses[static_cast<size_t>(status)];
}

const ThreadStack* ProcessStacks::main_thread() const {
  for (const ThreadStack& t : threads) {
    if (t.main) {
      return &t;
    }
  }
  return nullptr;
}

ordered_json to_json(const ProcessStacks& p) {
  ordered_json j;
  j["schema"] = kStacksSchema;
  j["host"] = p.host;
  j["pid"] = p.pid;
  j["rank"] = rank_or_null(p.rank);
  j["local_rank"] = p.local_rank < 0 ? ordered_json() : ordered_json(p.local_rank);
  j["role"] = p.role;
  j["comm"] = p.comm;
  j["cmdline"] = p.cmdline;
  j["python_version"] = p.python_version;
  j["wall_ns"] = p.wall_ns;
  j["mono_ns"] = p.mono_ns;
  j["pause_ns"] = p.pause_ns;
  j["method"] = p.method;
  j["status"] = name_of(p.status);
  put(j, "reason", p.reason);
  if (!p.notes.empty()) {
    j["notes"] = p.notes;
  }
  for (const Interpreter& i : p.interpreters) {
    ordered_json entry = {{"id", i.id}};
    put(entry, "gil_holder", i.gil_holder);
    if (i.gc) {
      entry["gc"] = true;
    }
    j["interpreters"].push_back(std::move(entry));
  }
  auto& threads = j["threads"] = ordered_json::array();
  for (const ThreadStack& t : p.threads) {
    threads.push_back(thread_json(t));
  }
  for (const GpuKernel& k : p.gpu_kernels) {
    j["gpu_kernels"].push_back(kernel_json(k));
  }
  return j;
}

base::Result<ProcessStacks> process_stacks_from_json(const json& j) {
  try {
    if (j.value("schema", "") != kStacksSchema) {
      return base::fail(fmt::format("schema is '{}', expected '{}'", j.value("schema", ""), kStacksSchema));
    }
    ProcessStacks p;
    p.host = j.value("host", "");
    p.pid = integer(j, "pid", 0);
    p.rank = integer(j, "rank", base::kNoRank);
    p.local_rank = integer(j, "local_rank", -1);
    p.role = j.value("role", "other");
    p.comm = j.value("comm", "");
    // Files of an older xpurun, or of another program, were masked less or not at all.
    p.cmdline = redact_argv(j.value("cmdline", std::vector<std::string>()));
    p.python_version = j.value("python_version", "");
    p.wall_ns = integer(j, "wall_ns", int64_t{0});
    p.mono_ns = integer(j, "mono_ns", int64_t{0});
    p.pause_ns = integer(j, "pause_ns", int64_t{0});
    p.method = j.value("method", "");
    p.status = enum_from(kStatuses, j.value("status", "failed"), DumpStatus::failed);
    p.reason = j.value("reason", "");
    p.notes = j.value("notes", std::vector<std::string>());
    for (const json& i : j.value("interpreters", json::array())) {
      p.interpreters.push_back({.id = integer(i, "id", int64_t{0}),
                                .gil_holder = integer(i, "gil_holder", 0),
                                .gc = i.value("gc", false)});
    }
    for (const json& t : j.value("threads", json::array())) {
      p.threads.push_back(thread_from(t));
    }
    for (const json& k : j.value("gpu_kernels", json::array())) {
      p.gpu_kernels.push_back(kernel_from(k));
    }
    return p;
  } catch (const json::exception& e) {
    return base::fail(fmt::format("malformed stacks file: {}", e.what()));
  }
}

base::Result<ProcessStacks> load_process_stacks(const std::string& path) {
  XPURUN_TRY_ASSIGN(const std::string text, base::read_file(path));
  const json j = parse_json(text);
  if (j.is_discarded()) {
    return base::fail(fmt::format("{}: not valid JSON (truncated?)", path));
  }
  auto p = process_stacks_from_json(j);
  if (!p) {
    return base::fail(std::move(p.error()).context(path));
  }
  return p;
}

}  // namespace xpurun::model
