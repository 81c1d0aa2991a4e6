#include "report/diagnosis/ends/exceptions.h"

#include "common/base/output/opening_words.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/frame_text.h"
#include "report/diagnosis/ends/origin.h"
#include "report/diagnosis/waits/code_place.h"
#include "report/diagnosis/waits/wait_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace xpurun::report {

using base::later;
using base::tr;
using model::ExceptionKind;
using model::ExceptionLink;
using model::PythonException;

namespace {

constexpr size_t kHeadlineColumns = 160;
constexpr std::string_view kTracebackBegin = "Traceback (most recent call last):";
constexpr size_t kMostLines = 4;    // of a traceback
constexpr size_t kMostMembers = 4;  // of an exception group
constexpr size_t kColumns = 100;
// A device-side assert surfaces in any later call: the message matters, the position does not.
constexpr std::string_view kDeviceAssert = "CUDA error: device-side assert triggered";

// Messages of a parent about a failed child, or of a launcher that a signal has ended. The record of the
// child, or the death by the signal, has the cause.
constexpr std::array<std::string_view, 4> kConsequences = {
    "torch.distributed.elastic.multiprocessing.api.SignalException",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError",
    "torch.multiprocessing.spawn.ProcessRaisedException",
    "torch.multiprocessing.spawn.ProcessExitedException"};

constexpr std::array<std::string_view, 3> kPeerIsGone = {"Connection closed by peer",
                                                         "Connection reset by peer", "Broken pipe"};
// Of gloo, of monitored_barrier, and of the thread that watches NCCL's calls.
constexpr std::array<std::string_view, 5> kTimeouts = {
    "Timed out waiting", "Application timeout caused pair closure", "monitoredBarrier",
    "Watchdog caught collective operation timeout", "NCCL communicator was aborted"};

bool is_consequence(const PythonException& x) {
  const std::string& type = x.chain.front().type;
  return std::find(kConsequences.begin(), kConsequences.end(), type) != kConsequences.end();
}

// The kernel may have reused the pid before or after.
bool is_of(const PythonException& x, const model::ProcessRecord& p) {
  return x.pid == p.pid && x.node == p.node && x.at_s + 60 >= p.seen_s &&
         (!p.death.happened || x.at_s <= p.death.at_s + 5);
}

bool gave_the_status(const PythonException& x, const model::ProcessRecord& p) {
  const base::WaitStatus status = p.death.wait_status;
  return !is_exception(x.kind) && p.death.happened && status.exited() && status.exit_code() == x.code;
}

// Innermost first.
std::vector<model::Frame> frames_of(const ExceptionLink& link) {
  std::vector<model::Frame> frames;
  for (auto it = link.frames.rbegin(); it != link.frames.rend(); ++it) {
    frames.push_back(
        {.kind = model::FrameKind::python, .func = it->function, .file = it->file, .line = it->line});
  }
  return frames;
}

model::CodeLocation place_in(const ExceptionLink& link) {
  return place_of(frames_of(link));
}

// Whether the link's position is outside of frameworks.
bool has_place(const ExceptionLink& link) {
  const model::CodeLocation where = place_in(link);
  return !where.function.empty() && owner_of(where.file) != CodeOwner::framework;
}

// A library that has caught an exception of the user's code and calls sys.exit()
// (torch.multiprocessing.spawn): that exception; else null.
const ExceptionLink* caught_by_library(const PythonException& exception) {
  const auto& chain = exception.chain;
  const bool caught = !model::is_exception(exception.kind) && chain.size() > 1 && !has_place(chain[0]) &&
                      chain[1].relation == model::Relation::context && has_place(chain[1]);
  return caught ? &chain[1] : nullptr;
}

// " at data.py:21 (in collate)", or empty.
std::string at_place(const model::CodeLocation& where) {
  if (where.file.empty()) {
    return "";
  }
  const std::string file = base::sanitize(model::source_name(where.file));
  return tr(" at {}:{} (in {})", file, where.line, base::sanitize(where.function));
}

std::string memory_words(const model::OutOfMemory& o) {
  std::vector<std::string> parts;
  const auto add = [&](const std::optional<uint64_t>& bytes, std::string_view what) {
    if (bytes) {
      parts.push_back(tr("{} {}", base::human_size(*bytes), tr(what)));
    }
  };
  add(o.asked, later("asked for"));
  add(o.free, later("free"));
  add(o.total, later("in all"));
  add(o.allocated, later("allocated by PyTorch"));
  add(o.reserved, later("reserved and unused"));
  add(o.largest, later("in the largest free block"));
  if (o.others) {
    parts.push_back(tr("{} in other processes, most in pid {}", base::human_size(*o.others), o.other));
  }
  return base::join(parts, tr(", "));
}

// In any message of the chain.
bool says(const PythonException& exception, std::string_view words) {
  return std::any_of(exception.chain.begin(), exception.chain.end(), [&](const ExceptionLink& link) {
    return link.message.find(words) != std::string::npos;
  });
}

// "yaml" in the message "No module named 'yaml'".
std::string quoted_in(std::string_view message) {
  const size_t begin = message.find('\'');
  const size_t end = begin == std::string_view::npos ? begin : message.find('\'', begin + 1);
  return end == std::string_view::npos ? std::string()
                                       : base::sanitize(message.substr(begin + 1, end - begin - 1));
}

// Of exceptions whose reason is outside of the program.
std::string advice_on_type(const ExceptionLink& link) {
  const std::string name = quoted_in(link.message);
  if (link.type == "ModuleNotFoundError" && !name.empty()) {
    return tr("install {} for the Python that runs the job, or run the job with the Python that has it",
              name.substr(0, name.find('.')));
  }
  if ((link.type == "FileNotFoundError" || link.type == "NotADirectoryError") && !name.empty()) {
    return name.front() == '/' ? tr("see whether {} exists on this host", name)
                               : tr("see whether {} exists below the working directory of the job", name);
  }
  if (link.type == "PermissionError" && !name.empty()) {
    return tr("see who may use {}: ls -ld {}", name, base::shell_quote(name));
  }
  if (link.type == "ConnectionRefusedError") {
    return tr(
        "nobody takes connections at that address: see whether the server runs, and whether its port is "
        "right");
  }
  return {};
}

std::string short_headline(const ExceptionLink& link) {
  if (const auto memory = model::out_of_memory(link)) {
    return tr("{}: CUDA out of memory ({})", base::sanitize(link.type), memory_words(*memory));
  }
  if (const model::PortHolder& holder = link.port_holder; holder.pid != 0) {
    return tr("{}: port {} is in use by pid {} ({})", base::sanitize(link.type), holder.port, holder.pid,
              base::sanitize(holder.command));
  }
  return base::opening_words(model::headline(link), kHeadlineColumns);
}

}  // namespace

