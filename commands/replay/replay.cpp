// xpurun replay DIR: the matmuls and collectives of a run, executed again on this machine's GPUs.
#include "commands/commands.h"
#include "commands/replay/gpu_bench.h"
#include "commands/replay/libraries.h"
#include "commands/replay/replay_text.h"
#include "commands/replay/schedule.h"
#include "common/base/output/progress.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/documents/document_text.h"
#include "launcher/options/exit_status.h"
#include "launcher/options/run_settings.h"
#include "launcher/output/text_block.h"
#include "report/build/replay_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

struct ReplayOptions {
  model::RankSet ranks;
  size_t top = 10;
  double factor = 0.9;
  int device = 0;
  bool collectives = false;
  bool json = false;
  std::string python = "python3";
};

std::optional<double> parse_factor(std::string_view text) {
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  const bool good = error == std::errc() && end == text.data() + text.size() && out > 0 && out < 1;
  return good ? std::optional(out) : std::nullopt;
}

base::Result<ReplayOptions> read_options(const Settings& settings) {
  for (const auto& [name, s] : settings.all()) {
    if (const auto checked = check_value(*find_option(replay_options(), name), s.value); !checked) {
      return base::fail(fmt::format("--{}: {}", name, checked.error().what));
    }
  }
  ReplayOptions out;
  if (const Setting* s = settings.find("ranks")) {
    const auto ranks = model::RankSet::parse(s->value);
    if (!ranks || ranks->empty()) {
      return base::fail(base::cli_text("--ranks needs a list of ranks, such as 0-7,12"));
    }
    out.ranks = *ranks;
  }
  if (const Setting* s = settings.find("top")) {
    out.top = static_cast<size_t>(base::parse_int(s->value).value_or(10));
  }
  if (const Setting* s = settings.find("factor")) {
    const auto factor = parse_factor(s->value);
    if (!factor) {
      return base::fail(base::cli_text("--factor needs a number between 0 and 1, such as 0.9"));
    }
    out.factor = *factor;
  }
  if (const Setting* s = settings.find("device")) {
    const auto device = base::parse_int(s->value);
    if (!device || *device < 0 || *device > 1023) {
      return base::fail(base::cli_text("--device needs a GPU index, starting at 0"));
    }
    out.device = static_cast<int>(*device);
  }
  if (const Setting* s = settings.find("python")) {
    out.python = s->value;
  }
  const Setting* format = settings.find("format");
  out.json = format != nullptr && format->value == "json";
  out.collectives = settings.has("collectives");
  return out;
}

base::Result<report::OperationsOfRun> read_operations(const std::vector<std::string>& operands,
                                                      const ReplayOptions& options) {
  XPURUN_TRY_ASSIGN(const report::JobRuns job, report::read_job(operands));
  report::OperationsOfRun out = report::read_run_operations(job, options.ranks);
  out.notes.insert(out.notes.begin(), job.notes.begin(), job.notes.end());
  for (const std::string& note : out.notes) {
    base::write_stderr(fmt::format("xpurun: note: {}\n", base::sanitize(note)));
  }
  if (out.operations.matmuls.empty() && !(options.collectives && !out.operations.collectives.empty())) {
    const std::string whose = options.ranks.empty() ? "the run holds" : "these ranks of the run hold";
    return base::fail(
        {.what = whose + " no timed matmuls",
         .id = "E-NO-DATA",
         .cause = base::cli_text("no rank called cuBLAS or cuBLASLt, or timing or the event files were off"),
         .hint = "run the job with --timing full, without --events off"});
  }
  return out;
}

model::ReplayDevice device_of(const GpuFacts& gpu) {
  return {.index = gpu.index,
          .name = gpu.name,
          .uuid = gpu.uuid,
          .driver = gpu.driver,
          .memory_bytes = static_cast<double>(gpu.memory_bytes)};
}

base::Status replay_matmuls(const report::RunOperations& run, const ReplayOptions& options,
                            const vendor::Driver& driver, Libraries& libraries, report::Measurements& out) {
  XPURUN_TRY_ASSIGN(const std::unique_ptr<Gpu> gpu, Gpu::open(driver, options.device));
  out.device = device_of(gpu->facts());
  if (run.matmuls.empty()) {
    return {};
  }
  XPURUN_TRY_ASSIGN(const vendor::Lt lt, libraries.lt());
  XPURUN_TRY_ASSIGN(const vendor::Blas blas, libraries.blas());
  XPURUN_TRY_ASSIGN(const auto matmuls, MatmulLibraries::open(*gpu, blas, lt));
  out.device.libraries.push_back(fmt::format("cuBLAS {}: {}", matmuls->version(), libraries.blas_path()));
  GpuMatmulBench bench(*gpu, *matmuls);
  base::Progress progress("replaying matmuls", std::min(options.top, run.matmuls.size()));
  repeat_matmuls(run, options.top, Schedule(), bench, out, [&progress] { progress.advance(); });
  return {};
}

base::Status replay_collectives(const report::RunOperations& run, const ReplayOptions& options,
                                const vendor::Driver& driver, Libraries& libraries,
                                report::Measurements& out) {
  if (run.collectives.empty()) {
    base::write_stderr("xpurun: note: the run holds no collectives that two ranks timed\n");
    return {};
  }
  XPURUN_TRY_ASSIGN(const vendor::Nccl nccl, libraries.nccl());
  XPURUN_TRY_ASSIGN(const auto bench, GpuCollectiveBench::open(driver, nccl));
  out.device.libraries.push_back(fmt::format("NCCL {}: {}", bench->version(), libraries.nccl_path()));
  base::Progress progress("replaying collectives", std::min(options.top, run.collectives.size()));
  repeat_collectives(run, options.top, Schedule(), *bench, out, [&progress] { progress.advance(); });
  return {};
}

base::Result<model::Replay> replay(const report::RunOperations& run, const ReplayOptions& options) {
  report::Measurements measured;
  Libraries libraries(library_dirs_of_python(options.python));
  XPURUN_TRY_ASSIGN(const vendor::Driver driver, libraries.driver());
  XPURUN_TRY(replay_matmuls(run, options, driver, libraries, measured));
  if (options.collectives) {
    XPURUN_TRY(replay_collectives(run, options, driver, libraries, measured));
  }
  return report::compare_with_replay(run, std::move(measured), options.factor);
}

bool any_replayed(const model::Replay& replay) {
  const auto done = [](const auto& operation) { return operation.replay.repeats > 0; };
  return std::any_of(replay.matmuls.begin(), replay.matmuls.end(), done) ||
         std::any_of(replay.collectives.begin(), replay.collectives.end(), done);
}

}  // namespace

int replay_command(const Invocation& call) {
  const auto options = read_options(call.words.settings);
  if (!options) {
    return complain_usage(call, options.error().what);
  }
  std::vector<std::string> operands = call.words.operands;
  if (operands.empty()) {
    operands.emplace_back("latest");
  }
  const auto run = read_operations(operands, *options);
  if (!run) {
    return complain(run.error(), kExitFailure);
  }
  const auto result = replay(run->operations, *options);
  if (!result) {
    return complain(result.error(), kExitFailure);
  }
  const int printed = print(options->json ? model::document_text(*result, 2) + "\n"
                                          : replay_text(*result, help_columns(STDOUT_FILENO)));
  return any_replayed(*result) ? printed : kExitFailure;
}

}  // namespace xpurun::launcher
