#include "common/model/evidence/machine.h"

#include "common/model/json/json_text.h"
#include "common/model/json_fields.h"
#include "common/model/json_visitors.h"

#include <algorithm>
#include <set>

namespace xpurun::model {

namespace {

constexpr std::string_view kReadingSchema = "xpurun.machine-reading/1";
constexpr std::string_view kUsersSchema = "xpurun.memory-users/1";
constexpr size_t kMostSeries = 400;
constexpr size_t kMostSpells = 24;
constexpr size_t kMostIntruders = 100;
constexpr size_t kMostMemoryGroups = 64;
constexpr int kMostCpus = 4096;
constexpr size_t kLongestLine = size_t{1} << 20;
// A device that was reset counts from 0 again; a jump of more than this is damage.
constexpr double kMostEvents = 1e15;

struct Limit {
  MachineUnit unit = MachineUnit::events;
  double least = 1;  // events between two readings, or a share
};

Limit limit_of(MachineFact fact) {
  switch (fact) {
    case MachineFact::symbol_errors:
    case MachineFact::packet_errors:
    case MachineFact::link_downed:
    case MachineFact::link_recoveries:
    case MachineFact::receive_errors:
    case MachineFact::carrier_changes:
    case MachineFact::pcie_corrected:
    case MachineFact::pcie_uncorrected:
    case MachineFact::cpu_throttled:
    case MachineFact::nvlink_recoveries:
    case MachineFact::nvlink_replays:
    case MachineFact::ecc_corrected:
    case MachineFact::ecc_uncorrected:
    case MachineFact::rows_remapped:
    case MachineFact::pages_retired:
    case MachineFact::xid:
    case MachineFact::oom_kills:
      return {};
    // The link corrects some all the time.
    case MachineFact::gpu_pcie_replays:
      return {.least = 8};
    case MachineFact::retransmissions:
      return {.least = 10};
    case MachineFact::packets_dropped:
    case MachineFact::rank_page_faults:
    case MachineFact::memory_limit:
    case MachineFact::port_discards:
    case MachineFact::nvlink_crc:
      return {.least = 100};
    case MachineFact::congestion:
    case MachineFact::pause_frames:
    case MachineFact::tcp_retransmissions:
    case MachineFact::tcp_segments:
    case MachineFact::rank_read:
    case MachineFact::rank_written:
    case MachineFact::rank_io_calls:
    case MachineFact::mount_read:
    case MachineFact::mount_written:
    case MachineFact::mount_operations:
      return {.least = kMostEvents};  // judged as parts of others
    case MachineFact::cpu_pressure:
      return {.unit = MachineUnit::time, .least = 0.2};
    case MachineFact::memory_pressure:
      return {.unit = MachineUnit::time, .least = 0.1};
    case MachineFact::io_pressure:
      return {.unit = MachineUnit::time, .least = 0.3};
    case MachineFact::interrupts:
      return {.unit = MachineUnit::time, .least = 0.5};
    case MachineFact::throttled:
    case MachineFact::stolen:
    case MachineFact::paused:
      return {.unit = MachineUnit::time, .least = 0.1};
    case MachineFact::mount_time:
      return {.unit = MachineUnit::time, .least = 2};  // a share, so never
    case MachineFact::no_cpu:
      return {.unit = MachineUnit::time, .least = 0.2};
    case MachineFact::storage_wait:
      return {.unit = MachineUnit::time, .least = 0.3};
    case MachineFact::space:
    case MachineFact::inodes:
      return {.unit = MachineUnit::level, .least = 0.95};
    case MachineFact::pcie_narrow:
    case MachineFact::pcie_slow:
    case MachineFact::port_down:
    case MachineFact::mount_silent:
    case MachineFact::cpu_limited:
    case MachineFact::nvlink_down:
    case MachineFact::remap_pending:
    case MachineFact::remap_failed:
    case MachineFact::gpu_slowed:
    case MachineFact::gpu_lost:
      break;
  }
  return {.unit = MachineUnit::state, .least = 1};
}

// The two neighbours with the shortest time between them become one.
void join_some(std::vector<MachineSpell>& spells) {
  if (spells.size() <= kMostSpells) {
    return;
  }
  size_t closest = 1;
  const auto gap = [&](size_t i) { return spells[i].begin_wall_ns - spells[i - 1].end_wall_ns; };
  for (size_t i = 2; i < spells.size(); ++i) {
    closest = gap(i) < gap(closest) ? i : closest;
  }
  spells[closest - 1].end_wall_ns = spells[closest].end_wall_ns;
  spells[closest - 1].amount += spells[closest].amount;
  spells.erase(spells.begin() + static_cast<std::ptrdiff_t>(closest));
}

void add_value(MachineSeries& s, const MachineValue& v, int64_t before_ns, int64_t now_ns) {
  const Limit limit = limit_of(v.fact);
  const bool counter = limit.unit == MachineUnit::events || limit.unit == MachineUnit::time;
  double amount = counter ? v.value - s.last : v.value;
  if (limit.unit == MachineUnit::time) {
    const double us = static_cast<double>(now_ns - before_ns) / 1000;
    amount = us > 0 ? std::min(amount / us, 1.0) : 0;
  }
  // A level or a state is a fact at the first reading already.
  const bool known = before_ns > 0 || !counter;
  s.last = v.value;
  s.detail = v.detail.empty() ? s.detail : v.detail;
  // A port without a cable was down before the job.
  const bool always = v.fact == MachineFact::port_down && s.first >= 1;
  if (!known || always || amount < limit.least || amount > kMostEvents) {
    return;
  }
  const int64_t from_ns = before_ns > 0 ? before_ns : now_ns;
  MachineSpell* open =
      !s.spells.empty() && s.spells.back().end_wall_ns >= from_ns ? &s.spells.back() : nullptr;
  if (limit.unit == MachineUnit::events) {
    ++s.times;
    if (open != nullptr) {
      open->end_wall_ns = now_ns;
      open->amount += amount;
      return;
    }
  } else if (open != nullptr) {
    open->end_wall_ns = now_ns;
    open->amount = std::max(open->amount, amount);
    return;
  } else {
    ++s.times;
  }
  s.spells.push_back({.begin_wall_ns = from_ns, .end_wall_ns = now_ns, .amount = amount});
  join_some(s.spells);
}

// Another process of the same command is the same intruder.
void add_intruder(std::vector<Intruder>& known, const Intruder& fresh, int64_t now_ns) {
  const int64_t from_ns = now_ns - static_cast<int64_t>(fresh.watched_s * 1e9);
  const auto it = std::find_if(known.begin(), known.end(), [&](const Intruder& k) {
    return k.rank == fresh.rank && k.relation == fresh.relation && k.owner == fresh.owner &&
           k.command == fresh.command && k.group == fresh.group;
  });
  if (it == known.end()) {
    if (known.size() < kMostIntruders) {
      known.push_back(fresh);
      known.back().begin_wall_ns = from_ns;
      known.back().end_wall_ns = now_ns;
    }
    return;
  }
  it->pid = fresh.cpu_s > it->cpu_s ? fresh.pid : it->pid;
  it->processes = std::max(it->processes, fresh.processes);
  it->cpus = fresh.cpus;
  it->watched_s += fresh.watched_s;
  it->ready_s += fresh.ready_s;
  it->cpu_s += fresh.cpu_s;
  it->end_wall_ns = now_ns;
}

}  // namespace

MachineUnit unit_of(MachineFact fact) {
  return limit_of(fact).unit;
}

void MachineHistory::add(const MachineReading& reading, int64_t wall_ns) {
  const int64_t before_ns = end_wall_ns;
  if (wall_ns <= before_ns) {
    return;  // the clock was set back: no share of a negative time
  }
  begin_wall_ns = readings == 0 ? wall_ns : begin_wall_ns;
  end_wall_ns = wall_ns;
  ++readings;
  for (const MachineValue& v : reading.values) {
    auto it = std::find_if(series.begin(), series.end(), [&](const MachineSeries& s) {
      return s.fact == v.fact && s.object == v.object && s.rank == v.rank;
    });
    const bool fresh = it == series.end();
    if (fresh) {
      if (series.size() == kMostSeries) {
        continue;
      }
      const double first = v.before >= 0 ? v.before : v.value;
      series.push_back({.fact = v.fact, .object = v.object, .first = first, .last = first, .rank = v.rank});
      it = series.end() - 1;
    }
    add_value(*it, v, fresh && v.before < 0 ? 0 : before_ns, wall_ns);
  }
  for (const RankPlace& place : reading.places) {
    auto it =
        std::find_if(places.begin(), places.end(), [&](const RankPlace& p) { return p.rank == place.rank; });
    if (it == places.end()) {
      it = places.insert(
          std::upper_bound(places.begin(), places.end(), place,
                           [](const RankPlace& a, const RankPlace& b) { return a.rank < b.rank; }),
          RankPlace{});
    }
    const uint64_t crowded = it->pid == place.pid ? it->crowded : 0;
    const uint64_t seen = it->pid == place.pid ? it->readings : 0;
    const bool moved = it->pid == place.pid && it->cpus != place.cpus;
    const int64_t since_ns = moved ? wall_ns : it->pid == place.pid ? it->since_wall_ns : 0;
    *it = place;
    it->since_wall_ns = since_ns;
    it->readings = seen + 1;
    const auto allowed = static_cast<int>(cpus_in(place.cpus).size());
    it->crowded = crowded + (allowed > 0 && place.runnable > allowed ? 1 : 0);
  }
  use.add(reading.use, wall_ns);
  for (const Intruder& one : reading.intruders) {
    add_intruder(intruders, one, wall_ns);
  }
  std::stable_sort(intruders.begin(), intruders.end(),
                   [](const Intruder& a, const Intruder& b) { return a.cpu_s > b.cpu_s; });
  for (const MissingSource& one : reading.missing) {
    if (std::find(missing.begin(), missing.end(), one) == missing.end()) {
      missing.push_back(one);
    }
  }
}

void MachineHistory::add(const MemoryUsers& users) {
  const auto it = std::find_if(memory.begin(), memory.end(),
                               [&](const MemoryUsers& known) { return known.group == users.group; });
  if (it != memory.end()) {
    *it = users;
  } else if (memory.size() < kMostMemoryGroups) {
    memory.push_back(users);
  }
}

std::vector<int> cpus_in(std::string_view list) {
  std::set<int> out;
  for (const std::string_view part : base::split(base::trim(list), ',')) {
    const size_t dash = part.find('-');
    const auto first = base::parse_int(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : base::parse_int(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last >= kMostCpus) {
      continue;
    }
    for (int64_t cpu = *first; cpu <= *last; ++cpu) {
      out.insert(static_cast<int>(cpu));
    }
  }
  return {out.begin(), out.end()};
}

template <typename V, Self<MachineValue> M>
void fields(V& visit, M& m) {
  visit("fact", m.fact);
  visit("object", m.object, WhenEmpty::omit);
  visit("value", m.value);
  visit("detail", m.detail, WhenEmpty::omit);
  visit.optional("rank", m.rank);
  visit.optional("before", m.before);
}

template <typename V, Self<RankPlace> P>
void fields(V& visit, P& p) {
  visit("rank", p.rank);
  visit("pid", p.pid);
  visit("cpus", p.cpus);
  visit("omp_threads", p.omp_threads, WhenEmpty::omit);
  visit("runnable", p.runnable);
  visit("gpu", p.gpu, WhenEmpty::omit);
  visit("gpu_cpus", p.gpu_cpus, WhenEmpty::omit);
  visit("nic", p.nic, WhenEmpty::omit);
  visit("nic_cpus", p.nic_cpus, WhenEmpty::omit);
  visit("memory_group", p.memory_group, WhenEmpty::omit);
  visit("readings", p.readings, WhenEmpty::omit);
  visit("crowded", p.crowded, WhenEmpty::omit);
  visit("since_wall_ns", p.since_wall_ns, WhenEmpty::omit);
}

template <typename V, Self<Intruder> I>
void fields(V& visit, I& i) {
  visit("rank", i.rank);
  visit("relation", i.relation);
  visit.optional("owner", i.owner);
  visit("pid", i.pid);
  visit("command", i.command, WhenEmpty::omit);
  visit("group", i.group, WhenEmpty::omit);
  visit("processes", i.processes);
  visit("cpus", i.cpus);
  visit("watched_s", i.watched_s);
  visit("ready_s", i.ready_s);
  visit("cpu_s", i.cpu_s);
  visit("begin_wall_ns", i.begin_wall_ns, WhenEmpty::omit);
  visit("end_wall_ns", i.end_wall_ns, WhenEmpty::omit);
}

template <typename V, Self<MissingSource> M>
void fields(V& visit, M& m) {
  visit("source", m.source);
  visit("reason", m.reason);
}

template <typename V, Self<UseValue> U>
void fields(V& visit, U& u) {
  visit("use", u.use);
  visit("object", u.object, WhenEmpty::omit);
  visit("value", u.value);
}

template <typename V, Self<UseTrack> T>
void fields(V& visit, T& t) {
  visit("use", t.use);
  visit("object", t.object, WhenEmpty::omit);
  visit("values", t.values);
}

template <typename V, Self<HostUseHistory> H>
void fields(V& visit, H& h) {
  visit("begin_wall_ns", h.begin_wall_ns);
  visit("bin_s", h.bin_s);
  visit("tracks", h.tracks);
}

template <typename V, Self<MachineReading> R>
void fields(V& visit, R& r) {
  visit("values", r.values);
  visit("places", r.places, WhenEmpty::omit);
  visit("missing", r.missing, WhenEmpty::omit);
  visit("intruders", r.intruders, WhenEmpty::omit);
  visit("use", r.use, WhenEmpty::omit);
}

template <typename V, Self<MachineSpell> S>
void fields(V& visit, S& s) {
  visit("begin_wall_ns", s.begin_wall_ns);
  visit("end_wall_ns", s.end_wall_ns);
  visit("amount", s.amount);
}

template <typename V, Self<MachineSeries> S>
void fields(V& visit, S& s) {
  visit("fact", s.fact);
  visit("object", s.object, WhenEmpty::omit);
  visit("detail", s.detail, WhenEmpty::omit);
  visit.optional("rank", s.rank);
  visit("first", s.first);
  visit("last", s.last);
  visit("times", s.times, WhenEmpty::omit);
  visit("spells", s.spells, WhenEmpty::omit);
}

template <typename V, Self<MemoryUser> U>
void fields(V& visit, U& u) {
  visit("pid", u.pid);
  visit("command", u.command, WhenEmpty::omit);
  visit("role", u.role);
  visit.optional("rank", u.rank);
  visit("bytes", u.bytes);
  visit("grown", u.grown, WhenEmpty::omit);
  visit("copied", u.copied, WhenEmpty::omit);
}

template <typename V, Self<MappedMemory> M>
void fields(V& visit, M& m) {
  visit("kind", m.kind);
  visit("name", m.name);
  visit("bytes", m.bytes);
  visit("count", m.count);
  visit.optional("rank", m.rank);
}

template <typename V, Self<MemoryUsers> U>
void fields(V& visit, U& u) {
  visit("group", u.group, WhenEmpty::omit);
  visit("wall_ns", u.wall_ns);
  visit("limit_bytes", u.limit_bytes);
  visit("used_bytes", u.used_bytes);
  visit("shared_bytes", u.shared_bytes, WhenEmpty::omit);
  visit("processes", u.processes);
  visit("users", u.users);
  visit("mapped", u.mapped, WhenEmpty::omit);
}

template <typename V, Self<MachineHistory> H>
void fields(V& visit, H& h) {
  visit("begin_wall_ns", h.begin_wall_ns);
  visit("end_wall_ns", h.end_wall_ns);
  visit("readings", h.readings);
  visit("series", h.series);
  visit("places", h.places, WhenEmpty::omit);
  visit("missing", h.missing, WhenEmpty::omit);
  visit("intruders", h.intruders, WhenEmpty::omit);
  visit("use", h.use, WhenEmpty::omit);
  visit("memory", h.memory, WhenEmpty::omit);
}

std::string line_of(const MachineReading& reading) {
  return json_text(write_object(kReadingSchema, reading)) + "\n";
}

base::Result<MachineReading> machine_reading_from(std::string_view line) {
  if (line.size() > kLongestLine) {
    return base::fail("a reading of the machine is too long");
  }
  const auto j = parse_json(line);
  if (j.is_discarded()) {
    return base::fail("a reading of the machine is no JSON");
  }
  return read_object<MachineReading>(kReadingSchema, "reading of the machine", j);
}

std::string line_of(const MemoryUsers& users) {
  return json_text(write_object(kUsersSchema, users)) + "\n";
}

base::Result<MemoryUsers> memory_users_from(std::string_view line) {
  const bool is_one = line.size() <= kLongestLine && line.find(kUsersSchema) != std::string_view::npos;
  const auto j = is_one ? parse_json(line) : nlohmann::json(nlohmann::json::value_t::discarded);
  if (j.is_discarded()) {
    return base::fail("a look at the users of memory is no JSON");
  }
  return read_object<MemoryUsers>(kUsersSchema, "users of memory", j);
}

nlohmann::ordered_json to_json(const MachineHistory& h) {
  return write_object(kMachineSchema, h);
}

base::Result<MachineHistory> machine_history_from_json(const nlohmann::json& j) {
  auto out = read_object<MachineHistory>(kMachineSchema, "history of the machine", j);
  if (out) {
    for (MemoryUsers& users : out->memory) {
      limit(users);
    }
  }
  return out;
}

base::Result<MachineHistory> load_machine_history(const std::string& path) {
  return load_object(path, machine_history_from_json);
}

}  // namespace xpurun::model
