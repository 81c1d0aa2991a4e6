// pprof's profile.proto, gzipped. Field numbers are those of github.com/google/pprof/proto/profile.proto.
#include "common/base/strings.h"
#include "common/model/frame_text.h"
#include "report/formats/formats.h"
#include "report/formats/protobuf_writer.h"

#include <fmt/format.h>
#include <zlib.h>

#include <map>
#include <utility>

namespace xpurun::report {

namespace {

class StringTable {
 public:
  StringTable() { id(""); }
  uint64_t id(const std::string& text) {
    const auto [it, is_new] = known_.emplace(text, list_.size());
    if (is_new) {
      list_.push_back(text);
    }
    return it->second;
  }
  const std::vector<std::string>& list() const { return list_; }

 private:
  std::map<std::string, uint64_t> known_;
  std::vector<std::string> list_;
};

// Functions and locations get numbers from 1 on; equal ones share them.
class ProfileBuilder {
 public:
  explicit ProfileBuilder(View view) : view_(view) {}

  void add(const model::ProcessStacks& p, const model::ThreadStack& t) {
    std::vector<uint64_t> locations;
    for (const model::Frame* f : frames_in(t, view_)) {
      locations.push_back(location(*f));
    }
    if (locations.empty()) {
      return;
    }
    ProtobufWriter sample;
    sample.packed(1, locations);  // leaf first
    sample.packed(2, {1});
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
    samples_.message(2, sample);
    first_wall_ns_ = first_wall_ns_ == 0 ? p.wall_ns : std::min(first_wall_ns_, p.wall_ns);
  }

  std::string finish(const std::string& comment) {
    ProtobufWriter type;
    type.number(1, strings_.id("threads"));
    type.number(2, strings_.id("count"));
    const uint64_t about = strings_.id(comment);
    ProtobufWriter out;
    out.message(1, type);
    std::string text = out.text() + samples_.text() + locations_.text() + functions_.text();
    ProtobufWriter tail;
    for (const std::string& s : strings_.list()) {
      tail.bytes(6, s);
    }
    tail.number(9, static_cast<uint64_t>(std::max<int64_t>(first_wall_ns_, 0)));
    tail.packed(13, {about});
    return text + tail.text();
  }

 private:
  void label(ProtobufWriter& sample, const char* key, const std::string& value) {
    if (!value.empty()) {
      ProtobufWriter l;
      l.number(1, strings_.id(key));
      l.number(2, strings_.id(base::sanitize(value)));
      sample.message(3, l);
    }
  }

  uint64_t function(const model::Frame& f) {
    const std::string name =
        f.kind == model::FrameKind::python ? base::sanitize(f.func) : model::frame_label(f);
    const std::string file = base::sanitize(f.file.empty() ? f.module : f.file);
    const auto [it, is_new] = function_ids_.emplace(std::pair(name, file), function_ids_.size() + 1);
    if (is_new) {
      ProtobufWriter w;
      w.number(1, it->second);
      w.number(2, strings_.id(name));
      w.number(3, strings_.id(f.full_func.empty() ? name : base::sanitize(f.full_func)));
      w.number(4, strings_.id(file));
      functions_.message(5, w);
    }
    return it->second;
  }

  uint64_t location(const model::Frame& f) {
    const uint64_t fn = function(f);
    const auto [it, is_new] = location_ids_.emplace(std::pair(fn, f.line), location_ids_.size() + 1);
    if (is_new) {
      ProtobufWriter line;
      line.number(1, fn);
      line.number(2, static_cast<uint64_t>(f.line));
      ProtobufWriter w;
      w.number(1, it->second);
      w.message(4, line);
      locations_.message(4, w);
    }
    return it->second;
  }

  View view_;
  StringTable strings_;
  std::map<std::pair<std::string, std::string>, uint64_t> function_ids_;
  std::map<std::pair<uint64_t, int>, uint64_t> location_ids_;
  ProtobufWriter samples_;
  ProtobufWriter locations_;
  ProtobufWriter functions_;
  int64_t first_wall_ns_ = 0;
};

// Empty if zlib fails, which it does for want of memory only.
std::string gzip(const std::string& text) {
  constexpr int kGzip = 16;  // added to the window bits: a gzip header instead of zlib's
  constexpr int kMemoryLevel = 8;
  z_stream z{};
  if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzip, kMemoryLevel,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return {};
  }
  std::string out(deflateBound(&z, text.size()), '\0');
  // zlib never writes to its input.
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  const bool done = deflate(&z, Z_FINISH) == Z_STREAM_END;
  out.resize(done ? z.total_out : 0);
  deflateEnd(&z);
  return out;
}

}  // namespace

std::string pprof_gz(const StackSet& set, View view) {
  ProfileBuilder profile(view);
  for (const model::ProcessStacks& p : set.processes()) {
    for (const model::ThreadStack& t : p.threads) {
      profile.add(p, t);
    }
  }
  return gzip(profile.finish(fmt::format("{}, {}", ranks_title(set.collected), set.about)));
}

}  // namespace xpurun::report
