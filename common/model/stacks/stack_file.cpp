#include "common/model/stacks/stack_file.h"

#include "common/base/hash.h"
#include "common/model/json/json_text.h"
#include "common/model/secrets/redact.h"
#include "common/model/stacks/frame_columns.h"
#include "common/model/stacks/stack_fields.h"

#include <unordered_map>
#include <utility>

namespace xpurun::model {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

uint64_t hash_of(const Frame& f) {
  return base::hash_words(base::hash_text(f.func),
                          {f.pc, f.offset, static_cast<uint64_t>(f.line), static_cast<uint64_t>(f.column)});
}

// Gives every distinct frame an index in a table.
class FrameInterner {
 public:
  explicit FrameInterner(std::vector<Frame>& table) : table_(table) {}

  uint32_t place_of(Frame&& frame) {
    const uint64_t hash = hash_of(frame);
    const auto [begin, end] = by_hash_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
      if (table_[it->second] == frame) {
        return it->second;
      }
    }
    const auto place = static_cast<uint32_t>(table_.size());
    table_.push_back(std::move(frame));
    by_hash_.emplace(hash, place);
    return place;
  }

 private:
  std::vector<Frame>& table_;
  std::unordered_multimap<uint64_t, uint32_t> by_hash_;
};

std::vector<uint32_t> places_of(const json& list, size_t frames) {
  std::vector<uint32_t> out;
  for (const uint64_t n : numbers_of(list)) {
    if (n >= frames) {
      throw json::other_error::create(501, fmt::format("there is no frame {}", n), &list);
    }
    out.push_back(static_cast<uint32_t>(n));
  }
  return out;
}

// `list` is in the full form.
std::vector<uint32_t> read_frames(const json& list, std::vector<Frame>& table) {
  std::vector<uint32_t> out;
  for (const json& object : list) {
    out.push_back(static_cast<uint32_t>(table.size()));
    JsonReader reader(object);
    fields(reader, table.emplace_back());
  }
  return out;
}

void check_text(const CompactStacks& s) {
  size_t text = 0;
  for (const auto& thread : s.threads) {
    for (const uint32_t place : thread) {
      text += text_size(s.frames[place]);
      if (text > kMostThreadText) {
        throw json::other_error::create(501, "the texts of the frames are too long", nullptr);
      }
    }
  }
}

// Throws json::exception.
CompactStacks read(const json& j, bool full) {
  CompactStacks out;
  JsonReader reader(j);
  fields(reader, out.process);
  if (!full) {
    out.frames = read_frame_columns(j);
  }
  if (const json* threads = member(j, "threads")) {
    for (const json& t : *threads) {
      auto& places = out.threads.emplace_back();
      if (const json* list = member(t, "frames")) {
        places = full ? read_frames(*list, out.frames) : places_of(*list, out.frames.size());
      }
    }
  }
  check_text(out);
  return out;
}

}  // namespace

CompactStacks compact(ProcessStacks p) {
  CompactStacks out;
  FrameInterner interner(out.frames);
  for (ThreadStack& t : p.threads) {
    auto& places = out.threads.emplace_back();
    for (Frame& f : std::exchange(t.frames, {})) {
      places.push_back(interner.place_of(std::move(f)));
    }
  }
  out.process = std::move(p);
  return out;
}

ProcessStacks expand(const CompactStacks& s, const std::vector<bool>& wanted) {
  ProcessStacks out = s.process;
  for (size_t i = 0; i < out.threads.size(); ++i) {
    if (wanted[i]) {
      out.threads[i].frames.reserve(s.threads[i].size());
      for (const uint32_t place : s.threads[i]) {
        out.threads[i].frames.push_back(s.frames[place]);
      }
    }
  }
  return out;
}

ProcessStacks expand(const CompactStacks& s) {
  return expand(s, std::vector<bool>(s.threads.size(), true));
}

ordered_json to_json(const CompactStacks& s) {
  ordered_json j = write_object(kStacksSchema, s.process);
  for (size_t i = 0; i < s.threads.size(); ++i) {
    std::string places;
    for (const uint32_t place : s.threads[i]) {
      append_number(places, place);
    }
    j["threads"][i]["frames"] = std::move(places);
  }
  write_frame_columns(j, s.frames);
  return j;
}

ordered_json to_json(const ProcessStacks& p) {
  ordered_json j = write_object(kFullStacksSchema, p);
  for (size_t i = 0; i < p.threads.size(); ++i) {
    ordered_json& frames = j["threads"][i]["frames"] = ordered_json::array();
    for (const Frame& f : p.threads[i].frames) {
      JsonWriter writer(frames.emplace_back());
      fields(writer, f);
    }
  }
  return j;
}

std::string stacks_file(ProcessStacks p) {
  return json_text(to_json(compact(std::move(p)))) + '\n';
}

base::Result<CompactStacks> compact_stacks_from_json(const json& j) {
  try {
    const std::string schema = j.value("schema", "");
    if (schema != kStacksSchema && schema != kFullStacksSchema) {
      return base::fail(fmt::format("schema is '{}', expected '{}'", schema, kStacksSchema));
    }
    CompactStacks out = read(j, schema == kFullStacksSchema);
    // Files of an older xpurun, or of another program, may be masked less or not at all.
    out.process.cmdline = redact_argv(out.process.cmdline);
    return out;
  } catch (const json::exception& e) {
    return base::fail(fmt::format("malformed stacks file: {}", e.what()));
  }
}

base::Result<ProcessStacks> process_stacks_from_json(const json& j) {
  XPURUN_TRY_ASSIGN(const CompactStacks s, compact_stacks_from_json(j));
  return expand(s);
}

base::Result<CompactStacks> load_compact_stacks(const std::string& path) {
  return load_object(path, compact_stacks_from_json);
}

base::Result<ProcessStacks> load_process_stacks(const std::string& path) {
  XPURUN_TRY_ASSIGN(const CompactStacks s, load_compact_stacks(path));
  return expand(s);
}

}  // namespace xpurun::model
