// Reads JSON into a PlainTree. The parser uses one callback per value and does not recurse.
#include "report/flight_recorder/plain_tree.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace xpurun::report {

namespace {

class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(const PlainLimits& limits) : limits_(limits) {}

  bool null() override { return put({}); }
  bool boolean(bool value) override { return put({.kind = PlainKind::boolean, .integer = value}); }
  bool number_integer(number_integer_t value) override {
    return put({.kind = PlainKind::integer, .integer = value});
  }
  bool number_unsigned(number_unsigned_t value) override {
    const bool fits = value <= static_cast<number_unsigned_t>(INT64_MAX);
    return fits ? number_integer(static_cast<int64_t>(value)) : number_float(static_cast<double>(value), {});
  }
  bool number_float(number_float_t value, const string_t&) override {
    return put({.kind = PlainKind::real, .real = value});
  }
  bool string(string_t& value) override {
    return put({.kind = PlainKind::text, .text = tree_.keep(std::move(value))});
  }
  bool binary(binary_t&) override { return put({}); }
  bool start_object(size_t) override { return open(PlainKind::dict); }
  bool key(string_t& name) override { return string(name); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(PlainKind::list); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    return refuse(fmt::format("not valid JSON at byte {} (truncated?)", position));
  }

  base::Result<PlainTree> finish() && {
    if (!problem_.empty()) {
      return base::fail(problem_);
    }
    return std::move(tree_);
  }

 private:
  bool put(PlainValue value) {
    if (++values_ > limits_.values) {
      return refuse("too many values");
    }
    (open_.empty() ? tree_.root : tree_.content(open_.back()).emplace_back()) = value;
    return true;
  }
  bool open(PlainKind kind) {
    if (tree_.containers() >= limits_.containers || open_.size() >= limits_.depth) {
      return refuse("too many or too deeply nested containers");
    }
    const PlainValue container = tree_.add_container(kind);
    const bool good = put(container);
    open_.push_back(container);
    return good;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  bool refuse(std::string why) {
    problem_ = std::move(why);
    return false;
  }

  PlainLimits limits_;
  PlainTree tree_;
  std::vector<PlainValue> open_;
  size_t values_ = 0;
  std::string problem_;
};

}  // namespace

base::Result<PlainTree> read_plain_json(std::string_view text, const PlainLimits& limits) {
  Builder builder(limits);
  nlohmann::json::sax_parse(text, &builder);
  return std::move(builder).finish();
}

}  // namespace xpurun::report
