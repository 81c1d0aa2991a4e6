// Supervisor: single timed calls: the event files of every rank, traces on request, and the level of timing,
// which a trace raises for its time.
#include "common/base/output/log.h"
#include "launcher/control/control_http.h"
#include "launcher/control/trace_request.h"
#include "launcher/supervise/supervisor.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// A rank notices a new level within a few milliseconds; so much before a trace begins it is told.
constexpr double kRaiseS = 0.1;
// Who has asked is answered even if the disk does not.
constexpr double kPatienceS = 2;
constexpr std::string_view kTokenFile = "control.token";

}  // namespace

void Supervisor::events_arrived(base::Pid pid, const RankTiming& timing, std::span<const wire::Event> events,
                                const wire::Segment& memory) {
  const TrackedProcess* p = table_.find(pid);
  if (p == nullptr || p->record.role != model::ProcessRole::rank) {
    return;
  }
  const EventFiles::Source who{.pid = pid,
                               .rank = p->record.rank,
                               .local_rank = p->record.local_rank,
                               .host = host_,
                               .gpu = timing.device_name,
                               .gpu_uuid = timing.device_uuid};
  event_files_.add(who, events, memory, timing.health.at("ring_dropped"));
  if (tracing_ && tracing_->begun) {
    tracing_->trace.add(who, events, memory);
  }
}

void Supervisor::set_level(wire::Level level) {
  level_ = level;
  const bool raised = tracing_ && tracing_->raised;
  collector_.set_level(raised ? wire::Level::full : level_);
}

base::Result<std::string> Supervisor::start_trace(TraceRequest request, ControlServer::Reply when_done) {
  std::string dir = fmt::format("traces/{}", ++traces_);
  if (!request.name.empty()) {
    dir += "-" + request.name;
  }
  const std::string path = journal_.dir().file(dir);
  storage_.make_dirs(path);
  const base::MonoNs now = base::mono_ns();
  const base::MonoNs start = request.start_wall_ns == 0
                                 ? now + base::s_to_ns(kRaiseS)
                                 : std::max(now, now + request.start_wall_ns - base::wall_ns());
  request.start_wall_ns = base::wall_ns() + (start - now);
  base::log_info("{} events of every rank into {}, in {:.1f} s", request.count, path,
                 base::ns_to_s(start - now));
  tracing_.emplace(Tracing{.trace = Trace(storage_, std::move(request), path, start), .dir = dir});
  tracing_->when_done = std::move(when_done);
  tracing_->timer = loop_.at(start - base::s_to_ns(kRaiseS), [this] { raise_for_trace(); });
  return dir;
}

void Supervisor::raise_for_trace() {
  tracing_->raised = true;
  set_level(level_);
  const bool host = (tracing_->trace.request().kinds & kTraceHost) != 0;
  collector_.set_host_events(host ? HostEvents::yes : HostEvents::no);
  tracing_->timer = loop_.at(tracing_->trace.start(), [this] { begin_trace(); });
}

void Supervisor::begin_trace() {
  // What ended before is not wanted, and has not been written yet.
  collector_.drain(base::mono_ns());
  tracing_->begun = true;
  size_t expected = 0;
  const auto timed = collector_.pids();
  for (const TrackedProcess* p : table_.living_ranks()) {
    if (std::find(timed.begin(), timed.end(), p->record.pid) != timed.end()) {
      tracing_->trace.expect(p->record.rank);
      ++expected;
    }
  }
  if (expected == 0) {
    end_trace("no rank uses a GPU");
    return;
  }
  tracing_->timer = loop_.after(tracing_->trace.request().timeout_s, [this] { end_trace("timeout"); });
}

void Supervisor::look_after_trace() {
  if (!tracing_ || !tracing_->begun) {
    return;
  }
  std::set<base::Rank> living;
  for (const TrackedProcess* p : table_.living_ranks()) {
    living.insert(p->record.rank);
  }
  if (tracing_->trace.complete(living)) {
    end_trace("complete");
  }
}

