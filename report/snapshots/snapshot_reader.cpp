#include "report/snapshots/snapshot_reader.h"

#include "common/base/os/io.h"
#include "common/model/json_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace xpurun::report {

namespace {

using nlohmann::json;

constexpr int kDeepest = 64;

// Scans JSON without building values. Every step returns false on an unexpected form; the caller then uses
// the real parser.
class Walker {
 public:
  explicit Walker(std::string_view text) : text_(text) {}

  size_t at() const { return at_; }
  std::string_view from(size_t begin) const { return text_.substr(begin, at_ - begin); }
  bool done() { return peek() == '\0' && at_ == text_.size(); }

  char peek() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
      ++at_;
    }
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) {
      return false;
    }
    ++at_;
    return true;
  }
  // The raw content, escapes included.
  bool string(std::string_view& out) {
    if (!take('"')) {
      return false;
    }
    const size_t begin = at_;
    for (;;) {
      const size_t quote = text_.find('"', at_);
      if (quote == std::string_view::npos) {
        return false;
      }
      size_t slashes = 0;
      while (slashes < quote - begin && text_[quote - 1 - slashes] == '\\') {
        ++slashes;
      }
      at_ = quote + 1;
      if (slashes % 2 == 0) {
        out = text_.substr(begin, quote - begin);
        return true;
      }
    }
  }
  bool skip_value(int depth = 0) {
    std::string_view ignored;
    switch (peek()) {
      case '"':
        return string(ignored);
      case '{':
      case '[':
        return depth < kDeepest && skip_container(depth);
      default:
        return skip_plain();
    }
  }
  // Calls member(key) for each; member must take the value.
  template <typename F>
  bool object(F&& member) {
    if (!take('{')) {
      return false;
    }
    if (take('}')) {
      return true;
    }
    do {
      std::string_view key;
      if (!string(key) || !take(':') || !member(key)) {
        return false;
      }
    } while (take(','));
    return take('}');
  }
  template <typename F>
  bool array(F&& element) {
    if (!take('[')) {
      return false;
    }
    if (take(']')) {
      return true;
    }
    do {
      if (!element()) {
        return false;
      }
    } while (take(','));
    return take(']');
  }

 private:
  bool skip_container(int depth) {
    return text_[at_] == '{' ? object([&](std::string_view) { return skip_value(depth + 1); })
                             : array([&] { return skip_value(depth + 1); });
  }
  bool skip_plain() {
    const size_t begin = at_;
    while (at_ < text_.size() && std::string_view(",]} \n\r\t").find(text_[at_]) == std::string_view::npos) {
      ++at_;
    }
    return at_ > begin;
  }

  std::string_view text_;
  size_t at_ = 0;
};

class SnapshotParser {
 public:
  SnapshotParser(std::string_view text, FramePool& pool) : text_(text), walker_(text), pool_(pool) {}

  std::optional<Snapshot> parse() {
    const bool understood = walker_.object([this](std::string_view key) {
      return key == "threads" ? walker_.array([this] { return thread(); }) : walker_.skip_value();
    });
    if (!understood || !walker_.done()) {
      return std::nullopt;
    }
    skeleton_ += text_.substr(copied_);
    // What is left, without the frames, is small.
    const json j = model::parse_json(skeleton_);
    if (j.is_discarded()) {
      return std::nullopt;
    }
    auto process = model::process_stacks_from_json(j);
    if (!process || process->threads.size() != out_.frames.size()) {
      return std::nullopt;
    }
    for (const model::ThreadStack& t : process->threads) {
      // A key "frames" with escapes in it, or a second one.
      if (!t.frames.empty()) {
        return std::nullopt;
      }
    }
    out_.process = std::move(*process);
    return std::move(out_);
  }

 private:
  bool thread() {
    out_.frames.emplace_back();
    bool seen = false;
    return walker_.object([&](std::string_view key) {
      if (key != "frames") {
        return walker_.skip_value();
      }
      if (std::exchange(seen, true) || walker_.peek() != '[') {
        return false;
      }
      skeleton_ += text_.substr(copied_, walker_.at() - copied_);
      skeleton_ += "[]";
      const bool understood = walker_.array([this] { return frame(); });
      copied_ = walker_.at();
      return understood;
    });
  }

