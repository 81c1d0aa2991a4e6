#include "common/model/stacks/frame_columns.h"

#include "common/model/stacks/stack_fields.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <unordered_map>
#include <utility>

namespace xpurun::model {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& why) {
  throw json::other_error::create(501, why, nullptr);
}

// fields() visits the fields of every frame in the same order, so the n-th visit belongs to the n-th column.
class ColumnWriter {
 public:
  void add(const Frame& frame) {
    column_ = 0;
    fields(*this, frame);
    ++rows_;
  }

  template <typename T>
  void operator()(const char* key, const T& value, WhenEmpty = WhenEmpty::write) {
    if constexpr (Named<T>) {
      text(key, std::string(name_of(value)));
    } else if constexpr (std::same_as<T, std::string>) {
      text(key, value);
    } else {
      // Negative values of a frame's fields are meaningless.
      number(key, static_cast<uint64_t>(std::max<T>(value, T{})));
    }
  }
  void operator()(const char*, const std::vector<Local>& locals, WhenEmpty) {
    if (locals.empty()) {
      return;
    }
    ordered_json& list = locals_[std::to_string(rows_)] = ordered_json::array();
    for (const Local& l : locals) {
      JsonWriter writer(list.emplace_back());
      fields(writer, l);
    }
  }
  // Modules are few: their load biases make few texts, where addresses would make many.
  void address(uint64_t pc, uint64_t offset, uint64_t begin) {
    text("bias", pc == 0 ? "" : fmt::format("{:#x}", pc - offset));
    number("offset", offset);
    number("begin", begin);
  }

  void write(ordered_json& file) {
    ordered_json& columns = file["frames"] = ordered_json::object();
    for (Column& c : columns_) {
      if (c.any) {
        columns[c.key] = std::move(c.numbers);
      }
    }
    if (!locals_.empty()) {
      columns["locals"] = std::move(locals_);
    }
    file["strings"] = std::move(strings_);
  }

 private:
  struct Column {
    const char* key;
    std::string numbers;
    bool any = false;  // any value other than 0
  };

  void number(const char* key, uint64_t n) {
    if (rows_ == 0) {
      columns_.push_back({.key = key});
    }
    Column& c = columns_[column_++];
    c.any = c.any || n != 0;
    append_number(c.numbers, n);
  }
  void text(const char* key, const std::string& value) {
    const auto [it, fresh] = by_text_.try_emplace(value, strings_.size());
    if (fresh) {
      strings_.push_back(value);
    }
    number(key, it->second);
  }

  std::vector<Column> columns_;
  size_t column_ = 0;
  size_t rows_ = 0;
  ordered_json strings_ = ordered_json::array({""});
  std::unordered_map<std::string, size_t> by_text_ = {{"", 0}};
  ordered_json locals_;  // by row index
};

class ColumnReader {
 public:
  explicit ColumnReader(const json& file) {
    static const json kNone = json::object();
    const json* columns = member(file, "frames");
    columns_ = columns == nullptr ? &kNone : columns;
    if (const json* strings = member(file, "strings")) {
      for (const json& s : *strings) {
        strings_.push_back(&s.get_ref<const std::string&>());
      }
    }
    locals_ = member(*columns_, "locals");
    // Every frame has a kind.
    const json* kinds = member(*columns_, "kind");
    rows_ = kinds == nullptr ? 0 : numbers_of(*kinds).size();
    if (rows_ > kMostThreadText / sizeof(Frame)) {
      refuse("too many frames");
    }
  }

  size_t rows() const { return rows_; }
  Frame next() {
    Frame out;
    column_ = 0;
    fields(*this, out);
    ++row_;
    return out;
  }

