// ProcessDump of a core file.
#include "common/base/strings.h"
#include "stackdump/cpython/locals/handled_exception.h"
#include "stackdump/cpython/locals/locals.h"
#include "stackdump/process_dump.h"
#include "stackdump/ptrace/stack_bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <limits>
#include <unistd.h>

namespace xpurun::stackdump {

namespace {

constexpr base::MonoNs kNoLimit = std::numeric_limits<base::MonoNs>::max();

// Signals whose default action writes a core file. Any other signal comes from a debugger that wrote the core
// file of a living process.
constexpr std::array kDumping = {SIGQUIT, SIGILL,  SIGTRAP, SIGABRT, SIGBUS,
                                 SIGFPE,  SIGSEGV, SIGXCPU, SIGXFSZ, SIGSYS};
constexpr std::array kWithAddress = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV};

template <size_t N>
bool contains(const std::array<int, N>& signals, int signal) {
  return std::find(signals.begin(), signals.end(), signal) != signals.end();
}

model::FatalSignal fatal_signal_of(const CoreThread& first) {
  model::FatalSignal out;
  const int number = first.info ? first.info->number : first.signal;
  if (!contains(kDumping, number)) {
    return out;
  }
  out.signal = number;
  out.tid = first.tid;
  if (first.info) {
    out.code = first.info->code;
    // Codes above 0 come from the kernel. SI_KERNEL: a fault for which the processor reports no address.
    const bool sent = out.code <= 0;
    out.sender = sent ? std::max(first.info->sender, 0) : 0;
    out.has_address = !sent && out.code != SI_KERNEL && contains(kWithAddress, number);
    out.address = out.has_address ? first.info->address : 0;
  }
  return out;
}

}  // namespace

ProcessDump::ProcessDump(std::unique_ptr<CoreSource> core, ModuleFiles files)
    : image_(0),
      live_(0),
      core_(std::move(core)),
      memory_(core_->memory),
      modules_(std::move(files), core_maps(core_->file), core_->dumped) {
  core_->memory.use_files(modules_);
}

// A program that the user named must be the one of the core.
base::Status ProcessDump::check_program() {
  const ModuleFiles& files = modules_.files();
  if (files.program.empty()) {
    return {};
  }
  const auto refuse = [](std::string what, std::string cause) {
    return base::fail({.what = std::move(what), .id = "E-CORE", .cause = std::move(cause)});
  };
  const std::string name = base::sanitize(files.program);
  auto image = ElfImage::from_file(files.program);
  if (!image) {
    image.error().id = "E-CORE";
    return base::fail(std::move(image.error()));
  }
  const auto facts = files.facts.find(files.program_path);
  const std::string wanted = facts == files.facts.end() ? "" : facts->second.build_id;
  if (!wanted.empty() && image->build_id() != wanted) {
    return refuse(fmt::format("{} is not the program of the core file", name),
                  fmt::format("its build id is {}, that of {} in the core is {}",
                              image->build_id().empty() ? "missing" : image->build_id(),
                              base::sanitize(files.program_path), wanted));
  }
  return {};
}

void ProcessDump::take_core_threads() {
  const CoreNotes& notes = core_->file.notes();
  fatal_signal_ = fatal_signal_of(notes.threads.front());
  for (const CoreThread& t : notes.threads) {
    ThreadCopy copy{.tid = t.tid, .inner_tid = t.tid};
    copy.kernel.cpu_ms = t.cpu_ms;
    copy.kernel.comm = t.tid == notes.pid ? base::sanitize(notes.name) : "";
    copy.registers = t.registers;
    copy.stack = stack_range(t.registers, modules_.maps());
    copy.crashed = !fatal_signal_.empty() && t.tid == fatal_signal_.tid;
    if (copy.crashed) {
      copy.cpp_exception =
          find_cpp_exception(memory_, {.lo = t.registers.sp() & ~Addr{7}, .hi = copy.stack.hi});
      copy.cpp_exception =
          copy.cpp_exception ? copy.cpp_exception : find_abort_message(memory_, modules_.maps());
    }
    threads_.push_back(std::move(copy));
  }
}

void ProcessDump::take_core_python(LocalVariables locals) {
  const PythonFiles files{.exe = modules_.files().program_path, .open = [this](const PythonImage& c) {
                            const Module* m = modules_.find(c.image);
                            return m == nullptr ? std::pair<const ElfImage*, Addr>(nullptr, 0)
                                                : std::pair(m->image, Addr{m->bias});
                          }};
  // Not through memory_, which keeps every page: a scan may read all data of the process.
  python_ = find_python(files, modules_.maps(), core_->memory);
  if (!python_.runtime) {
    return;
  }
  const Offsets& offsets = python_.runtime->offsets;
  py_ = read_python(memory_, *python_.runtime, kNoLimit);
  (void)read_handled(memory_, offsets, py_, kNoLimit);
  if (locals == LocalVariables::read) {
    (void)read_locals(memory_, offsets, py_, kNoLimit);
  }
  const auto names = read_thread_names(memory_, offsets, find_thread_tables(memory_, *python_.runtime));
  for (PyThread& t : py_.threads) {
    if (const auto it = names.find(t.thread_id); it != names.end()) {
      t.name = it->second;
    }
  }
}

base::Result<std::unique_ptr<ProcessDump>> ProcessDump::from_core(const std::string& path, ModuleFiles files,
                                                                  LocalVariables locals) {
  XPURUN_TRY_ASSIGN(CoreFile file, CoreFile::open(path));
  files.pid = 0;
  files.core_ns = std::max<int64_t>(file.written_ns(), 1);
  auto source = std::make_unique<CoreSource>(std::move(file));
  const ProcMaps maps = core_maps(source->file);
  files.facts = core_modules(source->dumped, maps);
  files.program_path = core_program(source->file.notes(), maps);
  std::unique_ptr<ProcessDump> dump(new ProcessDump(std::move(source), std::move(files)));
  XPURUN_TRY(dump->check_program());
  dump->target_.pid = dump->core_->file.notes().pid;
  dump->method_ = "core";
  dump->core_->arguments = core_arguments(dump->memory_, dump->core_->file.notes());
  dump->take_core_threads();
  dump->take_core_python(locals);
  if (const uint64_t missing = dump->core_->file.cut_off(); missing > 0) {
    dump->fail({.what = fmt::format("the core file is cut off: {} MiB of memory are missing",
                                    (missing + (1 << 20) - 1) >> 20),
                .cause = "the core size limit (ulimit -c) was too low, or the disk was full"},
               model::DumpStatus::partial);
  }
  return dump;
}

model::ProcessStacks ProcessDump::describe_core() const {
  const CoreNotes& notes = core_->file.notes();
  model::ProcessStacks out;
  out.pid = notes.pid;
  out.comm = base::sanitize(notes.name);
  out.cmdline = core_->arguments.argv;
  if (out.cmdline.empty() && !notes.arguments.empty()) {
    out.cmdline = {std::string(base::trim(notes.arguments))};
  }
  out.wall_ns = core_->file.written_ns();
  out.method = method_;
  out.fatal_signal = fatal_signal_;
  return out;
}

}  // namespace xpurun::stackdump
