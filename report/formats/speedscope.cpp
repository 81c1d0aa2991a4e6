// speedscope.app's file format: a shared frame table, and per thread a sampled profile with one sample.
#include "common/base/strings.h"
#include "common/model/json/json_text.h"
#include "report/formats/formats.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <map>

namespace xpurun::report {

namespace {

using Json = nlohmann::ordered_json;

class Frames {
 public:
  size_t index(const model::Frame& f) {
    const std::string key = fmt::format("{}\x1f{}\x1f{}\x1f{}", f.func, f.file, f.line, f.module);
    const auto [it, is_new] = known_.emplace(key, list_.size());
    if (is_new) {
      Json j;
      j["name"] = base::sanitize(f.func);
      if (const std::string& file = f.file.empty() ? f.module : f.file; !file.empty()) {
        j["file"] = file;
      }
      if (f.line > 0) {
        j["line"] = f.line;
      }
      if (f.column > 0) {
        j["col"] = f.column;
      }
      list_.push_back(std::move(j));
    }
    return it->second;
  }
  Json take() { return std::move(list_); }

 private:
  std::map<std::string, size_t> known_;
  Json list_ = Json::array();
};

std::string profile_name(const model::ProcessStacks& p, const model::ThreadStack& t) {
  const std::string who = p.rank == base::kNoRank ? fmt::format("pid {}", p.pid)
                          : p.role == model::ProcessRole::rank
                              ? fmt::format("rank {}", p.rank)
                              : fmt::format("{} {} of rank {}", name_of(p.role), p.pid, p.rank);
  const std::string& name = t.main ? "MainThread" : (t.python_name.empty() ? t.comm : t.python_name);
  return base::sanitize(fmt::format("{} / {} ({})", who, name, t.tid));
}

}  // namespace

std::string speedscope_json(const StackSet& set, View view) {
  Frames frames;
  Json profiles = Json::array();
  for (const model::ProcessStacks& p : set.processes()) {
    for (const model::ThreadStack& t : p.threads) {
      Json sample = Json::array();
      const auto shown = frames_in(t, view);
      for (size_t i = shown.size(); i-- > 0;) {  // outermost first
        sample.push_back(frames.index(*shown[i]));
      }
      if (sample.empty()) {
        continue;
      }
      Json j;
      j["type"] = "sampled";
      j["name"] = profile_name(p, t);
      j["unit"] = "none";
      j["startValue"] = 0;
      j["endValue"] = 1;
      j["samples"] = Json::array({std::move(sample)});
      j["weights"] = Json::array({1});
      profiles.push_back(std::move(j));
    }
  }
  Json out;
  out["$schema"] = "https://www.speedscope.app/file-format-schema.json";
  out["shared"]["frames"] = frames.take();
  out["profiles"] = std::move(profiles);
  out["name"] = fmt::format("{}, {}", ranks_title(set.collected), set.about);
  out["activeProfileIndex"] = 0;
  out["exporter"] = "xpurun@" XPURUN_VERSION;
  return model::json_text(out) + '\n';
}

}  // namespace xpurun::report