  template <typename T>
  void operator()(const char* key, T& value, WhenEmpty = WhenEmpty::write) {
    const uint64_t n = number(key);
    if constexpr (Named<T>) {
      value = from_name<T>(text(n)).value_or(value);
    } else if constexpr (std::same_as<T, std::string>) {
      value = text(n);
    } else if constexpr (std::same_as<T, bool>) {
      value = n != 0;
    } else {
      if (!std::in_range<T>(n)) {
        refuse(fmt::format("not an integer in range: {}", n));
      }
      value = static_cast<T>(n);
    }
  }
  void operator()(const char*, std::vector<Local>& locals, WhenEmpty) {
    const json* list = locals_ == nullptr ? nullptr : member(*locals_, std::to_string(row_).c_str());
    if (list == nullptr) {
      return;
    }
    for (const json& l : *list) {
      JsonReader reader(l);
      fields(reader, locals.emplace_back());
    }
  }
  void address(uint64_t& pc, uint64_t& offset, uint64_t& begin) {
    const std::string& bias = text(number("bias"));
    offset = number("offset");
    begin = number("begin");
    if (!bias.empty()) {
      pc = std::strtoull(bias.c_str(), nullptr, 16) + offset;
    }
  }

 private:
  // Reads the current row of the next column. `key` names the column.
  uint64_t number(const char* key) {
    if (row_ == 0) {
      const json* column = member(*columns_, key);
      decoded_.push_back(column == nullptr ? std::vector<uint64_t>() : numbers_of(*column));
      if (column != nullptr && decoded_.back().size() != rows_) {
        refuse(fmt::format("column '{}' has {} entries, not {}", key, decoded_.back().size(), rows_));
      }
    }
    const std::vector<uint64_t>& column = decoded_[column_++];
    return column.empty() ? 0 : column[row_];
  }
  const std::string& text(uint64_t n) {
    static const std::string kEmpty;
    if (n == 0) {
      return kEmpty;
    }
    if (n >= strings_.size()) {
      refuse(fmt::format("there is no string {}", n));
    }
    const std::string& found = *strings_[n];
    // Every use counts: in a small file, all frames can refer to one long text.
    if (found.size() > text_left_) {
      refuse("the texts of the frames are too long");
    }
    text_left_ -= found.size();
    return found;
  }

  const json* columns_;
  const json* locals_ = nullptr;
  std::vector<const std::string*> strings_;
  std::vector<std::vector<uint64_t>> decoded_;
  size_t column_ = 0;
  size_t row_ = 0;
  size_t rows_ = 0;
  size_t text_left_ = kMostTableText;
};

}  // namespace

size_t text_size(const Frame& f) {
  size_t out = sizeof(Frame) + f.locals.size() * sizeof(Local) + f.func.size() + f.full_func.size() +
               f.file.size() + f.callee.size() + f.module.size() + f.build_id.size();
  for (const Local& l : f.locals) {
    out += l.name.size() + l.value.size() + l.pyspy.size();
  }
  return out;
}

void append_number(std::string& list, uint64_t n) {
  if (!list.empty()) {
    list += ' ';
  }
  fmt::format_to(std::back_inserter(list), "{}", n);
}

std::vector<uint64_t> numbers_of(const json& list) {
  const std::string& text = list.get_ref<const std::string&>();
  std::vector<uint64_t> out;
  out.reserve(static_cast<size_t>(std::count(text.begin(), text.end(), ' ')) + 1);
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    uint64_t n = 0;
    const auto [behind, error] = std::from_chars(at, end, n);
    if (error != std::errc() || (behind != end && (*behind != ' ' || behind + 1 == end))) {
      refuse(fmt::format("not a list of numbers at byte {}", at - text.data()));
    }
    out.push_back(n);
    at = behind == end ? end : behind + 1;
  }
  return out;
}

void write_frame_columns(ordered_json& file, std::span<const Frame> frames) {
  ColumnWriter writer;
  for (const Frame& f : frames) {
    writer.add(f);
  }
  writer.write(file);
}

std::vector<Frame> read_frame_columns(const json& file) {
  ColumnReader reader(file);
  std::vector<Frame> out;
  out.reserve(reader.rows());
  while (out.size() < reader.rows()) {
    out.push_back(reader.next());
  }
  return out;
}

}  // namespace xpurun::model
