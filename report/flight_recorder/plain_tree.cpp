#include "report/flight_recorder/plain_tree.h"

#include "common/base/strings.h"

namespace xpurun::report {

std::span<const PlainValue> PlainTree::items(const PlainValue& value) const {
  const bool container =
      value.kind == PlainKind::list || value.kind == PlainKind::tuple || value.kind == PlainKind::dict;
  return container ? std::span<const PlainValue>(nodes_[value.node]) : std::span<const PlainValue>();
}

const PlainValue* PlainTree::member(const PlainValue& dict, std::string_view key) const {
  if (dict.kind != PlainKind::dict) {
    return nullptr;
  }
  const auto pairs = items(dict);
  for (size_t i = pairs.size() / 2; i-- > 0;) {
    if (pairs[2 * i].kind == PlainKind::text && pairs[2 * i].text == key) {
      return &pairs[2 * i + 1];
    }
  }
  return nullptr;
}

PlainValue PlainTree::add_container(PlainKind kind) {
  nodes_.emplace_back();
  return {.kind = kind, .node = static_cast<uint32_t>(nodes_.size() - 1)};
}

std::optional<int64_t> integer_of(const PlainValue* value) {
  if (value == nullptr) {
    return std::nullopt;
  }
  switch (value->kind) {
    case PlainKind::integer:
    case PlainKind::boolean:
      return value->integer;
    case PlainKind::text:
      return base::parse_int(value->text);
    default:
      return std::nullopt;
  }
}

std::string_view text_of(const PlainValue* value) {
  return value != nullptr && value->kind == PlainKind::text ? value->text : std::string_view();
}

}  // namespace xpurun::report
