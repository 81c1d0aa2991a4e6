#include "commands/top_machine.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/evidence/clock_helper.h"
#include "launcher/machine/memory/control_groups.h"
#include "launcher/machine/places.h"
#include "launcher/machine/pressure.h"
#include "launcher/output/text_block.h"
#include "report/diagnosis/rules/machine_words.h"
#include "report/diagnosis/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <utility>
#include <vector>

namespace xpurun::launcher {

namespace {

using base::tr;
using model::HostUse;

constexpr size_t kMostFacts = 8;
constexpr double kGpuReadingS = 2;
constexpr size_t kLongestGpuLine = size_t{1} << 20;

std::string rate_words(double bytes_per_s) {
  return bytes_per_s < 0
             ? std::string("-")
             : fmt::format("{}/s", base::human_size(static_cast<uint64_t>(std::min(bytes_per_s, 1e15))));
}

std::string size_words(double bytes) {
  return base::human_size(static_cast<uint64_t>(std::clamp(bytes, 0.0, 1e15)));
}

std::string share_words(double share) {
  return share < 0 ? std::string("-") : fmt::format("{:.0f} %", 100 * share);
}

double value_of(const std::vector<model::UseValue>& values, HostUse use, const std::string& object) {
  const auto it = std::find_if(values.begin(), values.end(),
                               [&](const model::UseValue& v) { return v.use == use && v.object == object; });
  return it == values.end() ? -1 : it->value;
}

std::string unit_words(double value, std::string_view unit) {
  return value < 0 ? std::string("-") : fmt::format("{:.0f} {}", value, unit);
}

// "disk vda      read 1.2 MiB/s  written 20.0 MiB/s"
void add_pair(const model::MachineReading& reading, HostUse in, HostUse out, std::string_view kind,
              const std::pair<std::string, std::string>& words, std::vector<std::string>& lines) {
  for (const model::UseValue& v : reading.use) {
    if (v.use == in) {
      lines.push_back(fmt::format("{} {} {}  {} {}", pad_end(fmt::format("{} {}", kind, v.object), 18),
                                  words.first, pad_start(rate_words(v.value), 12), words.second,
                                  pad_start(rate_words(value_of(reading.use, out, v.object)), 12)));
    }
  }
}

}  // namespace

void MachineView::read_rank(const model::ProcessRecord& process, double seconds) {
  const auto known = ranks_.find(process.rank);
  if (known == ranks_.end() || known->second.pid != process.pid) {
    ranks_.insert_or_assign(
        process.rank, RankNow{.pid = process.pid, .delay = RunDelay(process.pid, host_.proc()), .cpus = {}});
    seconds = 0;
  }
  RankNow& now = ranks_.at(process.rank);
  const auto stat = host_.proc().stat(process.pid);
  if (!stat) {
    ranks_.erase(process.rank);
    return;
  }
  const double cpu_s = base::ticks_to_s(stat->utime_ticks + stat->stime_ticks);
  const base::ProcIo io = host_.proc().io(process.pid);
  const auto delay = now.delay.look();
  const auto rate = [&](uint64_t before, uint64_t after) {
    return seconds > 0 && after >= before ? static_cast<double>(after - before) / seconds : -1;
  };
  now.cores = seconds > 0 ? std::max(0.0, cpu_s - now.cpu_s) / seconds : -1;
  now.ready = seconds > 0 && delay ? std::min(base::ns_to_s(delay->worst_ns) / seconds, 1.0) : -1;
  now.read_rate = rate(now.io.read_chars, io.read_chars);
  now.written_rate = rate(now.io.write_chars, io.write_chars);
  now.cpu_s = cpu_s;
  now.io = io;
  now.cpus = allowed_cpus(host_.proc(), process.pid);
}

void MachineView::read_gpus() {
  auto health = model::load_gpu_health(dir_.file(model::kGpuHealthFile));
  if (!health) {
    return;  // no rank has used a GPU
  }
  add_gpu_facts(history_, *health);
  if (!std::exchange(helper_begun_, true)) {
    std::vector<std::string> words = watch_words(kGpuReadingS);
    words.insert(words.begin(), "/proc/self/exe");
    sigset_t mask;
    ::sigemptyset(&mask);
    if (auto helper = HelperProcess::start(words, mask, -1)) {
      helper_ = std::move(*helper);
    }
  }
  const auto take = [this](std::string_view line) {
    if (const auto reading = model::machine_reading_from(line); reading && !reading->use.empty()) {
      gpu_use_ = reading->use;
    }
  };
  if (helper_.output() >= 0 && !helper_.read_lines(helper_text_, kLongestGpuLine, take)) {
    stop_helper();
  }
}

void MachineView::stop_helper() {
  if (helper_.pid() > 0) {
    helper_.close_output();
    helper_.kill();
    helper_.wait_briefly();
    helper_.forget();
  }
  gpu_use_.clear();
}

// "GPU 3              load  97 %  1980 MHz    64 °C    612 W"
std::vector<std::string> MachineView::gpu_lines() const {
  std::vector<std::string> out;
  std::set<std::string> seen;
  for (const model::UseValue& v : gpu_use_) {
    if (!seen.insert(v.object).second) {
      continue;
    }
    const auto now = [&](HostUse use) { return value_of(gpu_use_, use, v.object); };
    out.push_back(fmt::format("{} {} {} {} {} {}", pad_end(base::sanitize(v.object), 18), tr("load"),
                              pad_start(share_words(now(HostUse::gpu_load)), 6),
                              pad_start(unit_words(now(HostUse::gpu_clock), "MHz"), 9),
                              pad_start(unit_words(now(HostUse::gpu_temperature), "°C"), 7),
                              pad_start(unit_words(now(HostUse::gpu_power), "W"), 7)));
  }
  return out;
}

bool MachineView::read() {
  auto run = model::load_run_manifest(dir_.run_json());
  if (!run || run->outcome != model::RunOutcome::running) {
    return false;
  }
  run_ = std::move(*run);
  const base::MonoNs now = base::mono_ns();
  const double seconds = at_ == 0 ? 0 : base::ns_to_s(now - at_);
  at_ = now;
  reading_ = {};
  use_.read(host_, now, reading_);
  read_group_memory(host_, {{.pid = run_.main_pid}}, reading_);
  std::set<base::Rank> present;
  for (const model::ProcessRecord& p : run_.processes) {
    if (p.role == model::ProcessRole::rank && p.rank >= 0 && !p.death.happened && p.node == 0) {
      present.insert(p.rank);
      read_rank(p, seconds);
    }
  }
  std::erase_if(ranks_, [&](const auto& r) { return present.count(r.first) == 0; });
  auto history = model::load_machine_history(dir_.file(model::kMachineFile));
  history_ = history ? std::move(*history) : model::MachineHistory();
  read_gpus();
  return true;
}

std::string MachineView::text(size_t columns, size_t rows) const {
  std::vector<std::string> lines;
  lines.push_back(tr("host {}: CPUs {} busy, memory {} used", base::sanitize(run_.host),
                     share_words(value_of(reading_.use, HostUse::cpu, "")),
                     share_words(value_of(reading_.use, HostUse::memory, ""))));
  add_pair(reading_, HostUse::disk_read, HostUse::disk_written, tr("disk"), {tr("read"), tr("written")},
           lines);
  add_pair(reading_, HostUse::net_received, HostUse::net_sent, tr("network"), {tr("received"), tr("sent")},
           lines);
  add_pair(reading_, HostUse::link_received, HostUse::link_sent, tr("link"), {tr("received"), tr("sent")},
           lines);
  for (const model::UseValue& v : reading_.use) {
    if (v.use == HostUse::group_processes) {
      // The path is last, because it may be long.
      lines.push_back(tr("memory: {} of processes, {} of files, {} shared; control group {}",
                         size_words(v.value),
                         size_words(value_of(reading_.use, HostUse::group_cache, v.object)),
                         size_words(value_of(reading_.use, HostUse::group_shared, v.object)), v.object));
    }
  }
  const std::vector<std::string> gpus = gpu_lines();
  lines.insert(lines.end(), gpus.begin(), gpus.end());
  lines.push_back({});
  lines.push_back(fmt::format("{} {} {} {} {} {}", pad_start(tr("RANK"), 5), pad_start(tr("CPU"), 7),
                              pad_start(tr("READY"), 7), pad_start(tr("READS"), 12),
                              pad_start(tr("WRITES"), 12), tr("CPUS")));
  for (const auto& [rank, now] : ranks_) {
    const model::Intruder* intruder = report::main_intruder(history_, rank);
    const std::string who = intruder == nullptr || now.ready < 0.1
                                ? std::string()
                                : tr("; {} had {:.0f} % of its CPUs", report::intruder_words(*intruder),
                                     std::min(100 * intruder->share(), 100.0));
    lines.push_back(fmt::format("{:>5} {} {} {} {} {}{}", rank, pad_start(share_words(now.cores), 7),
                                pad_start(share_words(now.ready), 7),
                                pad_start(rate_words(now.read_rate), 12),
                                pad_start(rate_words(now.written_rate), 12), now.cpus, who));
  }
  size_t facts = 0;
  for (const model::MachineSeries& s : history_.series) {
    const auto spells = report::telling_spells(history_, s);
    if (!spells.empty() && facts++ < kMostFacts) {
      if (facts == 1) {
        lines.push_back({});
      }
      const double at_s = std::max(0.0, report::seconds_in(run_, spells.back().begin_wall_ns));
      lines.push_back(tr("{}: {}", report::moment_words(run_, at_s),
                         report::machine_words(history_, s, spells.back().amount)));
    }
  }
  std::string out;
  for (size_t i = 0; i < lines.size() && (rows == 0 || i < rows); ++i) {
    out += cut_end(lines[i], columns) + '\n';
  }
  return out;
}

}  // namespace xpurun::launcher