const PythonException* last_word(const std::vector<const PythonException*>& of_pid,
                                 const model::ProcessRecord& process) {
  const PythonException* call = nullptr;
  const PythonException* raised = nullptr;
  for (const PythonException* x : of_pid) {
    if (x->chain.empty() || !is_of(*x, process) || is_consequence(*x)) {
      continue;
    }
    if (x->kind == ExceptionKind::raised) {
      raised = x;
    } else if (gave_the_status(*x, process) && (call == nullptr || x->chain.size() >= call->chain.size())) {
      call = x;  // multiprocessing calls sys.exit() once more, outside of the exception's handler
    }
  }
  // A process that exited with status 0 was not ended by an exception.
  const bool ended_well = process.death.happened && process.death.wait_status.succeeded();
  return raised != nullptr && !ended_well ? raised : call;
}

model::CodeLocation place_of(const PythonException& exception) {
  if (exception.chain.empty()) {
    return {};
  }
  if (const ExceptionLink* caught = caught_by_library(exception)) {
    return place_in(*caught);
  }
  const auto origin = origin_of(exception);
  return place_in(origin && has_place(origin->link) ? origin->link : exception.chain.front());
}

std::string words_of(const ExceptionLink& link) {
  return short_headline(link) + at_place(place_in(link));
}

