#include "report/flight_recorder/pickle.h"

#include "report/flight_recorder/pickle_opcodes.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

namespace xpurun::report {

namespace {

using namespace pickle;

constexpr int kNewestProtocol = 5;
// Memo numbers are assigned in order; optimised pickles may skip some.
constexpr size_t kMemoGap = 256;

class Unpickler {
 public:
  Unpickler(std::string_view bytes, const PlainLimits& limits) : bytes_(bytes), limits_(limits) {}

  base::Result<PlainTree> run() {
    while (problem_.empty()) {
      start_ = at_;
      const uint8_t op = byte();
      if (!problem_.empty()) {
        break;
      }
      if (op == kStop) {
        return stop();
      }
      step(op);
    }
    return base::fail(fmt::format("{} at byte {}", problem_, start_));
  }

 private:
  void step(uint8_t op) {
    switch (op) {
      case kProto:
        if (const uint8_t version = byte(); version > kNewestProtocol) {
          refuse(fmt::format("pickle protocol {} is not known", version));
        }
        return;
      case kFrame:
        // A frame only announces how many bytes to read at once.
        static_cast<void>(number(8));
        return;
      case kMark:
        if (marks_.size() >= limits_.depth) {
          return refuse("nested too deeply");
        }
        return marks_.push_back(stack_.size());
      case kPop:
        // As in Python, POP directly after a MARK removes the mark.
        if (!marks_.empty() && marks_.back() == stack_.size()) {
          return marks_.pop_back();
        }
        static_cast<void>(pop());
        return;
      case kPopMark:
        return stack_.resize(mark());
      case kDup:
        return push(top());
      case kNone:
        return push({});
      case kNewTrue:
      case kNewFalse:
        return push({.kind = PlainKind::boolean, .integer = op == kNewTrue});
      default:
        return number_or_text(op);
    }
  }

  void number_or_text(uint8_t op) {
    switch (op) {
      case kBinInt1:
        return integer(static_cast<int64_t>(number(1)));
      case kBinInt2:
        return integer(static_cast<int64_t>(number(2)));
      case kBinInt:
        return integer(static_cast<int32_t>(static_cast<uint32_t>(number(4))));
      case kLong1:
        return long_integer(number(1));
      case kLong4:
        return long_integer(number(4));
      case kBinFloat: {
        const std::string_view raw = take(8);
        uint64_t bits = 0;
        for (const char c : raw) {
          bits = bits << 8 | static_cast<uint8_t>(c);
        }
        return push({.kind = PlainKind::real, .real = std::bit_cast<double>(bits)});
      }
      case kShortBinUnicode:
      case kShortBinString:
        return text(PlainKind::text, number(1));
      case kBinUnicode:
      case kBinString:
        return text(PlainKind::text, number(4));
      case kBinUnicode8:
        return text(PlainKind::text, number(8));
      case kShortBinBytes:
        return text(PlainKind::bytes, number(1));
      case kBinBytes:
        return text(PlainKind::bytes, number(4));
      case kBinBytes8:
        return text(PlainKind::bytes, number(8));
      default:
        return container_or_memo(op);
    }
  }

  void container_or_memo(uint8_t op) {
    switch (op) {
      case kEmptyList:
        return push(container(PlainKind::list));
      case kEmptyTuple:
        return push(container(PlainKind::tuple));
      case kEmptyDict:
        return push(container(PlainKind::dict));
      case kTuple1:
      case kTuple2:
      case kTuple3:
        return gather(PlainKind::tuple, floor_below(op - kTuple1 + 1u));
      case kTuple:
        return gather(PlainKind::tuple, mark());
      case kList:
        return gather(PlainKind::list, mark());
      case kDict:
        return gather(PlainKind::dict, mark());
      case kAppend:
        return extend(PlainKind::list, floor_below(1));
      case kAppends:
        return extend(PlainKind::list, mark());
      case kSetItem:
        return extend(PlainKind::dict, floor_below(2));
      case kSetItems:
        return extend(PlainKind::dict, mark());
      case kMemoize:
        return put(memo_.size());
      case kBinPut:
        return put(number(1));
      case kLongBinPut:
        return put(number(4));
      case kBinGet:
        return get(number(1));
      case kLongBinGet:
        return get(number(4));
      default:
        return refuse_opcode(op);
    }
  }

  void refuse_opcode(uint8_t op) {
    if (const std::string_view name = refused_opcode(op); !name.empty()) {
      return refuse(fmt::format("opcode {} is refused: only plain values are read", name));
    }
    refuse(fmt::format("unknown opcode {:#04x}", op));
  }

  base::Result<PlainTree> stop() {
    if (stack_.size() != 1 || !marks_.empty()) {
      return base::fail(
          fmt::format("the pickle ends with {} values instead of one at byte {}", stack_.size(), start_));
    }
    tree_.root = stack_.back();
    return std::move(tree_);
  }

