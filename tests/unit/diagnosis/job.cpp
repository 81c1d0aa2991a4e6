#include "tests/unit/diagnosis/job.h"

#include <algorithm>

namespace xpurun::report::testing {

using model::Frame;
using model::FrameKind;

namespace {
constexpr const char* kTrain = "/home/u/train.py";
constexpr const char* kC10d = "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py";
constexpr double kNow = 60;
}  // namespace

Frame py(std::string func, std::string file, int line, std::string callee) {
  Frame f;
  f.kind = FrameKind::python;
  f.func = std::move(func);
  f.file = std::move(file);
  f.line = line;
  f.callee = std::move(callee);
  return f;
}

Frame native(std::string func, std::string module) {
  Frame f;
  f.func = std::move(func);
  f.module = std::move(module);
  return f;
}

Stack in_all_reduce(int line) {
  return {native("pthread_cond_wait", "libc.so.6"),
          native("gloo::transport::tcp::UnboundBuffer::waitRecv", "libgloo.so.0"),
          native("c10d::ProcessGroupGloo::AsyncWork::wait", "libtorch_cpu.so"),
          py("all_reduce", kC10d, 1287, "work.wait"),
          py("step", kTrain, line),
          py("<module>", kTrain, 90)};
}

Stack in_barrier(int line) {
  return {native("pthread_cond_wait", "libc.so.6"), py("barrier", kC10d, 2800, "work.wait"),
          py("step", kTrain, line), py("<module>", kTrain, 90)};
}

Stack in_ddp_backward() {
  return {native("pthread_cond_wait", "libc.so.6"),
          native("c10d::ProcessGroupGloo::AsyncWork::wait", "libtorch_cpu.so"),
          native("c10d::Reducer::finalize_backward", "libtorch_cpu.so"),
          native("torch::autograd::Engine::execute", "libtorch_cpu.so"),
          py("backward", "/usr/lib/python3/dist-packages/torch/autograd/__init__.py", 197),
          py("Tensor.backward", "/usr/lib/python3/dist-packages/torch/_tensor.py", 487),
          py("step", kTrain, 40),
          py("<module>", kTrain, 90)};
}

Stack in_sleep() {
  return {native("clock_nanosleep", "libc.so.6"), native("time_sleep", "python3.11"),
          py("load_batch", kTrain, 31, "time.sleep"), py("<module>", kTrain, 90)};
}

Stack in_lock() {
  return {native("sem_wait", "libc.so.6"), native("PyThread_acquire_lock_timed", "python3.11"),
          py("save_state", kTrain, 66, "lock.acquire"), py("<module>", kTrain, 90)};
}

Stack in_queue() {
  return {native("sem_wait", "libc.so.6"),
          native("PyThread_acquire_lock_timed", "python3.11"),
          py("Condition.wait", "/usr/lib/python3.11/threading.py", 320, "waiter.acquire"),
          py("Queue.get", "/usr/lib/python3.11/queue.py", 171),
          py("next_item", kTrain, 70),
          py("<module>", kTrain, 90)};
}

Stack in_compute() {
  return {native("dgemm_kernel", "libblas.so.3"), py("compute", kTrain, 12), py("<module>", kTrain, 90)};
}

Stack in_dataloader() {
  const char* loader = "/usr/lib/python3/dist-packages/torch/utils/data/dataloader.py";
  return {native("poll", "libc.so.6"),
          py("Connection.poll", "/usr/lib/python3.11/multiprocessing/connection.py", 257),
          py("_MultiProcessingDataLoaderIter._try_get_data", loader, 1132),
          py("_MultiProcessingDataLoaderIter._next_data", loader, 1315),
          py("batches", kTrain, 25),
          py("<module>", kTrain, 90)};
}

Job::Job(int ranks) {
  facts.run.host = "a";
  facts.run.hang_timeout_s = 10;
  facts.run.world_size = ranks;
  facts.run.elapsed_s = kNow;
  facts.run.main_pid = kAgentPid;
  facts.run.supervisor_pid = 40;
  facts.run.command = {"torchrun", "train.py"};
  model::ProcessRecord agent;
  agent.pid = kAgentPid;
  agent.role = model::ProcessRole::agent;
  agent.comm = "torchrun";
  facts.run.processes.push_back(agent);
  for (base::Rank r = 0; r < ranks; ++r) {
    model::ProcessRecord p;
    p.pid = pid_of(r);
    p.ppid = kAgentPid;
    p.role = model::ProcessRole::rank;
    p.rank = r;
    p.comm = "python3";
    p.python = true;
    p.seen_s = 1;
    facts.run.processes.push_back(p);
  }
}

Job& Job::all(const Stack& stack, double seconds) {
  for (base::Rank r = 0; r < facts.run.world_size; ++r) {
    rank(r, stack, seconds);
  }
  return *this;
}

void Job::dump(model::DumpReason why) {
  if (!facts.dump) {
    facts.dump.emplace();
    facts.dump->host = "a";
    facts.dump->hang_timeout_s = 10;
    facts.dump->spread_ns = 8'300'000;
    facts.dump->n = 1;
  }
  facts.dump->why = why;
  facts.dump_dir = "dumps/1-" + std::string(name_of(why));
}

model::RankObservation& Job::seen(base::Rank r) {
  dump(facts.dump ? facts.dump->why : model::DumpReason::hang);
  auto& ranks = facts.dump->ranks;
  const auto it = std::find_if(ranks.begin(), ranks.end(), [&](const auto& o) { return o.rank == r; });
  if (it != ranks.end()) {
    return *it;
  }
  model::RankObservation o;
  o.rank = r;
  o.pid = pid_of(r);
  o.host = "a";
  o.state = 'S';
  o.window_s = 5;
  ranks.push_back(o);
  return ranks.back();
}

model::ProcessStacks& Job::stacks_of(base::Rank r) {
  const auto it = std::find_if(facts.stacks.begin(), facts.stacks.end(), [&](const auto& s) {
    return s.rank == r && s.role == model::ProcessRole::rank;
  });
  if (it != facts.stacks.end()) {
    return *it;
  }
  model::ProcessStacks s;
  s.host = "a";
  s.pid = pid_of(r);
  s.rank = r;
  s.role = model::ProcessRole::rank;
  s.pause_ns = 1'200'000;
  model::ThreadStack t;
  t.tid = s.pid;
  t.main = true;
  t.state = 'S';
  s.threads.push_back(t);
  facts.stacks.push_back(s);
  return facts.stacks.back();
}

model::ProcessRecord& Job::record(base::Rank r) {
  return *std::find_if(facts.run.processes.rbegin(), facts.run.processes.rend(),
                       [&](const auto& p) { return p.role == model::ProcessRole::rank && p.rank == r; });
}

Job& Job::rank(base::Rank r, const Stack& stack, double seconds) {
  model::RankObservation& o = seen(r);
  o.still_s = seconds;
  const auto top =
      std::find_if(stack.begin(), stack.end(), [](const Frame& f) { return f.kind == FrameKind::python; });
  if (top != stack.end()) {
    o.has_python = true;
    o.function = top->func;
    o.file = top->file;
    o.line = top->line;
  }
  stacks_of(r).threads.front().frames = stack;
  auto& listed = facts.dump->processes;
  if (std::none_of(listed.begin(), listed.end(), [&](const auto& p) { return p.rank == r; })) {
    listed.push_back({.pid = pid_of(r),
                      .rank = r,
                      .role = model::ProcessRole::rank,
                      .status = model::DumpStatus::ok,
                      .reason = "",
                      .pause_ns = 1'200'000,
                      .file = ""});
  }
  return *this;
}

Job& Job::cpu(base::Rank r, double share) {
  seen(r).main_cpu_share = share;
  seen(r).cpu_share = share;
  return *this;
}

Job& Job::io(base::Rank r, double bytes_per_s) {
  seen(r).io_bytes_per_s = bytes_per_s;
  return *this;
}

Job& Job::kernel_state(base::Rank r, char state) {
  seen(r).state = state;
  stacks_of(r).threads.front().state = state;
  return *this;
}

Job& Job::unreadable(base::Rank r, const std::string& reason) {
  std::erase_if(facts.stacks, [&](const auto& s) { return s.rank == r; });
  for (auto& p : facts.dump->processes) {
    if (p.rank == r) {
      p.status = model::DumpStatus::failed;
      p.reason = reason;
    }
  }
  return *this;
}

Job& Job::no_position(base::Rank r) {
  seen(r).has_python = false;
  seen(r).function.clear();
  seen(r).file.clear();
  return *this;
}

Job& Job::died(base::Rank r, int wait_status, double at_s, const std::string& cause_hint) {
  const auto deaths = std::count_if(facts.run.processes.begin(), facts.run.processes.end(),
                                    [](const auto& p) { return p.death.happened; });
  record(r).death = {.happened = true,
                     .order = static_cast<int>(deaths) + 1,
                     .at_s = at_s,
                     .wait_status = base::WaitStatus(wait_status),
                     .cause_hint = cause_hint,
                     .follower = !cause_hint.empty()};
  if (facts.dump && facts.dump->why == model::DumpReason::hang) {
    model::RankObservation& o = seen(r);
    o.alive = false;
    o.wait_status = base::WaitStatus(wait_status);
    o.dead_s = kNow - at_s;
    std::erase_if(facts.stacks, [&](const auto& s) { return s.rank == r; });
  }
  return *this;
}

Job& Job::notice(base::Rank r, int signal, double at_s, base::Pid sender, uint64_t address) {
  model::CrashNotice n;
  n.pid = pid_of(r);
  n.tid = n.pid;
  n.rank = r;
  n.signal = signal;
  n.sender = sender;
  n.address = address;
  n.at_s = at_s;
  facts.run.crashes.push_back(n);
  return *this;
}

Job& Job::agent_died(int wait_status, double at_s) {
  facts.run.processes.front().death = {
      .happened = true, .at_s = at_s, .wait_status = base::WaitStatus(wait_status)};
  return *this;
}

Job& Job::worker(base::Rank r, const Stack& stack) {
  model::ProcessStacks s;
  s.pid = 900 + r;
  s.rank = r;
  s.role = model::ProcessRole::worker;
  model::ThreadStack t;
  t.main = true;
  t.frames = stack;
  s.threads.push_back(t);
  facts.stacks.push_back(s);
  return *this;
}

Job& Job::hang_dump() {
  dump(model::DumpReason::hang);
  model::Stall i;
  i.n = 1;
  i.at_s = kNow;
  i.dump = facts.dump_dir;
  facts.run.stalls.push_back(i);
  facts.run.dumps.push_back({.n = 1, .why = model::DumpReason::hang, .dir = facts.dump_dir, .at_s = kNow});
  return *this;
}

Job& Job::hang_dump_escalated() {
  hang_dump();
  facts.dump->escalated = true;
  return *this;
}

Job& Job::ended_as_hang() {
  hang_dump();
  facts.run.outcome = model::RunOutcome::hang;
  facts.run.exit_status = 124;
  return *this;
}

Job& Job::ended(int child_status) {
  facts.run.child_status = base::WaitStatus(child_status);
  facts.run.outcome = facts.run.child_status.signaled() ? model::RunOutcome::signal : model::RunOutcome::exit;
  return *this;
}

Job& Job::leaked(base::Rank rank, int64_t bytes, int64_t grown) {
  model::MemoryLook look;
  look.rank = rank;
  look.why = model::LookReason::heap;
  look.window_us = 60'000'000;
  look.steps = 100;
  look.places = {{.file = "/home/u/train.py", .line = 55, .function = "append_loss"}};
  model::MemoryHolder holder;
  holder.device = "host";
  holder.category = model::MemoryCategory::heap;
  holder.bytes = bytes;
  holder.grown = grown;
  holder.site = {0};
  look.holders.push_back(holder);
  look.devices.push_back({.name = "host", .allocated = bytes});
  facts.memory.push_back(std::move(look));
  return *this;
}

Job& Job::crash_dump() {
  dump(model::DumpReason::crash);
  for (auto& n : facts.run.crashes) {
    n.dump = facts.dump_dir;
  }
  facts.run.dumps.push_back({.n = 1,
                             .why = model::DumpReason::crash,
                             .dir = facts.dump_dir,
                             .at_s = facts.run.crashes.front().at_s});
  auto& frames = stacks_of(facts.run.crashes.front().rank).threads.front();
  frames.crashed = true;
  return *this;
}

}  // namespace xpurun::report::testing