std::string raised_words(const PythonException& exception) {
  const ExceptionLink& front = exception.chain.front();
  const auto origin = origin_of(exception);
  if (!origin) {
    return tr("raised {}", words_of(front));
  }
  const bool placed = has_place(origin->link);
  const std::string words =
      short_headline(origin->link) + (placed                              ? at_place(place_in(origin->link))
                                      : origin->carrier != Carrier::group ? at_place(place_in(front))
                                                                          : "");
  switch (origin->carrier) {
    case Carrier::worker:
      return origin->name.empty() ? tr("raised {}", words)
                                  : tr("raised {}, in its {}", words, base::sanitize(origin->name));
    case Carrier::pool:
      return tr("raised {}, in a process of its pool", words);
    case Carrier::group:
      break;
  }
  const std::string group = placed ? short_headline(front) : words_of(front);
  return tr("raised {}, the first of which is {}", group, words);
}

const ExceptionLink* handled_by_exit(const PythonException& exception) {
  const auto& chain = exception.chain;
  const bool handles = !model::is_exception(exception.kind) && chain.size() > 1 && chain[0].message.empty() &&
                       caught_by_library(exception) == nullptr && has_place(chain[1]);
  return handles && owner_of(place_in(chain[1]).file) == CodeOwner::user ? &chain[1] : nullptr;
}

std::optional<PythonException> raised_in_library(const PythonException& exception) {
  if (caught_by_library(exception) == nullptr) {
    return std::nullopt;
  }
  PythonException out = exception;
  out.kind = ExceptionKind::raised;
  out.chain.erase(out.chain.begin());
  out.chain.front().relation = {};
  return out;
}

std::string exit_words(const PythonException& exception) {
  const ExceptionLink& call = exception.chain.front();
  const std::string text = base::opening_words(
      base::sanitize(base::trim(call.message.substr(0, call.message.find('\n')))), kHeadlineColumns);
  const std::string argument =
      call.message.empty() ? std::to_string(exception.code) : fmt::format("'{}'", text);
  std::string out = tr("called {}({}){}", exception.kind == ExceptionKind::os_exit ? "os._exit" : "sys.exit",
                       argument, at_place(place_of(exception)));
  if (exception.chain.size() > 1) {
    out += tr(" while handling {}", words_of(exception.chain[1]));
  }
  return out;
}

std::string whole_traceback_words(const std::string& page) {
  return tr("read the whole traceback in {}", page);
}

bool asks_for_traceback(std::string_view next) {
  const std::string words = whole_traceback_words("\n");
  const size_t page = words.find('\n');
  return next.starts_with(words.substr(0, page)) && next.ends_with(words.substr(page + 1));
}

bool misses_worker(const PythonException& exception) {
  return exception.chain.front().message.starts_with("DataLoader worker (pid");
}

