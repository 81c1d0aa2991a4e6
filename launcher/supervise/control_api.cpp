#include "launcher/supervise/control_api.h"

#include "common/base/clock.h"
#include "common/base/os/random.h"
#include "common/base/strings.h"
#include "common/model/json/json_text.h"
#include "common/model/json_fields.h"
#include "common/model/timing/op_names.h"
#include "launcher/control/control_http.h"
#include "launcher/control/trace_request.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

namespace xpurun::launcher {

namespace {

using nlohmann::ordered_json;

constexpr double kTokenPatienceS = 2;
// Ranks follow a change of the traced functions at the end of their next span.
constexpr double kTracedPatienceS = 2;
constexpr double kTracedLookS = 0.1;
// A dump of a node with many processes on loaded CPUs. Less than xpurun ctl waits.
constexpr double kNodeDumpS = 280;
// For the steps of a look at the memory, in the job.
constexpr double kLookPatienceS = 60;
constexpr int64_t kMostLookSteps = 1000;
// For the begin of a capture and for its files, in addition to its duration.
constexpr double kCaptureEndS = 25;

ordered_json refusal(const char* code, const std::string& error) {
  return {{"ok", false}, {"code", code}, {"error", error}};
}

// For the answer of another node. A dump and a capture are answered at their end, and so is a trace if the
// request says so; a wrong request is answered at once.
double answer_limit_s(const nlohmann::json& request) {
  if (request["cmd"] == "capture") {
    // The duration of a step on the other node is not known.
    const auto capture = capture_request_from(request, kLongestCaptureS);
    return kAnswerTimeoutS + (capture ? capture->seconds + kCaptureEndS : 0);
  }
  if (request["cmd"] == "dump") {
    return kAnswerTimeoutS + kNodeDumpS;
  }
  const int64_t now = base::wall_ns();
  const nlohmann::json* wait = model::member(request, "wait");
  if (request["cmd"] == "trace" && wait != nullptr && *wait == true) {
    if (const auto trace = trace_request_from(request, now)) {
      const int64_t start = std::max(trace->start_wall_ns, now);
      return kAnswerTimeoutS + base::ns_to_s(start - now) + trace->timeout_s;
    }
  }
  return kAnswerTimeoutS;
}

// A list of names; empty if the member is missing, an error if it is anything else.
base::Result<std::vector<std::string>> names_in(const nlohmann::json& request, const char* key) {
  std::vector<std::string> out;
  const nlohmann::json* list = model::member(request, key);
  if (list == nullptr) {
    return out;
  }
  const bool fits = list->is_array() &&
                    std::all_of(list->begin(), list->end(), [](const auto& one) { return one.is_string(); });
  if (!fits) {
    return base::fail(fmt::format("\"{}\" must be a list of names, such as [\"train:collate\"]", key));
  }
  for (const nlohmann::json& one : *list) {
    out.push_back(one.get<std::string>());
  }
  return out;
}

ordered_json answer_of(const TracedState& state) {
  ordered_json functions = ordered_json::array();
  for (const TracedState::Function& f : state.functions) {
    functions.push_back(
        {{"name", f.name}, {"problem", f.problem ? ordered_json(name_of(*f.problem)) : ordered_json()}});
  }
  ordered_json ranks = ordered_json::array();
  for (const TracedState::OfRank& r : state.ranks) {
    constexpr const char* kWords[] = {"yes", "pending", "no_spans"};
    ranks.push_back({{"rank", r.rank}, {"follows", kWords[static_cast<size_t>(r.follows)]}});
  }
  return {{"ok", true}, {"functions", std::move(functions)}, {"ranks", std::move(ranks)}};
}

}  // namespace

ControlApi::ControlApi(Parts parts, std::string run_dir, std::string host, Hooks hooks)
    : parts_(parts),
      run_dir_(std::move(run_dir)),
      host_(std::move(host)),
      hooks_(std::move(hooks)),
      server_(parts.loop, [this](const nlohmann::json& request,
                                 const ControlServer::Reply& reply) { handle(request, reply); }),
      http_(parts.loop, [this](const HttpRequest& request, const HttpServer::Reply& reply) {
        handle_http(request, reply);
      }) {}

std::string ControlApi::token_path() const {
  return run_dir_ + "/control.token";
}

base::Status ControlApi::listen_http() {
  if (parts_.options.control_token) {
    // Through the storage process, because a stalled file system must not block the start of the job.
    XPURUN_TRY_ASSIGN(std::string token, base::random_token());
    auto written = std::make_shared<base::Status>(base::fail("the file system does not answer"));
    parts_.storage.replace(token_path(), token + "\n",
                           [written](const base::Status& status) { *written = status; });
    (void)parts_.storage.drain(kTokenPatienceS);
    XPURUN_TRY(std::move(*written));
    token_ = std::move(token);
  }
  return http_.listen(parts_.options.control_port > 0 ? parts_.options.control_port : kControlPort);
}

std::string ControlApi::url() const {
  return http_.port() == 0 ? "" : fmt::format("http://127.0.0.1:{}", http_.port());
}

std::string ControlApi::how_to_ask() const {
  return token_.empty() ? std::string("without a token: every user of this host may ask")
                        : "the token is in " + token_path();
}

void ControlApi::handle_text(const std::string& request, const std::function<void(std::string)>& reply) {
  nlohmann::json parsed = model::parse_json(request);
  const nlohmann::json* cmd = parsed.is_object() ? model::member(parsed, "cmd") : nullptr;
  if (cmd == nullptr || !cmd->is_string()) {
    reply(model::json_text(refusal("bad_request", "not a JSON object with \"cmd\"")));
    return;
  }
  parsed.erase("node");  // the request has reached its node
  handle(parsed,
         [this, reply](const ordered_json& answer) { reply(model::json_text(with_run_dir(answer))); });
}

// A client of another node does not know where this node's run directory is.
ordered_json ControlApi::with_run_dir(ordered_json answer) const {
  if (answer.contains("dir")) {
    std::error_code ec;
    answer["run_dir"] = std::filesystem::absolute(run_dir_, ec).lexically_normal().string();
  }
  return answer;
}

// The name of the node that `text` means: a name, a number, or a host with only one node. Otherwise `text`
// itself, which another node may know.
std::string ControlApi::node_named(const std::string& text) const {
  const NodeList list = hooks_.nodes();
  const auto only = [&list](const auto& fits) {
    const auto n = std::count_if(list.nodes.begin(), list.nodes.end(), fits);
    return n == 1 ? std::find_if(list.nodes.begin(), list.nodes.end(), fits)->node : std::string();
  };
  std::string found = only([&](const ListedNode& n) { return n.node == text; });
  if (found.empty()) {
    found = only([&](const ListedNode& n) { return std::to_string(n.node_rank) == text; });
  }
  if (found.empty()) {
    found = only([&](const ListedNode& n) { return n.host == text; });
  }
  return found.empty() ? text : found;
}

void ControlApi::ask_nodes(const nlohmann::json& request, const std::string& whom,
                           const ControlServer::Reply& reply) {
  struct Answers {
    ordered_json list = ordered_json::array();
    // Counted down from 2 for all nodes: the answers of the others, and this node's own.
    int missing = 0;
  };
  nlohmann::json bare = request;
  bare.erase("node");
  const std::string own = hooks_.nodes().node;
  const bool all = whom == "all";
  const std::string node = all ? whom : node_named(whom);
  if (!all && (node == own || node.empty())) {
    handle(bare, reply);
    return;
  }
  const auto answers = std::make_shared<Answers>();
  const auto arrived = [answers, reply] {
    if (--answers->missing == 0) {
      reply({{"ok", true}, {"answers", std::move(answers->list)}});
    }
  };
  answers->missing = all ? 2 : 1;
  hooks_.ask(
      {.node = all ? "" : node,
       .verb = bare["cmd"].get<std::string>(),
       .arguments = model::json_text(bare),
       .limit_s = answer_limit_s(bare)},
      [answers, arrived](const std::vector<AnswersMessage>& others) {
        for (const AnswersMessage& a : others) {
          const auto body = model::parse_json(a.body);
          answers->list.push_back({{"node", a.node},
                                   {"status", a.status},
                                   {"reply", body.is_discarded() ? ordered_json() : ordered_json(body)}});
        }
        arrived();
      });
  if (all) {
    handle(bare, [this, answers, arrived, own](const ordered_json& answer) {
      answers->list.push_back({{"node", own}, {"status", 200}, {"reply", with_run_dir(answer)}});
      arrived();
    });
  }
}

void ControlApi::handle(const nlohmann::json& request, const ControlServer::Reply& reply) {
  const auto cmd = request["cmd"].get<std::string>();
  if (const auto node = request.find("node"); node != request.end() && node->is_string()) {
    ask_nodes(request, node->get<std::string>(), reply);
    return;
  }
  if (cmd == "dump") {
    if (hooks_.job_is_ending()) {
      reply(refusal("ending", "the job is ending"));
      return;
    }
    hooks_.dump([reply](const std::string& dir) { reply({{"ok", true}, {"dir", dir}}); });
  } else if (cmd == "status") {
    report_status(request, reply);
  } else if (cmd == "nodes") {
    ordered_json answer{{"ok", true}};
    answer.update(to_json(hooks_.nodes()));
    reply(answer);
  } else if (cmd == "timing") {
    set_level(request, reply);
  } else if (cmd == "trace" || cmd == "DumpKernelTrace") {
    if (hooks_.job_has_ended()) {
      reply(refusal("ending", "the job is ending"));
    } else if (cmd == "trace") {
      start_trace(request, reply);
    } else {
      start_kernel_trace(request, reply);
    }
  } else if (cmd == "capture") {
    start_capture(request, reply);
  } else if (cmd == "trace-python") {
    trace_python(request, reply);
  } else if (cmd == "memory") {
    look_at_memory(request, reply);
  } else if (cmd == "reset") {
    parts_.timing.trace().end("reset");
    parts_.timing.set_level(parts_.timing.default_level());
    reply({{"ok", true}, {"level", model::level_name(parts_.timing.level())}});
  } else {
    reply(refusal(
        "bad_request",
        fmt::format(
            "unknown request '{}'; there are status, nodes, timing, dump, trace, capture, trace-python, "
            "memory and reset",
            base::sanitize(cmd))));
  }
}

// "job": the status covers the ranks of all nodes. "here": another node asks, so this node must not ask
// further nodes.
void ControlApi::report_status(const nlohmann::json& request, const ControlServer::Reply& reply) {
  const auto is_set = [&](const char* flag) {
    const auto found = request.find(flag);
    return found != request.end() && *found == true;
  };
  const auto report = [reply](const LiveStatus& status) {
    ordered_json answer{{"ok", true}};
    answer.update(to_json(status));
    reply(answer);
  };
  const std::string informed = is_set("job") && !is_set("here") ? hooks_.better_informed() : "";
  if (informed.empty()) {
    LiveStatus status = hooks_.status();
    if (is_set("job")) {
      hooks_.complete(status);
    }
    report(status);
    return;
  }
  const ordered_json question = {{"cmd", "status"}, {"job", true}, {"here", true}};
  AskMessage ask{.node = informed, .verb = "status", .arguments = model::json_text(question)};
  hooks_.ask(std::move(ask), [this, report](const std::vector<AnswersMessage>& answers) {
    LiveStatus status = hooks_.status();
    const auto other = answers.empty() ? base::Result<LiveStatus>(base::fail("no answer"))
                                       : live_status_from_json(answers.front().body);
    if (other && !other->host.empty()) {
      add_other_ranks(*other, status);
    } else {
      hooks_.complete(status);
    }
    report(status);
  });
}

void ControlApi::set_level(const nlohmann::json& request, const ControlServer::Reply& reply) {
  const auto level = request.find("level");
  const std::string name = level != request.end() && level->is_string() ? level->get<std::string>() : "";
  const auto known = model::level_from_name(name);
  if (!known) {
    reply(refusal("bad_request", "\"level\" must be off, light or full"));
    return;
  }
  parts_.timing.set_level(*known);
  reply({{"ok", true}, {"level", name}});
}

void ControlApi::start_capture(const nlohmann::json& request, const ControlServer::Reply& reply) {
  if (hooks_.job_is_ending()) {
    reply(refusal("ending", "the job is ending"));
    return;
  }
  auto wanted = capture_request_from(request, hooks_.step_s());
  if (!wanted) {
    reply(refusal("bad_request", wanted.error().what));
    return;
  }
  const auto is_wanted = [&](const LiveRank& r) { return wanted->ranks.contains(r.rank); };
  if (!wanted->ranks.empty()) {
    const std::vector<LiveRank> ranks = hooks_.status().ranks;
    if (std::none_of(ranks.begin(), ranks.end(), is_wanted)) {
      reply(refusal("no_ranks", "this node has none of the ranks " + wanted->ranks.brief()));
      return;
    }
  }
  const auto wait = request.find("wait");
  const bool waits = wait == request.end() || *wait != false;
  CaptureRunner::Done done;
  if (waits) {
    done = [reply](const std::string& dir, const std::string& problem) {
      reply(problem.empty() ? ordered_json{{"ok", true}, {"dir", dir}} : refusal("failed", problem));
    };
  }
  const auto begun = hooks_.capture(*wanted, std::move(done));
  if (!begun) {
    reply(refusal("busy", begun.error().what));
  } else if (!waits) {
    reply({{"ok", true}, {"dir", *begun}});
  }
}

void ControlApi::trace_python(const nlohmann::json& request, const ControlServer::Reply& reply) {
  const auto add = names_in(request, "add");
  const auto remove = names_in(request, "remove");
  if (!add || !remove) {
    reply(refusal("bad_request", (add ? remove : add).error().what));
    return;
  }
  if (add->empty() && remove->empty()) {
    reply(answer_of(hooks_.traced()));
    return;
  }
  if (hooks_.job_has_ended()) {
    reply(refusal("ending", "the job is ending"));
    return;
  }
  if (const auto changed = hooks_.change_traced(*add, *remove); !changed) {
    reply(refusal("bad_request", changed.error().what));
    return;
  }
  report_traced(parts_.loop.now() + base::s_to_ns(kTracedPatienceS), reply);
}

void ControlApi::look_at_memory(const nlohmann::json& request, const ControlServer::Reply& reply) {
  if (hooks_.job_is_ending()) {
    reply(refusal("ending", "the job is ending"));
    return;
  }
  LookOrder order;
  double patience_s = kLookPatienceS;
  try {
    order = {.reason = wire::kMemoryRequest,
             .steps = static_cast<uint32_t>(
                 std::clamp<int64_t>(model::integer<int64_t>(request, "steps", 0), 0, kMostLookSteps)),
             .objects = request.value("objects", false)};
    patience_s = std::clamp(request.value("timeout_s", patience_s), 1.0, kLongestCaptureS);
  } catch (const nlohmann::json::exception& e) {
    reply(refusal("bad_request", base::sanitize(e.what())));
    return;
  }
  const auto asked = hooks_.look(order, patience_s, [reply](const LookAnswer& answer) {
    reply({{"ok", true},
           {"answered", answer.answered.text()},
           {"silent", answer.silent.text()},
           {"unreachable", answer.unreachable.text()}});
  });
  if (!asked) {
    reply(refusal("busy", asked.error().what));
  }
}

// Answers once no rank is pending, or at `until`. Always one interval later, so that problems that the ranks
// report with the change are included.
void ControlApi::report_traced(base::MonoNs until, const ControlServer::Reply& reply) {
  const TracedState before = hooks_.traced();
  const bool pending = std::any_of(before.ranks.begin(), before.ranks.end(),
                                   [](const auto& r) { return r.follows == FollowsList::pending; });
  parts_.loop.after(kTracedLookS, [this, until, reply, again = pending && parts_.loop.now() < until] {
    again ? report_traced(until, reply) : reply(answer_of(hooks_.traced()));
  });
}

void ControlApi::start_trace(const nlohmann::json& request, const ControlServer::Reply& reply) {
  TraceSession& trace = parts_.timing.trace();
  auto wanted = trace_request_from(request, base::wall_ns());
  if (!wanted) {
    reply(refusal("bad_request", wanted.error().what));
    return;
  }
  if (trace.active()) {
    reply(refusal("busy", fmt::format("{} is not finished; reset ends it", trace.dir())));
    return;
  }
  const auto wait = request.find("wait");
  const bool waits = wait != request.end() && *wait == true;
  TraceSession::Ended ended;
  if (waits) {
    ended = [reply](const std::string& dir, const std::string& how) {
      reply({{"ok", true}, {"dir", dir}, {"ended", how}});
    };
  }
  trace.start(std::move(*wanted), std::move(ended));
  if (!waits) {
    reply({{"ok", true}, {"dir", trace.dir()}, {"start_wall_ns", trace.start_wall_ns()}});
  }
}

// The texts are those of xpu_timer, word for word, for its clients.
void ControlApi::start_kernel_trace(const nlohmann::json& request, const ControlServer::Reply& reply) {
  TraceSession& trace = parts_.timing.trace();
  nlohmann::json fields = request;
  fields.erase("cmd");
  auto wanted = kernel_trace_request_from(fields, base::wall_ns());
  if (!wanted) {
    reply(refusal("bad_request", wanted.error().what));
    return;
  }
  std::string said;
  if (wanted->reset) {
    said = trace.active() ? "Force reset dumping status" : "Resetting status, ignore";
    trace.end("reset");
  } else if (trace.active()) {
    said = "The process is dumping, skip";
  } else {
    trace.start(std::move(wanted->trace), nullptr);
    said = "Starting dumping";
  }
  ordered_json answer{{"node", host_}, {"msg", said}};
  if (trace.active()) {
    answer["dir"] = trace.dir();
  }
  reply(answer);
}

void ControlApi::handle_http(const HttpRequest& request, const HttpServer::Reply& reply) {
  const ControlCall call = control_call(request, token_);
  if (call.refused) {
    reply(*call.refused);
    return;
  }
  handle(*call.request, [reply](const ordered_json& answer) { reply(control_response(answer)); });
}

}  // namespace xpurun::launcher