  bool frame() {
    if (walker_.peek() != '{') {
      return false;
    }
    const size_t begin = walker_.at();
    size_t pc_begin = 0;
    size_t pc_end = 0;
    const bool understood = walker_.object([&](std::string_view key) {
      if (key != "pc") {
        return walker_.skip_value();
      }
      walker_.peek();
      pc_begin = walker_.at() - begin;
      std::string_view pc;
      // The value is not parsed later, so it must have the writer's form.
      const bool hex =
          walker_.string(pc) && pc.find_first_not_of("0123456789abcdefx") == std::string_view::npos;
      pc_end = walker_.at() - begin;
      return hex;
    });
    const model::Frame* found = understood ? pool_.find(walker_.from(begin), pc_begin, pc_end) : nullptr;
    out_.frames.back().push_back(found);
    return found != nullptr;
  }

  std::string_view text_;
  Walker walker_;
  FramePool& pool_;
  std::string skeleton_;
  size_t copied_ = 0;  // of text_ into skeleton_
  Snapshot out_;
};

// By the model's own reader.
std::optional<model::Frame> parse_frame(std::string_view text) {
  json frame = model::parse_json(text);
  if (!frame.is_object()) {
    return std::nullopt;
  }
  json thread;
  thread["frames"] = json::array({std::move(frame)});
  json process;
  process["schema"] = model::kStacksSchema;
  process["threads"] = json::array({std::move(thread)});
  auto p = model::process_stacks_from_json(process);
  if (!p || p->threads.size() != 1 || p->threads[0].frames.size() != 1) {
    return std::nullopt;
  }
  return std::move(p->threads[0].frames[0]);
}

}  // namespace

const model::Frame* FramePool::find(std::string_view text, size_t pc_begin, size_t pc_end) {
  key_.assign(text.substr(0, pc_begin));
  key_ += '\0';
  key_ += text.substr(pc_end);
  if (const auto it = by_text_.find(key_); it != by_text_.end()) {
    return it->second;
  }
  auto frame = parse_frame(text);
  if (!frame) {
    return nullptr;
  }
  const model::Frame* kept = keep(std::move(*frame));
  by_text_.emplace(key_, kept);
  return kept;
}

const model::Frame* FramePool::keep(model::Frame frame) {
  frames_.push_back(std::move(frame));
  return &frames_.back();
}

std::optional<Snapshot> parse_snapshot(std::string_view text, FramePool& pool) {
  return SnapshotParser(text, pool).parse();
}

Snapshot share_frames(model::ProcessStacks p, FramePool& pool) {
  Snapshot out;
  for (model::ThreadStack& t : p.threads) {
    FrameRefs& refs = out.frames.emplace_back();
    for (model::Frame& f : t.frames) {
      refs.push_back(pool.keep(std::move(f)));
    }
    t.frames.clear();
  }
  out.process = std::move(p);
  return out;
}

base::Result<Snapshot> read_snapshot(const std::string& path, FramePool& pool) {
  XPURUN_TRY_ASSIGN(const std::string text, base::read_regular_file(path));
  if (auto quick = parse_snapshot(text, pool)) {
    return std::move(*quick);
  }
  XPURUN_TRY_ASSIGN(model::ProcessStacks p, model::load_process_stacks(path));
  return share_frames(std::move(p), pool);
}

model::ProcessStacks with_frames(const Snapshot& s, const std::vector<bool>& wanted) {
  model::ProcessStacks out = s.process;
  for (size_t i = 0; i < out.threads.size(); ++i) {
    if (!wanted[i]) {
      continue;
    }
    for (const model::Frame* f : s.frames[i]) {
      out.threads[i].frames.push_back(*f);
    }
  }
  return out;
}

}  // namespace xpurun::report
