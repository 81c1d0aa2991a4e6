// ControlApi: the requests that other programs send to a running supervisor, over its control socket and, on
// request, over HTTP on the loopback interface. docs/control.md describes requests and replies. Event loop's
// thread only.
#pragma once

#include "launcher/capture/capture_runner.h"
#include "launcher/control/control_server.h"
#include "launcher/http/http_server.h"
#include "launcher/nodes/node_questions.h"
#include "launcher/options/run_options.h"
#include "launcher/os/event_loop.h"
#include "launcher/output/live_status.h"
#include "launcher/output/node_list.h"
#include "launcher/spans/memory_looks.h"
#include "launcher/spans/traced_names.h"
#include "launcher/storage/storage.h"
#include "launcher/timing/timing_service.h"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <string>
#include <vector>

namespace xpurun::launcher {

class ControlApi {
 public:
  struct Parts {
    EventLoop& loop;
    Storage& storage;
    TimingService& timing;
    const RunOptions& options;
  };
  struct Hooks {
    std::function<bool()> job_has_ended;  // the command has ended
    std::function<bool()> job_is_ending;  // the command has ended, or xpurun is ending the job
    std::function<LiveStatus()> status;
    // Adds the ranks of other nodes. The second returns the node that knows more of them; empty if none does.
    std::function<void(LiveStatus&)> complete;
    std::function<std::string()> better_informed;
    // Takes a dump, then calls `done` with its directory, relative to the run directory.
    std::function<void(std::function<void(const std::string& dir)> done)> dump;
    // Begins a capture, then calls `done` with its directory and the reason if there is no profile. The error
    // says why no capture began.
    std::function<base::Result<std::string>(CaptureRequest request, CaptureRunner::Done done)> capture;
    // The functions that Python traces: changes the list; returns the list and which ranks follow it.
    std::function<base::Status(const std::vector<std::string>& add, const std::vector<std::string>& remove)>
        change_traced;
    std::function<TracedState()> traced;
    // Asks the ranks for a look at their memory.
    std::function<base::Status(const LookOrder& order, double patience_s, MemoryLooks::Done done)> look;
    std::function<double()> step_s;  // mean duration of the last steps; negative: no step was seen
    std::function<NodeList()> nodes;
    // Sends a request to another node or to all others.
    std::function<void(AskMessage question, NodeQuestions::Done done)> ask;
  };

  ControlApi(Parts parts, std::string run_dir, std::string host, Hooks hooks);
  ControlApi(const ControlApi&) = delete;
  ControlApi& operator=(const ControlApi&) = delete;

  base::Status listen(const std::string& socket_path) { return server_.listen(socket_path); }
  // Writes the token first, if requested, and waits at most 2 s for the disk: a token that nobody can read is
  // useless. Call before the job starts.
  base::Status listen_http();
  // "http://127.0.0.1:18888"; empty until it listens.
  std::string url() const;
  // Where the token is, or that there is no token.
  std::string how_to_ask() const;

  // Handles one request. `reply` is called once, now or later.
  void handle(const nlohmann::json& request, const ControlServer::Reply& reply);
  // The same for a request as text, from another node.
  void handle_text(const std::string& request, const std::function<void(std::string)>& reply);
  void handle_http(const HttpRequest& request, const HttpServer::Reply& reply);

 private:
  void ask_nodes(const nlohmann::json& request, const std::string& whom, const ControlServer::Reply& reply);
  std::string node_named(const std::string& text) const;
  nlohmann::ordered_json with_run_dir(nlohmann::ordered_json answer) const;
  void report_status(const nlohmann::json& request, const ControlServer::Reply& reply);
  void set_level(const nlohmann::json& request, const ControlServer::Reply& reply);
  void start_capture(const nlohmann::json& request, const ControlServer::Reply& reply);
  void trace_python(const nlohmann::json& request, const ControlServer::Reply& reply);
  void look_at_memory(const nlohmann::json& request, const ControlServer::Reply& reply);
  void report_traced(base::MonoNs until, const ControlServer::Reply& reply);
  void start_trace(const nlohmann::json& request, const ControlServer::Reply& reply);
  void start_kernel_trace(const nlohmann::json& request, const ControlServer::Reply& reply);
  std::string token_path() const;

  Parts parts_;
  std::string run_dir_;
  std::string host_;
  Hooks hooks_;
  std::string token_;  // empty: requests need no token
  ControlServer server_;
  HttpServer http_;
};

}  // namespace xpurun::launcher
