// pprof's profile.proto, gzipped. Field numbers are those of github.com/google/pprof/proto/profile.proto.
#include "common/base/packing.h"
#include "common/base/strings.h"
#include "report/formats/formats.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <protozero/pbf_writer.hpp>
#include <tuple>
#include <utility>

namespace xpurun::report {

namespace {

class StringTable {
 public:
  StringTable() { id(""); }
  int64_t id(const std::string& text) {
    const auto [it, is_new] = known_.emplace(text, static_cast<int64_t>(list_.size()));
    if (is_new) {
      list_.push_back(text);
    }
    return it->second;
  }
  const std::vector<std::string>& list() const { return list_; }

 private:
  std::map<std::string, int64_t> known_;
  std::vector<std::string> list_;
};

// Functions and locations are numbered from 1; equal ones share a number.
class ProfileBuilder {
 public:
  explicit ProfileBuilder(View view) : view_(view) {}

  void add(const model::ProcessStacks& p, const model::ThreadStack& t) {
    std::vector<uint64_t> locations;
    for (const model::Frame* f : frames_in(t, view_)) {
      locations.push_back(location(p, *f));
    }
    if (locations.empty()) {
      return;
    }
    protozero::pbf_writer samples(samples_);
    protozero::pbf_writer sample(samples, 2);
    sample.add_packed_uint64(1, locations.begin(), locations.end());  // leaf first
    const std::array<int64_t, 1> count = {1};
    sample.add_packed_int64(2, count.begin(), count.end());
    if (p.rank != base::kNoRank) {
      label(sample, "rank", fmt::to_string(p.rank));
    }
    label(sample, "role", std::string(name_of(p.role)));
    label(sample, "host", p.host);
    label(sample, "pid", fmt::to_string(p.pid));
    label(sample, "thread", t.main ? "MainThread" : (t.python_name.empty() ? t.comm : t.python_name));
    label(sample, "tid", fmt::to_string(t.tid));
    label(sample, "state", std::string(1, t.state));
    label(sample, "gil", std::string(name_of(t.gil)));
    label(sample, "motion", std::string(name_of(t.motion)));
    first_wall_ns_ = first_wall_ns_ == 0 ? p.wall_ns : std::min(first_wall_ns_, p.wall_ns);
  }

  std::string finish(const std::string& comment) {
    std::string out;
    protozero::pbf_writer profile(out);
    {
      protozero::pbf_writer type(profile, 1);
      type.add_int64(1, strings_.id("threads"));
      type.add_int64(2, strings_.id("count"));
    }
    const std::array<int64_t, 1> about = {strings_.id(comment)};
    out += samples_ + mappings_ + locations_ + functions_;
    for (const std::string& s : strings_.list()) {
      profile.add_string(6, s);
    }
    profile.add_int64(9, std::max<int64_t>(first_wall_ns_, 0));
    profile.add_packed_int64(13, about.begin(), about.end());
    return out;
  }

 private:
  void label(protozero::pbf_writer& sample, const char* key, const std::string& value) {
    if (!value.empty()) {
      protozero::pbf_writer l(sample, 3);
      l.add_int64(1, strings_.id(key));
      l.add_int64(2, strings_.id(base::sanitize(value)));
    }
  }

  uint64_t function(const model::Frame& f) {
    const std::string name = f.func.empty() ? "?" : base::sanitize(f.func);
    const std::string file = base::sanitize(f.file.empty() ? f.module : f.file);
    const auto [it, is_new] = function_ids_.emplace(std::pair(name, file), function_ids_.size() + 1);
    if (is_new) {
      protozero::pbf_writer functions(functions_);
      protozero::pbf_writer w(functions, 5);
      w.add_uint64(1, it->second);
      w.add_int64(2, strings_.id(name));
      // A name that equals the system's name would be demangled by pprof, which makes nothing of "<module>".
      if (!f.full_func.empty()) {
        w.add_int64(3, strings_.id(base::sanitize(f.full_func)));
      }
      w.add_int64(4, strings_.id(file));
    }
    return it->second;
  }

  // The mapped file; 0 for a frame without one.
  uint64_t mapping(const model::ProcessStacks& p, const model::Frame& f) {
    if (f.module.empty()) {
      return 0;
    }
    const auto path = p.module_paths.find(f.module);
    const std::string file = base::sanitize(path == p.module_paths.end() ? f.module : path->second);
    const auto [it, is_new] = mapping_ids_.emplace(std::pair(file, f.build_id), mapping_ids_.size() + 1);
    if (is_new) {
      protozero::pbf_writer mappings(mappings_);
      protozero::pbf_writer w(mappings, 3);
      w.add_uint64(1, it->second);
      w.add_int64(5, strings_.id(file));
      w.add_int64(6, strings_.id(f.build_id));
      for (const uint32_t known : {7, 8, 9}) {  // functions, files, lines: pprof need not look for them
        w.add_bool(known, true);
      }
    }
    return it->second;
  }

  uint64_t location(const model::ProcessStacks& p, const model::Frame& f) {
    const uint64_t fn = function(f);
    const uint64_t where = mapping(p, f);
    const auto [it, is_new] =
        location_ids_.emplace(std::tuple(fn, f.line, where, f.pc), location_ids_.size() + 1);
    if (is_new) {
      protozero::pbf_writer locations(locations_);
      protozero::pbf_writer w(locations, 4);
      w.add_uint64(1, it->second);
      if (where != 0) {
        w.add_uint64(2, where);
        w.add_uint64(3, f.pc);
      }
      protozero::pbf_writer line(w, 4);
      line.add_uint64(1, fn);
      line.add_int64(2, f.line);
    }
    return it->second;
  }

  View view_;
  StringTable strings_;
  std::map<std::pair<std::string, std::string>, uint64_t> function_ids_;
  std::map<std::pair<std::string, std::string>, uint64_t> mapping_ids_;
  std::map<std::tuple<uint64_t, int, uint64_t, uint64_t>, uint64_t> location_ids_;
  std::string samples_;
  std::string mappings_;
  std::string locations_;
  std::string functions_;
  int64_t first_wall_ns_ = 0;
};

}  // namespace

std::string pprof_gz(const StackSet& set, View view) {
  ProfileBuilder profile(view);
  for (const model::ProcessStacks& p : set.processes()) {
    for (const model::ThreadStack& t : p.threads) {
      profile.add(p, t);
    }
  }
  return base::gzip(profile.finish(fmt::format("{}, {}", ranks_title(set.collected), set.about)));
}

}  // namespace xpurun::report