  // Reading
  std::string_view take(uint64_t n) {
    if (n > bytes_.size() - at_) {
      refuse("the pickle is truncated");
      return {};
    }
    const std::string_view out = bytes_.substr(at_, n);
    at_ += n;
    return out;
  }
  uint8_t byte() {
    const std::string_view one = take(1);
    return one.empty() ? 0 : static_cast<uint8_t>(one[0]);
  }
  // Little-endian, unsigned.
  uint64_t number(size_t n) {
    const std::string_view raw = take(n);
    uint64_t out = 0;
    for (size_t i = raw.size(); i-- > 0;) {
      out = out << 8 | static_cast<uint8_t>(raw[i]);
    }
    return out;
  }
  void integer(int64_t value) { push({.kind = PlainKind::integer, .integer = value}); }
  // Two's complement of `n` bytes.
  void long_integer(uint64_t n) {
    if (n > 8) {
      return refuse("an integer is larger than 64 bits");
    }
    uint64_t value = number(n);
    const unsigned bits = static_cast<unsigned>(n) * 8;
    if (bits > 0 && bits < 64 && (value >> (bits - 1) & 1) != 0) {
      value |= ~uint64_t{0} << bits;
    }
    integer(static_cast<int64_t>(value));
  }
  void text(PlainKind kind, uint64_t size) { push({.kind = kind, .text = take(size)}); }

  // The stack
  void push(const PlainValue& value) {
    if (++values_ > limits_.values) {
      return refuse("too many values");
    }
    stack_.push_back(value);
  }
  // Values below the newest mark belong to an outer container.
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PlainValue top() {
    if (stack_.size() <= floor()) {
      refuse("an opcode finds no value");
      return {};
    }
    return stack_.back();
  }
  PlainValue pop() {
    const PlainValue value = top();
    if (problem_.empty()) {
      stack_.pop_back();
    }
    return value;
  }
  // Removes the newest mark and returns its position.
  size_t mark() {
    if (marks_.empty()) {
      refuse("an opcode finds no mark");
      return stack_.size();
    }
    const size_t at = marks_.back();
    marks_.pop_back();
    return at;
  }
  size_t floor_below(size_t n) {
    if (stack_.size() - floor() < n) {
      refuse("an opcode finds too few values");
      return stack_.size();
    }
    return stack_.size() - n;
  }
  PlainValue container(PlainKind kind) {
    if (tree_.containers() >= limits_.containers) {
      refuse("too many containers");
      return {};
    }
    return tree_.add_container(kind);
  }
  bool fits(PlainKind kind, size_t from) {
    if (kind == PlainKind::dict && (stack_.size() - from) % 2 != 0) {
      refuse("a dict has a key without a value");
    }
    return problem_.empty();
  }
  // Makes a container of the values from `from` on.
  void gather(PlainKind kind, size_t from) {
    const PlainValue made = problem_.empty() && fits(kind, from) ? container(kind) : PlainValue();
    if (!problem_.empty()) {
      return;
    }
    move_into(made, from);
    push(made);
  }
  // Moves the values from `from` on into the container below them.
  void extend(PlainKind kind, size_t from) {
    if (!problem_.empty() || !fits(kind, from)) {
      return;
    }
    if (from <= floor() || stack_[from - 1].kind != kind) {
      return refuse(fmt::format("an opcode finds no {}", kind == PlainKind::dict ? "dict" : "list"));
    }
    move_into(stack_[from - 1], from);
  }
  void move_into(const PlainValue& target, size_t from) {
    std::vector<PlainValue>& content = tree_.content(target);
    content.insert(content.end(), stack_.begin() + static_cast<ptrdiff_t>(from), stack_.end());
    stack_.resize(from);
  }

  // The memo
  void put(uint64_t index) {
    const PlainValue value = top();
    if (problem_.empty() && index > memo_.size() + kMemoGap) {
      refuse(fmt::format("memo number {} is out of order", index));
    }
    if (!problem_.empty()) {
      return;
    }
    if (index >= memo_.size()) {
      values_ += index + 1 - memo_.size();
      if (values_ > limits_.values) {
        return refuse("too many values");
      }
      memo_.resize(index + 1);
    }
    memo_[index] = {value, true};
  }
  void get(uint64_t index) {
    if (!problem_.empty()) {
      return;
    }
    if (index >= memo_.size() || !memo_[index].second) {
      return refuse(fmt::format("memo number {} was never stored", index));
    }
    push(memo_[index].first);
  }

  void refuse(std::string why) {
    if (problem_.empty()) {
      problem_ = std::move(why);
    }
  }

  std::string_view bytes_;
  PlainLimits limits_;
  size_t at_ = 0;
  size_t start_ = 0;  // of the current opcode
  PlainTree tree_;
  std::vector<PlainValue> stack_;
  std::vector<size_t> marks_;
  std::vector<std::pair<PlainValue, bool>> memo_;  // with a flag: stored
  size_t values_ = 0;
  std::string problem_;
};

}  // namespace

base::Result<PlainTree> read_pickle(std::string_view bytes, const PlainLimits& limits) {
  return Unpickler(bytes, limits).run();
}

}  // namespace xpurun::report