void Supervisor::end_trace(std::string_view how) {
  if (!tracing_) {
    return;
  }
  loop_.cancel(tracing_->timer);
  auto done = std::make_shared<Tracing>(std::move(*tracing_));
  tracing_.reset();
  set_level(level_);
  collector_.set_host_events(HostEvents::no);
  done->trace.flush();
  storage_.when_written(kPatienceS, [this, done, why = std::string(how)](Written) {
    done->trace.finish(why);
    base::log_info("trace {} ended: {}", done->dir, why);
    storage_.when_written(kPatienceS, [done, why](Written) {
      if (done->when_done) {
        done->when_done({{"ok", true}, {"dir", done->dir}, {"ended", why}});
      }
    });
  });
}

void Supervisor::control_trace(const nlohmann::json& request, const ControlServer::Reply& reply) {
  auto wanted = trace_request_from(request, base::wall_ns());
  if (!wanted) {
    reply({{"ok", false}, {"code", "bad_request"}, {"error", wanted.error().what}});
    return;
  }
  if (tracing_) {
    reply({{"ok", false},
           {"code", "busy"},
           {"error", fmt::format("{} is not finished; reset ends it", tracing_->dir)}});
    return;
  }
  const auto wait = request.find("wait");
  const bool waits = wait != request.end() && *wait == true;
  const auto dir = start_trace(std::move(*wanted), waits ? reply : ControlServer::Reply());
  if (!dir) {
    reply({{"ok", false}, {"code", "failed"}, {"error", base::to_line(dir.error())}});
  } else if (!waits) {
    reply({{"ok", true}, {"dir", *dir}, {"start_wall_ns", tracing_->trace.request().start_wall_ns}});
  }
}

// xpu_timer's answers, word for word.
void Supervisor::control_kernel_trace(const nlohmann::json& request, const ControlServer::Reply& reply) {
  nlohmann::json fields = request;
  fields.erase("cmd");
  auto wanted = kernel_trace_request_from(fields, base::wall_ns());
  if (!wanted) {
    reply({{"ok", false}, {"code", "bad_request"}, {"error", wanted.error().what}});
    return;
  }
  std::string said;
  if (wanted->reset) {
    said = tracing_ ? "Force reset dumping status" : "Resetting status, ignore";
    end_trace("reset");
  } else if (tracing_) {
    said = "The process is dumping, skip";
  } else {
    const auto dir = start_trace(std::move(wanted->trace), nullptr);
    if (!dir) {
      reply({{"ok", false}, {"code", "failed"}, {"error", base::to_line(dir.error())}});
      return;
    }
    said = "Starting dumping";
  }
  nlohmann::ordered_json answer{{"node", host_}, {"msg", said}};
  if (tracing_) {
    answer["dir"] = tracing_->dir;
  }
  reply(answer);
}

// The control socket's requests over HTTP; only if a port was asked for.
void Supervisor::start_control_http() {
  if (options_.control_port == kNoPort) {
    return;
  }
  if (options_.control_token) {
    auto token = make_token();
    if (!token) {
      base::log_warn("no control over HTTP: {}", base::to_line(token.error()));
      return;
    }
    auto written = std::make_shared<base::Status>(base::fail("the file system does not answer"));
    storage_.replace(journal_.dir().file(kTokenFile), *token + "\n",
                     [written](const base::Status& status) { *written = status; });
    // The job has not started yet. A token that nobody can read is useless.
    (void)storage_.drain(kPatienceS);
    if (!*written) {
      base::log_warn("no control over HTTP: {}", base::to_line(written->error()));
      return;
    }
    control_token_ = std::move(*token);
  }
  const int port = options_.control_port > 0 ? options_.control_port : kControlPort;
  if (const auto listening = control_http_.listen(port); !listening) {
    base::log_warn("no control over HTTP: {}", base::to_line(listening.error()));
    return;
  }
  journal_.manifest().control_url = fmt::format("http://127.0.0.1:{}", control_http_.port());
  const std::string how = options_.control_token
                              ? "the token is in " + journal_.dir().file(kTokenFile)
                              : std::string("without a token: every user of this host may ask");
  const std::string told = fmt::format("control at {}, {}", journal_.manifest().control_url, how);
  base::log_info("{}", told);
  if (options_.verbosity >= 0) {
    say(told);
  }
}

void Supervisor::answer_control_http(const HttpRequest& request, const HttpServer::Reply& reply) {
  const ControlCall call = control_call(request, control_token_);
  if (call.refused) {
    reply(*call.refused);
    return;
  }
  control(*call.request, [reply](const nlohmann::ordered_json& answer) { reply(control_response(answer)); });
}

}  // namespace xpurun::launcher