namespace {

struct Cure {
  std::string_view says;
  std::string_view advice;
  bool of_a_file = false;  // the message names a file; sockets have the same errors
};

constexpr std::string_view kSpace =
    later("a file could not be written: check space, inodes and quota of its file system (df -h, df -i)");
constexpr std::string_view kFileServer = later(
    "the file system of this file does not answer any more: find its server (findmnt -T FILE, dmesg), and "
    "mount it again");
constexpr std::string_view kNameService =
    later("check the name of the host, and the name servers of /etc/resolv.conf");

constexpr std::array kCures = {
    Cure{"unable to allocate shared memory",
         later("shared memory ran out: enlarge /dev/shm (docker run --shm-size), or use fewer workers")},
    Cure{"PytorchStreamWriter failed writing", kSpace},
    Cure{"No space left on device", kSpace},
    Cure{"Disk quota exceeded", kSpace},
    Cure{"Read-only file system",
         later("the file system can only be read: the kernel may have made it so after an error (dmesg)")},
    Cure{"Transport endpoint is not connected", kFileServer, true},
    Cure{"Stale file handle", kFileServer, true},
    Cure{"Input/output error", kFileServer, true},
    Cure{"Too many open files", later("the limit of open files is reached: look for files and sockets that "
                                      "are not closed, or raise the "
                                      "limit (ulimit -n)")},
    Cure{"can't start new thread", later("the limit of threads is reached: look for threads that never end, "
                                         "or raise the limit (ulimit -u, "
                                         "pids.max of the control group)")},
    Cure{"Temporary failure in name resolution", kNameService},
    Cure{"Name or service not known", kNameService},
};

std::string cure_of(const PythonException& exception) {
  const auto it = std::find_if(kCures.begin(), kCures.end(), [&](const Cure& cure) {
    return says(exception, cure.says) && (!cure.of_a_file || says(exception, ": '/"));
  });
  return it == kCures.end() ? std::string() : tr(it->advice);
}

}  // namespace

std::string advice_on(const PythonException& exception) {
  const ExceptionLink& link = exception.chain.front();
  if (const auto memory = model::out_of_memory(link)) {
    if (memory->others && memory->asked && *memory->others >= *memory->asked) {
      return tr("end the other processes on this GPU: they hold {}", base::human_size(*memory->others));
    }
    const bool fragmented = memory->reserved && memory->asked && *memory->reserved >= *memory->asked;
    return fragmented ? tr("the unused reserved memory would be enough: try "
                           "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")
                      : tr("use smaller batches, recompute activations, or share the model among more GPUs");
  }
  if (!link.port_holder.empty()) {
    return link.port_holder.pid != 0
               ? tr("end pid {}, or give the job another port (--master_port, MASTER_PORT)",
                    link.port_holder.pid)
               : tr("find who has port {} (as root: ss -ltnp), or give the job another port (--master_port, "
                    "MASTER_PORT)",
                    link.port_holder.port);
  }
  if (link.message.starts_with(kDeviceAssert)) {
    return tr("a kernel's assertion failed earlier: run again with CUDA_LAUNCH_BLOCKING=1 to find the call");
  }
  if (std::string cure = cure_of(exception); !cure.empty()) {
    return cure;
  }
  if (misses_worker(exception) && says(exception, "killed by signal: Killed")) {
    return tr("if nobody killed the worker, memory ran out: use fewer workers, or raise the memory limit");
  }
  if (misses_worker(exception) && says(exception, "Bus error")) {
    return tr("shared memory ran out: enlarge /dev/shm (docker run --shm-size), or use fewer workers");
  }
  if (says(exception, "Expected to have finished reduction in the prior iteration")) {
    return tr(
        "in the step before, the rank left out parameters of the model: let each step use all of them, or "
        "pass find_unused_parameters=True to DistributedDataParallel");
  }
  if (std::string words = advice_on_type(link); !words.empty()) {
    return words;
  }
  return whole_traceback_words("report.html");
}

model::VerdictException for_verdict(const PythonException& exception) {
  const ExceptionLink& front = exception.chain.front();
  return {.type = base::sanitize(front.type),
          .message = base::sanitize_lines(front.message),
          .traceback = base::sanitize_lines(model::traceback_text(exception)),
          .thread = base::sanitize(exception.thread),
          .time = exception.wall_ns > 0 ? base::utc_iso8601(exception.wall_ns) : std::string()};
}

