#include "common/model/run_manifest.h"

#include "common/base/strings.h"
#include "common/model/exception_fields.h"
#include "common/model/json_visitors.h"
#include "common/model/verdict_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

namespace xpurun::model {

template <typename V, Self<Death> D>
void fields(V& visit, D& d) {
  visit("order", d.order);
  visit("at_s", d.at_s);
  visit("wait_status", d.wait_status);
  visit("cause_hint", d.cause_hint);
  visit("follower", d.follower);
}

template <typename V, Self<ErrorStream> E>
void fields(V& visit, E& e) {
  visit("kind", e.kind);
  visit("path", e.path, WhenEmpty::omit);
  visit("end", e.end);
}

template <typename V, Self<StillTime> T>
void fields(V& visit, T& t) {
  visit("from_s", t.from_s);
  visit("to_s", t.to_s);
}

template <typename V, Self<MemoryGrowth> G>
void fields(V& visit, G& g) {
  visit("from_bytes", g.from_bytes);
  visit("to_bytes", g.to_bytes);
  visit("helpers_bytes", g.helpers_bytes, WhenEmpty::omit);
  visit("since_s", g.since_s);
  visit("until_s", g.until_s);
  visit("since_step", g.since_step, WhenEmpty::omit);
  visit("until_step", g.until_step, WhenEmpty::omit);
}

template <typename V, Self<GpuMemoryUse> G>
void fields(V& visit, G& g) {
  visit("allocated_bytes", g.allocated_bytes);
  visit("peak_bytes", g.peak_bytes);
  visit("total_bytes", g.total_bytes);
  visit("growth", g.growth, WhenEmpty::omit);
}

template <typename V, Self<ProcessRecord> P>
void fields(V& visit, P& p) {
  visit("pid", p.pid);
  visit("ppid", p.ppid);
  visit("start_ticks", p.start_ticks);
  visit("role", p.role);
  visit.rank("rank", p.rank);
  visit("local_rank", p.local_rank);
  visit("identity", p.identity);
  visit("comm", p.comm);
  visit("cmdline", p.cmdline);
  visit("python", p.python);
  visit("preload", p.preload);
  visit("seen_s", p.seen_s);
  visit("function", p.function);
  visit("file", p.file);
  visit("line", p.line);
  visit("place", p.place, WhenEmpty::omit);
  visit("last_progress_s", p.last_progress_s);
  visit("rss_bytes", p.rss_bytes, WhenEmpty::omit);
  visit("growth", p.growth, WhenEmpty::omit);
  visit("gpu_memory", p.gpu_memory, WhenEmpty::omit);
  visit("still", p.still, WhenEmpty::omit);
  visit("error_stream", p.error_stream, WhenEmpty::omit);
  visit("error_file", p.error_file, WhenEmpty::omit);
  visit.optional("death", p.death, p.death.happened);
  visit("left", p.left, WhenEmpty::omit);
}

template <typename V, Self<HelperDeath> H>
void fields(V& visit, H& h) {
  visit("pid", h.pid);
  visit("parent", h.parent);
  visit.rank("rank", h.rank);
  visit("name", h.name, WhenEmpty::omit);
  visit("status", h.status);
  visit("lost", h.lost, WhenEmpty::omit);
  visit("items", h.items, WhenEmpty::omit);
  visit("at_s", h.at_s);
}

template <typename V, Self<MemoryGroup> M>
void fields(V& visit, M& m) {
  visit("path", m.path);
  visit("oom_kills", m.oom_kills);
  visit("limit_bytes", m.limit_bytes);
  visit("used_bytes", m.used_bytes);
}

template <typename V, Self<CrashNotice> C>
void fields(V& visit, C& c) {
  visit("pid", c.pid);
  visit("tid", c.tid);
  visit.rank("rank", c.rank);
  visit("signal", c.signal);
  visit("code", c.code);
  visit.hex("address", c.address);
  visit("stack_overflow", c.stack_overflow, WhenEmpty::omit);
  visit("sender", c.sender);
  visit("at_s", c.at_s);
  visit("dump", c.dump);
}

template <typename V, Self<Stall> I>
void fields(V& visit, I& i) {
  visit("n", i.n);
  visit("ranks", i.ranks, WhenEmpty::omit);
  visit("at_s", i.at_s);
  visit("since_s", i.since_s);
  visit("verdict_s", i.verdict_s);
  visit("cleared_s", i.cleared_s);
  visit("early", i.early, WhenEmpty::omit);
  visit("action", i.action, WhenEmpty::omit);
  visit("restarted_s", i.restarted_s);
  visit("dump", i.dump);
  visit("asked_s", i.asked_s, WhenEmpty::omit);
  visit("pending", i.pending, WhenEmpty::omit);
  visit("verdict", i.verdict);
}

template <typename V, Self<DumpRecord> D>
void fields(V& visit, D& d) {
  visit("n", d.n);
  visit("why", d.why);
  visit("dir", d.dir);
  visit("at_s", d.at_s);
}

template <typename V, Self<Slowdown> S>
void fields(V& visit, S& s) {
  visit("at_s", s.at_s);
  visit("step", s.step);
  visit("wall_ns", s.wall_ns);
  visit("before_s", s.before_s);
  visit("after_s", s.after_s);
  visit("share", s.share);
  visit("cleared_s", s.cleared_s);
  visit("cleared_step", s.cleared_step);
}

template <typename V, Self<AwaitedRank> A>
void fields(V& visit, A& a) {
  visit("rank", a.rank);
  visit("at_s", a.at_s);
  visit("share", a.share);
  visit("cleared_s", a.cleared_s);
}

template <typename V, Self<EventCommand> C>
void fields(V& visit, C& c) {
  visit("event", c.event);
  visit("at_s", c.at_s);
  visit("seconds", c.seconds);
  visit("status", c.status);
  visit("reason", c.reason);
}

template <typename V, Self<PluginResult> P>
void fields(V& visit, P& p) {
  visit("file", p.file);
  visit("function", p.function);
  visit.rank("rank", p.rank);
  visit("status", p.status);
  visit("text", p.text);
}

template <typename V, Self<OptionOrigin> O>
void fields(V& visit, O& o) {
  visit("name", o.name);
  visit("value", o.value);
  visit("source", o.source);
  visit("typed", o.typed, WhenEmpty::omit);
}

template <typename V, Self<StillElsewhere> S>
void fields(V& visit, S& s) {
  visit("rank", s.rank);
  visit("host", s.host);
  visit("still_s", s.still_s);
  visit("where", s.where);
}

template <typename V, Self<Interrupt> I>
void fields(V& visit, I& i) {
  visit("signal", i.signal);
  visit("from_terminal", i.from_terminal);
  visit("at_s", i.at_s);
  visit("elsewhere", i.elsewhere, WhenEmpty::omit);
}

// Absent unless there was one.
inline void interrupt_fields(JsonWriter& visit, const Interrupt& i) {
  visit.optional("interrupt", i, i.signal != 0);
}
inline void interrupt_fields(JsonReader& visit, Interrupt& i) {
  bool present = false;
  visit.optional("interrupt", i, present);
}

template <typename V, Self<RunManifest> R>
void fields(V& visit, R& r) {
  visit("version", r.version);
  visit("id", r.id);
  visit("host", r.host);
  visit.derived("started", base::utc_iso8601(r.started_wall_ns));
  visit("started_wall_ns", r.started_wall_ns);
  visit("elapsed_s", r.elapsed_s);
  visit("command", r.command);
  visit("cwd", r.cwd);
  visit("supervisor_pid", r.supervisor_pid);
  visit("main_pid", r.main_pid);
  visit("hang_timeout_s", r.hang_timeout_s);
  visit.nested("preload", [&r](auto& preload) {
    preload("path", r.preload_path);
    preload("reason", r.preload_reason);
    preload("python_reason", r.python_reason);
  });
  visit("world_size", r.world_size);
  visit("outcome", r.outcome);
  visit("child_status", r.child_status);
  interrupt_fields(visit, r.interrupt);
  visit("judged_now", r.judged_now, WhenEmpty::omit);
  visit("attached", r.attached, WhenEmpty::omit);
  visit("exit_status", r.exit_status);
  visit("control", r.control);
  visit("control_url", r.control_url);
  visit("metrics", r.metrics);
  visit("verdict", r.verdict);
  visit("job_report_host", r.job_report_host, WhenEmpty::omit);
  visit("job_report_dir", r.job_report_dir, WhenEmpty::omit);
  visit("processes", r.processes);
  visit("crashes", r.crashes);
  visit("helper_deaths", r.helper_deaths, WhenEmpty::omit);
  visit("memory", r.memory, WhenEmpty::omit);
  visit("exceptions", r.exceptions);
  visit("stalls", r.stalls);
  visit("dumps", r.dumps);
  visit("slowdowns", r.slowdowns, WhenEmpty::omit);
  visit("awaited_ranks", r.awaited_ranks, WhenEmpty::omit);
  visit("event_commands", r.event_commands, WhenEmpty::omit);
  visit("plugins", r.plugins, WhenEmpty::omit);
  visit("options", r.options);
  visit("env", r.env);
  visit("env_names", r.env_names);
}

double progress_before_end_s(const RunManifest& run, const ProcessRecord& process) {
  for (const Stall& i : run.stalls) {
    const bool ended_the_ranks = i.action != HangAction::none || i.cleared_s < 0 ||
                                 (run.verdict.kind == VerdictKind::hang && run.verdict.dump == i.dump);
    for (const StillTime& t : process.still) {
      if (ended_the_ranks && t.from_s <= i.at_s && i.at_s <= t.to_s) {
        return t.from_s;
      }
    }
  }
  return process.last_progress_s;
}

const Stall* current_stall(const RunManifest& run) {
  const auto key = [](const Stall& s) {
    const bool confirmed = s.verdict.kind == VerdictKind::hang && s.verdict.level == VerdictLevel::confirmed;
    const bool due = s.pending && !s.dump.empty();
    return std::tuple(due, due ? -s.asked_s : 0, confirmed, s.asked_s, s.n);
  };
  const Stall* out = nullptr;
  for (const Stall& s : run.stalls) {
    if (s.cleared_s < 0 && (out == nullptr || key(*out) < key(s))) {
      out = &s;
    }
  }
  return out;
}

int confirmed_hangs(const RunManifest& run) {
  return static_cast<int>(std::count_if(run.stalls.begin(), run.stalls.end(), [](const Stall& i) {
    return i.verdict.kind == VerdictKind::hang && i.verdict.level == VerdictLevel::confirmed;
  }));
}

std::optional<PluginResult> plugin_result_from_line(std::string_view line) {
  const nlohmann::json j = parse_json(line);
  if (!j.is_object() || !j.contains("function") || !j.contains("status")) {
    return std::nullopt;
  }
  try {
    PluginResult out;
    JsonReader reader(j);
    fields(reader, out);
    return out;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::optional<HelperDeath> helper_death_from_message(std::string_view text) {
  constexpr size_t kLongestName = 200;
  constexpr int kMostSignals = 64;
  const nlohmann::json j = parse_json(text);
  if (!j.is_object() || j.value("schema", nlohmann::json()) != "xpurun.helper/1") {
    return std::nullopt;
  }
  const auto number = [&j](const char* name) {
    const auto it = j.find(name);
    return it != j.end() && it->is_number_integer() ? it->get<int64_t>() : 0;
  };
  const int64_t pid = number("pid");
  const int64_t code = number("code");
  if (pid <= 0 || pid > INT32_MAX || code < -kMostSignals || code > UINT8_MAX) {
    return std::nullopt;
  }
  const auto name = j.find("name");
  HelperDeath out{.pid = static_cast<base::Pid>(pid)};
  out.name = name != j.end() && name->is_string()
                 ? base::sanitize(name->get_ref<const std::string&>().substr(0, kLongestName))
                 : "";
  const auto lost = j.find("lost");
  out.lost = lost != j.end() && lost->is_string()
                 ? base::sanitize(lost->get_ref<const std::string&>().substr(0, kLongestName))
                 : "";
  out.items = std::max<int64_t>(number("items"), 0);
  out.status = base::WaitStatus(static_cast<int>(code < 0 ? -code : code << 8));
  return out;
}

const std::string& host_of(const RunManifest& run, size_t node) {
  return node < run.nodes.size() ? run.nodes[node].host : run.host;
}

nlohmann::ordered_json to_json(const RunManifest& r) {
  return write_object(kRunSchema, r);
}

base::Result<RunManifest> run_manifest_from_json(const nlohmann::json& j) {
  // The first versions wrote the stalls as "incidents".
  if (j.is_object() && j.contains("incidents") && !j.contains("stalls")) {
    nlohmann::json renamed = j;
    renamed["stalls"] = std::move(renamed["incidents"]);
    return read_object<RunManifest>(kRunSchema, "run manifest", renamed);
  }
  return read_object<RunManifest>(kRunSchema, "run manifest", j);
}

base::Result<RunManifest> load_run_manifest(const std::string& path) {
  auto run = load_object(path, run_manifest_from_json);
  if (!run && run.error().sys_errno == 0 && run.error().hint.empty()) {
    run.error().id = "E-NO-DATA";
    run.error().hint = fmt::format("xpurun stacks {}",
                                   base::shell_quote(std::filesystem::path(path).parent_path().string()));
  }
  return run;
}

// A launcher of one node passes through the rendezvous too, and waits for nobody there.
bool waits_for_nodes(const ProcessRecord& process) {
  const std::string wanted = nodes_wanted(process);
  const bool several = !wanted.empty() && wanted != "1" && wanted != "1:1";
  return several && (process.file.find("torch/distributed/elastic/rendezvous/") != std::string::npos ||
                     process.file.ends_with("torch/distributed/elastic/utils/store.py"));
}

std::string nodes_wanted(const ProcessRecord& process) {
  for (size_t i = 0; i < process.cmdline.size(); ++i) {
    const std::string_view word = process.cmdline[i];
    for (const std::string_view option : {"--nnodes", "--nnode"}) {
      if (word == option && i + 1 < process.cmdline.size()) {
        return process.cmdline[i + 1];
      }
      if (word.starts_with(option) && word.substr(option.size()).starts_with('=')) {
        return std::string(word.substr(option.size() + 1));
      }
    }
  }
  return {};
}

RankSet ranks_without_preload(const RunManifest& run) {
  RankSet out;
  for (const ProcessRecord& p : run.processes) {
    const bool lost = p.role == ProcessRole::rank && p.rank >= 0 && p.python && !p.preload;
    if (lost && !run.preload_path.empty() && run.preload_reason.empty()) {
      out.insert(p.rank);
    }
  }
  return out;
}

}  // namespace xpurun::model
