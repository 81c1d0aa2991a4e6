#include "report/query/run_tables.h"

#include "common/base/strings.h"
#include "common/model/evidence/gpu_health.h"
#include "common/model/evidence/machine.h"
#include "common/model/frame_text.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"
#include "report/diagnosis/memory/held.h"
#include "report/events/job_clocks.h"
#include "report/memory/look_files.h"
#include "report/query/nesting.h"
#include "report/query/schema.h"
#include "report/speed/ranks/waits.h"
#include "report/speed/steps/step_records.h"
#include "report/timeline/inputs.h"

#include <fmt/format.h>

#include <filesystem>

namespace xpurun::report {

namespace {

constexpr size_t kMostArrivals = size_t{16} << 20;  // at collectives, of all ranks together
SqlValue rank_value(base::Rank rank) {
  return rank == base::kNoRank ? SqlValue() : SqlValue(int64_t{rank});
}

SqlValue positive_or_null(double value) {
  return value > 0 ? SqlValue(value) : SqlValue();
}

SqlValue count_or_null(uint64_t value) {
  return value == 0 ? SqlValue() : SqlValue(static_cast<int64_t>(value));
}

double seconds_of(int64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

// Of a call; its slices have the same.
struct CallTexts {
  SqlValue category;
  SqlValue name;
  SqlValue function;
  SqlValue place;
};

std::vector<CallTexts> texts_of(const Activity& activity) {
  std::vector<CallTexts> out;
  for (const Call& call : activity.calls) {
    out.push_back({std::string(model::name_of(call.category)), base::sanitize(call.name),
                   text_or_null(base::sanitize(call.function)), text_or_null(call.place)});
  }
  return out;
}

class Loader {
 public:
  Loader(RunTables& out, int64_t began_ns)
      : out_(out),
        began_ns_(began_ns),
        ranks_(out.database.inserter("ranks")),
        calls_(out.database.inserter("calls")),
        spans_(out.database.inserter("spans")),
        short_calls_(out.database.inserter("short_calls")),
        counters_(out.database.inserter("counters")),
        steps_(out.database.inserter("steps")) {}

  void add(const Activity& a, int64_t shift_ns) {
    ranks_.add({rank_value(a.rank), int64_t{a.pid}, base::sanitize(a.host), base::sanitize(a.gpu),
                static_cast<int64_t>(a.lost)});
    for (const ShortCalls& one : a.short_calls) {
      const double begin_s = seconds_of(one.begin_ns + shift_ns - began_ns_);
      short_calls_.add({rank_value(a.rank), one.name, static_cast<int64_t>(one.calls),
                        seconds_of(one.total_ns), begin_s, begin_s + seconds_of(one.duration_ns),
                        int64_t{one.thread}});
    }
    for (const Counter& counter : a.counters) {
      for (const Counter::Sample& sample : counter.samples) {
        ++out_.rows;
        counters_.add({rank_value(a.rank), counter.name, counter.unit,
                       seconds_of(sample.wall_ns + shift_ns - began_ns_), sample.value});
      }
    }
    const Nesting nesting(a);
    const std::vector<CallTexts> texts = texts_of(a);
    for (size_t i = 0; i < a.slices.size(); ++i) {
      const Slice& slice = a.slices[i];
      const Call& call = a.calls[slice.call];
      const CallTexts& text = texts[slice.call];
      const Track& track = a.tracks[slice.track];
      const double begin_s = seconds_of(slice.begin_ns + shift_ns - began_ns_);
      const SqlValue meeting =
          slice.meeting == 0 || call.message ? SqlValue() : SqlValue(static_cast<int64_t>(slice.meeting));
      ++out_.rows;
      if (call.category == Category::python) {
        spans_.add({rank_value(a.rank), std::string(model::name_of(call.stage)), text.name, text.place,
                    begin_s, seconds_of(slice.duration_ns), positive_or_null(slice.delay_us / 1e6),
                    int64_t{track.number}, meeting, id_of(i),
                    nesting.has_parent(i) ? SqlValue(id_of(nesting.parent(i))) : SqlValue(),
                    seconds_of(nesting.self_ns(i))});
        continue;
      }
      const bool matmul = call.category == Category::matmul;
      calls_.add({rank_value(a.rank), text.category, text.name, text.function,
                  std::string(model::name_of(track.kind)), int64_t{track.number}, begin_s,
                  seconds_of(slice.duration_ns), matmul ? count_or_null(call.work) : SqlValue(),
                  matmul ? SqlValue() : count_or_null(call.work), positive_or_null(tflops_of(call, slice)),
                  positive_or_null(bus_gb_per_s(call, slice)), positive_or_null(slice.delay_us / 1e6),
                  count_or_null(slice.sequence), meeting});
    }
  }

  // After the last slice of a source.
  void next_source(const Activity& a) { first_id_ += static_cast<int64_t>(a.slices.size()); }

  // `measured`: the steps know the waits at collectives.
  void add(const RankSteps& rank, bool measured) {
    for (size_t i = 0; i < rank.steps.size(); ++i) {
      const StepRecord& step = rank.steps[i];
      const auto stage = [&](model::Stage s) { return seconds_of(step.stage_ns[static_cast<size_t>(s)]); };
      ++out_.rows;
      steps_.add({rank_value(rank.rank),
                  static_cast<int64_t>(i),
                  seconds_of(step.begin_ns - began_ns_),
                  seconds_of(step.duration_ns),
                  measured && step.waits_known ? SqlValue(seconds_of(step.wait_ns)) : SqlValue(),
                  stage(model::Stage::data),
                  stage(model::Stage::forward),
                  stage(model::Stage::backward),
                  stage(model::Stage::optimizer),
                  stage(model::Stage::communication),
                  stage(model::Stage::checkpoint),
                  stage(model::Stage::evaluation),
                  stage(model::Stage::garbage),
                  measured && step.waits_known ? SqlValue(seconds_of(step.transfer_ns)) : SqlValue(),
                  step.process_ns < 0 ? SqlValue() : SqlValue(seconds_of(step.process_ns)),
                  step.run_delay_ns < 0 ? SqlValue() : SqlValue(seconds_of(step.run_delay_ns)),
                  step.process_ns < 0 ? SqlValue() : SqlValue(step.faults),
                  step.throttled_ns < 0 ? SqlValue() : SqlValue(seconds_of(step.throttled_ns)),
                  step.stolen_ns < 0 ? SqlValue() : SqlValue(seconds_of(step.stolen_ns)),
                  step.exposed_ns < 0 ? SqlValue() : SqlValue(seconds_of(step.exposed_ns)),
                  step.hidden_ns < 0 ? SqlValue() : SqlValue(seconds_of(step.hidden_ns))});
    }
  }

 private:
  int64_t id_of(size_t slice) const { return first_id_ + static_cast<int64_t>(slice); }

  RunTables& out_;
  int64_t began_ns_;
  int64_t first_id_ = 1;
  Inserter ranks_;
  Inserter calls_;
  Inserter spans_;
  Inserter short_calls_;
  Inserter counters_;
  Inserter steps_;
};

// Without what only the search for causes needs.
RankSteps without_samples(RankSteps rank) {
  rank.shapes.clear();
  rank.launch_delays = {};
  rank.reads = {};
  rank.arrivals.shrink_to_fit();
  return rank;
}

// The steps of a large job take more memory than anything else, so they are gone at the end.
void add_steps(std::vector<RankSteps> ranks, Loader& loader) {
  JobSteps job(std::move(ranks));
  const bool measured = measure_waits(job);
  for (size_t r = 0; r < job.ranks(); ++r) {
    loader.add(job.rank(r), measured);
  }
}

void add_intruders(Database& database, const model::RunManifest& run, const model::MachineHistory& machine) {
  Inserter rows = database.inserter("intruders");
  const auto seconds = [&](int64_t wall_ns) {
    return (static_cast<double>(wall_ns) - static_cast<double>(run.started_wall_ns)) / 1e9;
  };
  for (const model::Intruder& i : machine.intruders) {
    rows.add({base::sanitize(run.host), rank_value(i.rank), std::string(model::name_of(i.relation)),
              rank_value(i.owner), i.pid > 0 ? SqlValue(int64_t{i.pid}) : SqlValue(),
              text_or_null(base::sanitize(i.command)), text_or_null(base::sanitize(i.group)),
              static_cast<int64_t>(i.processes), i.share(), i.cpu_s, i.ready_s, i.watched_s,
              seconds(i.begin_wall_ns), seconds(i.end_wall_ns)});
  }
}

// One row for each time in which a fact passed its limit, and one for what never did.
void add_machine(Database& database, const model::RunManifest& run, const model::MachineHistory& machine) {
  Inserter rows = database.inserter("machine");
  const auto seconds = [&](int64_t wall_ns) {
    return (static_cast<double>(wall_ns) - static_cast<double>(run.started_wall_ns)) / 1e9;
  };
  for (const model::MachineSeries& s : machine.series) {
    std::vector<model::MachineSpell> spells = s.spells;
    spells.resize(std::max<size_t>(spells.size(), 1));
    for (const model::MachineSpell& spell : spells) {
      const bool passed = !s.spells.empty();
      rows.add({base::sanitize(run.host), std::string(model::name_of(s.fact)), base::sanitize(s.object),
                rank_value(s.rank), s.first, s.last, s.times,
                passed ? SqlValue(seconds(spell.begin_wall_ns)) : SqlValue(),
                passed ? SqlValue(seconds(spell.end_wall_ns)) : SqlValue(),
                passed ? SqlValue(spell.amount) : SqlValue(), text_or_null(base::sanitize(s.detail))});
    }
  }
}

SqlValue number_or_null(int64_t value) {
  return value < 0 ? SqlValue() : SqlValue(value);
}
SqlValue watts_or_null(double value) {
  return value < 0 ? SqlValue() : SqlValue(value);
}

void add_gpus(Database& database, const std::string& host, const model::GpuInventory& inventory,
              const std::vector<model::RankPlace>& places) {
  Inserter gpus = database.inserter("gpus");
  for (const model::GpuUnit& unit : inventory.units) {
    gpus.add({host,
              model::gpu_object(unit.index),
              rank_value(model::rank_on(places, unit.pci)),
              text_or_null(base::sanitize(unit.name)),
              text_or_null(base::sanitize(unit.serial)),
              text_or_null(base::sanitize(unit.uuid)),
              text_or_null(base::sanitize(unit.pci)),
              watts_or_null(unit.power_limit_w),
              watts_or_null(unit.power_default_w),
              number_or_null(unit.sm_clock_max_mhz),
              number_or_null(unit.temperature_most_c),
              number_or_null(unit.pcie_width),
              number_or_null(unit.pcie_generation_max),
              number_or_null(unit.nvlinks),
              number_or_null(unit.persistence),
              number_or_null(unit.mig),
              number_or_null(unit.ecc),
              number_or_null(unit.ecc_corrected_ever),
              number_or_null(unit.ecc_uncorrected_ever),
              number_or_null(unit.rows_corrected),
              number_or_null(unit.rows_uncorrected)});
  }
  Inserter paths = database.inserter("gpu_paths");
  for (const model::GpuPath& path : inventory.paths) {
    paths.add({host, model::gpu_object(path.from), model::gpu_object(path.to), base::sanitize(path.path)});
  }
}

// What was counted about the host and its GPUs. A short run, or an older xpurun, has no such files.
void add_host(Database& database, const model::RunManifest& run, const model::RunDir& dir) {
  model::MachineHistory machine;
  if (auto loaded = model::load_machine_history(dir.file(model::kMachineFile))) {
    machine = std::move(*loaded);
  }
  if (const auto gpus = model::load_gpu_health(dir.file(model::kGpuHealthFile))) {
    add_gpu_facts(machine, *gpus);
    add_gpus(database, base::sanitize(run.host), gpus->inventory, machine.places);
  }
  add_machine(database, run, machine);
  add_intruders(database, run, machine);
}

std::string stack_text(const model::MemoryLook& look, const model::MemoryHolder& holder) {
  std::vector<std::string> out;
  for (auto it = holder.site.rbegin(); it != holder.site.rend(); ++it) {
    const model::MemoryPlace& place = look.places[*it];
    out.push_back(fmt::format("{} ({}:{})", place.function, model::source_name(place.file), place.line));
  }
  return base::join(out, ";");
}

void add_memory(Database& database, const std::string& directory) {
  Inserter memory = database.inserter("memory");
  Inserter allocations = database.inserter("allocations");
  for (const model::MemoryLook& look : read_looks({directory}).looks) {
    const std::string why(model::name_of(look.why));
    for (const model::MemoryDevice& device : look.devices) {
      for (const CategoryBytes& one : by_category(look, device.name)) {
        memory.add({rank_value(look.rank), why, look.at_s, static_cast<int64_t>(look.step), device.name,
                    std::string(model::name_of(one.category)), one.bytes});
      }
    }
    for (const model::MemoryHolder& holder : look.holders) {
      const model::MemoryPlace* place = users_place(look, holder);
      allocations.add(
          {rank_value(look.rank), why, holder.device, std::string(model::name_of(holder.category)),
           text_or_null(holder.name),
           place == nullptr ? SqlValue()
                            : SqlValue(fmt::format("{}:{}", model::source_name(place->file), place->line)),
           text_or_null(stack_text(look, holder)), holder.bytes, holder.count,
           look.steps > 0 ? SqlValue(holder.grown) : SqlValue(), static_cast<int64_t>(holder.stream)});
    }
  }
}

void add_run(Database& database, const std::string& operand) {
  const model::RunDir dir(operand);
  const auto run = model::load_run_manifest(dir.run_json());
  if (!run) {
    return;  // a trace directory, or a file
  }
  database.inserter("run").add({base::sanitize(operand), run->started_wall_ns, run->elapsed_s,
                                std::string(model::name_of(run->outcome)),
                                base::sanitize(run->verdict.sentence)});
  add_host(database, *run, dir);
  add_memory(database, operand);
  Inserter deaths = database.inserter("deaths");
  for (const model::ProcessRecord& p : run->processes) {
    if (p.death.happened) {
      const std::string cause = p.death.cause_hint.empty() ? "" : " (" + p.death.cause_hint + ")";
      deaths.add({rank_value(p.rank), int64_t{p.pid}, p.death.at_s,
                  p.death.wait_status.text() + base::sanitize(cause)});
    }
  }
  Inserter exceptions = database.inserter("exceptions");
  for (const model::PythonException& e : run->exceptions) {
    if (!model::is_exception(e.kind) || e.chain.empty()) {
      continue;
    }
    const auto& first = e.chain.front();
    const auto* frame = first.frames.empty() ? nullptr : &first.frames.back();
    exceptions.add({rank_value(e.rank), int64_t{e.pid}, e.at_s, base::sanitize(first.type),
                    base::sanitize(first.message),
                    frame == nullptr ? SqlValue() : SqlValue(base::sanitize(frame->file)),
                    frame == nullptr ? SqlValue() : SqlValue(int64_t{frame->line}),
                    frame == nullptr ? SqlValue() : SqlValue(base::sanitize(frame->function))});
  }
  Inserter stalls = database.inserter("stalls");
  for (const model::Stall& i : run->stalls) {
    stalls.add({int64_t{i.n}, i.at_s, i.cleared_s < 0 ? SqlValue() : SqlValue(i.cleared_s),
                text_or_null(base::sanitize(i.verdict.sentence))});
  }
}

}  // namespace

base::Result<RunTables> load_run_tables(const std::vector<std::string>& operands) {
  XPURUN_TRY_ASSIGN(Database database, Database::create());
  RunTables out{.database = std::move(database)};
  out.database.execute(create_tables() + "BEGIN;");
  for (const std::string& operand : operands) {
    add_run(out.database, operand);
  }
  TraceInputs inputs = find_inputs(operands, WithoutFiles::fine_of_a_run);
  leave_out_open_calls(inputs);
  out.problems = std::move(inputs.problems);
  // Twice, because only all ranks together show the differences of the clocks.
  JobClocks clocks;
  int64_t first_ns = 0;
  for (const TraceSource& source : inputs.sources) {
    std::vector<base::Error> reported_later;
    const Activity activity = read_source(source, reported_later);
    clocks.add(activity);
    if (!activity.slices.empty()) {
      const int64_t begin = activity.slices.front().begin_ns;
      first_ns = first_ns == 0 ? begin : std::min(first_ns, begin);
    }
  }
  clocks.solve();
  std::vector<RankSteps> ranks;
  out.links = CommunicatorLinks(inputs.sources.size());
  const size_t most_arrivals = kMostArrivals / std::max<size_t>(inputs.sources.size(), 1);
  out.began_ns = inputs.run_began_ns != 0 ? inputs.run_began_ns : first_ns;
  Loader loader(out, out.began_ns);
  for (const TraceSource& source : inputs.sources) {
    RankRecord record;
    const Activity activity =
        read_source(source, out.problems, source.rank == base::kNoRank ? nullptr : &record);
    const int64_t shift = clocks.offset_ns(activity.host);
    loader.add(activity, shift);
    loader.next_source(activity);
    if (source.rank != base::kNoRank) {
      const model::EventFileHeader* header = header_of(record);
      record.offset_ns = header == nullptr ? 0 : header->wall_ns - header->mono_ns + shift;
      out.links.add(record);
      ranks.push_back(without_samples(steps_of(record, most_arrivals)));
    }
  }
  add_steps(std::move(ranks), loader);
  out.database.execute(
      "COMMIT; CREATE INDEX calls_by_meeting ON calls(meeting); CREATE INDEX calls_by_stream ON calls(rank, "
      "stream, "
      "begin_s);");
  return out;
}

}  // namespace xpurun::report