void add_traceback(const PythonException& exception, std::vector<std::string>& out) {
  PythonException last = exception;
  last.chain.resize(1);
  const auto origin = origin_of(exception);
  const bool elsewhere = origin && has_place(origin->link);
  if (elsewhere) {
    last.chain.front() = origin->link;
  }
  ExceptionLink& shown = last.chain.front();
  shown.message.clear();  // the sentence has it
  const auto of_library = [](const model::PythonFrame& f) { return owner_of(f.file) != CodeOwner::user; };
  if (!std::all_of(shown.frames.begin(), shown.frames.end(), of_library)) {
    std::erase_if(shown.frames, of_library);
    shown.left_out = 0;
  }
  const std::string text = model::traceback_text(last);
  auto lines = base::split(base::trim(text), '\n');
  if (!lines.empty()) {
    lines.pop_back();  // the exception's type alone
  }
  std::erase(lines, kTracebackBegin);
  if (!elsewhere && shown.frames.size() == 1 && shown.left_out == 0) {
    lines.clear();  // the sentence has the only place
  }
  const size_t first = lines.size() > kMostLines ? lines.size() - kMostLines : 0;
  for (size_t i = first; i < lines.size(); ++i) {
    out.push_back(base::elide_middle(base::sanitize(lines[i]), kColumns));
  }
  size_t members = 0;  // of a group; the sentence has the first
  for (const ExceptionLink& link : exception.chain) {
    if (link.relation == model::Relation::member && ++members > 1 && members <= kMostMembers) {
      out.push_back(tr("also in the group: {}", words_of(link)));
    }
  }
  for (const ExceptionLink& link : exception.chain) {
    const bool reported = link.type.ends_with("RemoteTraceback");  // the traceback above
    if (!reported && (link.relation == model::Relation::cause || link.relation == model::Relation::context)) {
      out.push_back(link.relation == model::Relation::cause ? tr("raised from {}", words_of(link))
                                                            : tr("while handling {}", words_of(link)));
      break;
    }
  }
}

std::optional<Wait> wait_left_by(const PythonException& exception) {
  return exception.chain.empty() ? std::nullopt
                                 : find_wait(frames_of(exception.chain.front()), {.idle = true});
}

bool waited_for_peers(const PythonException& exception) {
  const auto wait = wait_left_by(exception);
  return wait && waits_for_peers(wait->kind);
}

bool says_foreign_message(std::string_view message) {
  return message.find("op.preamble.length <= op.nbytes") != std::string_view::npos;
}

bool says_peer_is_gone(const PythonException& exception) {
  return std::any_of(kPeerIsGone.begin(), kPeerIsGone.end(),
                     [&](std::string_view words) { return says(exception, words); });
}

bool says_backend_gave_up(std::string_view message) {
  const auto in_message = [&](std::string_view words) { return message.find(words) != message.npos; };
  return std::any_of(kPeerIsGone.begin(), kPeerIsGone.end(), in_message) ||
         std::any_of(kTimeouts.begin(), kTimeouts.end(), in_message);
}

bool says_backend_gave_up(const PythonException& exception) {
  // A download or a pipe of the program's own breaks with the same words, as an OSError.
  return std::any_of(exception.chain.begin(), exception.chain.end(), [](const ExceptionLink& link) {
    return (link.type == "RuntimeError" || link.type.starts_with("torch.")) &&
           says_backend_gave_up(link.message);
  });
}

bool is_alike(const PythonException* a, const PythonException* b) {
  if (a == nullptr || b == nullptr) {
    return a == b;
  }
  return a->kind == b->kind && model::headline(a->chain.front()) == model::headline(b->chain.front());
}

bool lacks_host_memory(const model::PythonException& exception) {
  const model::ExceptionLink& front = exception.chain.front();
  const bool by_type = front.type.ends_with("MemoryError") && !front.type.ends_with("OutOfMemoryError");
  return by_type || front.message.find("DefaultCPUAllocator: can't allocate memory") != std::string::npos ||
         front.message == "std::bad_alloc";
}

}  // namespace xpurun::report
