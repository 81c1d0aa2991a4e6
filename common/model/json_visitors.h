// One field list per struct drives to_json(), from_json() and the round-trip test. A struct joins with a
// function template in its .cpp:
//
//   template <typename V, Self<Death> D>
//   void fields(V& visit, D& d) { visit("order", d.order); ... }
//
// fields() must be in xpurun::model itself, not in an unnamed namespace: argument-dependent lookup must find
// it.
//
// JsonWriter takes D = const Death, JsonReader D = Death. A missing member leaves the field at its default; a
// member of a wrong type throws json::exception, which read_object() turns into an error. Heavy header: for
// .cpp files of common/model only.
#pragma once

#include "common/base/os/io.h"
#include "common/base/os/wait_status.h"
#include "common/base/result.h"
#include "common/base/strings.h"
#include "common/model/json_fields.h"
#include "common/model/names.h"
#include "common/model/rank_set.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <concepts>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace xpurun::model {

template <typename A, typename T>
concept Self = std::same_as<std::remove_const_t<A>, T>;

// Whether to write a field whose value is empty (0, false, "", no elements).
enum class WhenEmpty { write, omit };

class JsonWriter;
class JsonReader;

template <typename T>
concept HasFields = requires(const T& value, JsonWriter& visit) {
  fields(visit, value);
};

class JsonWriter {
 public:
  explicit JsonWriter(nlohmann::ordered_json& object) : object_(object) {}

  template <typename T>
  void operator()(const char* key, const T& value, WhenEmpty empty = WhenEmpty::write) {
    if (empty == WhenEmpty::write || !is_empty(value)) {
      object_[key] = to_value(value);
    }
  }
  // A rank; null for a process without a rank.
  void rank(const char* key, base::Rank value) { object_[key] = rank_or_null(value); }
  // An index; null if negative.
  void index(const char* key, int value) {
    object_[key] = value < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
  }
  // An address as "0x7f00", because JavaScript would lose digits of a JSON number.
  void hex(const char* key, uint64_t value, WhenEmpty empty = WhenEmpty::write) {
    if (empty == WhenEmpty::write || value != 0) {
      object_[key] = fmt::format("{:#x}", value);
    }
  }
  // A code or an index; omitted if negative.
  void optional(const char* key, int value) {
    if (value >= 0) {
      object_[key] = value;
    }
  }
  // A number; omitted if negative.
  void optional(const char* key, double value) {
    if (value >= 0) {
      object_[key] = value;
    }
  }
  // "0-3,7"
  void ranks_text(const char* key, const RankSet& value) { object_[key] = value.text(); }
  // A struct; omitted as a whole unless `present`.
  template <typename T>
  void optional(const char* key, const T& value, bool present) {
    if (present) {
      object_[key] = to_value(value);
    }
  }
  // A write-only member: another form of a field, for people.
  template <typename T>
  void derived(const char* key, const T& value) {
    object_[key] = value;
  }
  // Two lists of equal length: the names and the numbers of the elements.
  template <typename T, Named E>
  void columns(const char* names, E T::*name, const char* numbers, double T::*number,
               const std::vector<T>& values) {
    auto& first = object_[names] = nlohmann::ordered_json::array();
    for (const T& value : values) {
      first.push_back(std::string(name_of(value.*name)));
    }
    auto& second = object_[numbers] = nlohmann::ordered_json::array();
    for (const T& value : values) {
      second.push_back(value.*number);
    }
  }
  // A read-only member, from older versions.
  template <typename T>
  void fallback(const char*, const char*, const T&) {}
  // Puts the fields of `inner` into a separate object under `key`.
  template <typename F>
  void nested(const char* key, F&& inner) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    JsonWriter writer(object);
    inner(writer);
    object_[key] = std::move(object);
  }

 private:
  template <typename T>
  static bool is_empty(const T& value) {
    if constexpr (requires { value.empty(); }) {
      return value.empty();
    } else if constexpr (std::equality_comparable<T>) {
      return value == T{};
    } else {
      return false;
    }
  }
  template <typename T>
  static nlohmann::ordered_json to_value(const T& value) {
    if constexpr (Named<T>) {
      return std::string(name_of(value));
    } else if constexpr (std::same_as<T, char>) {
      return std::string(1, value);
    } else if constexpr (std::same_as<T, base::WaitStatus>) {
      return value.raw();
    } else if constexpr (std::same_as<T, RankSet>) {
      return value.ranks();
    } else if constexpr (HasFields<T>) {
      nlohmann::ordered_json object = nlohmann::ordered_json::object();
      JsonWriter writer(object);
      fields(writer, value);
      return object;
    } else {
      return nlohmann::ordered_json(value);
    }
  }
  static nlohmann::ordered_json to_value(const std::vector<RankSet>& values) {
    auto list = nlohmann::ordered_json::array();
    for (const RankSet& value : values) {
      list.push_back(value.ranks());
    }
    return list;
  }
  template <Named T>
  static nlohmann::ordered_json to_value(const std::vector<T>& values) {
    auto list = nlohmann::ordered_json::array();
    for (const T value : values) {
      list.push_back(std::string(name_of(value)));
    }
    return list;
  }
  template <Named K, std::integral T, typename Order>
  static nlohmann::ordered_json to_value(const std::map<K, T, Order>& values) {
    auto object = nlohmann::ordered_json::object();
    for (const auto& [name, value] : values) {
      object[std::string(name_of(name))] = value;
    }
    return object;
  }
  template <HasFields T>
  static nlohmann::ordered_json to_value(const std::vector<T>& values) {
    auto list = nlohmann::ordered_json::array();
    for (const T& value : values) {
      list.push_back(to_value(value));
    }
    return list;
  }

  nlohmann::ordered_json& object_;
};

class JsonReader {
 public:
  explicit JsonReader(const nlohmann::json& object) : object_(object) {}

  template <typename T>
  void operator()(const char* key, T& value, WhenEmpty = WhenEmpty::write) {
    if (const nlohmann::json* found = find(key)) {
      read(*found, value);
    }
  }
  void rank(const char* key, base::Rank& value) { (*this)(key, value); }
  void index(const char* key, int& value) { (*this)(key, value); }
  void hex(const char* key, uint64_t& value, WhenEmpty = WhenEmpty::write) {
    if (const nlohmann::json* found = find(key)) {
      value = std::strtoull(found->get_ref<const std::string&>().c_str(), nullptr, 16);
    }
  }
  void optional(const char* key, int& value) { (*this)(key, value); }
  void optional(const char* key, double& value) { (*this)(key, value); }
  void ranks_text(const char* key, RankSet& value) {
    if (const nlohmann::json* found = find(key)) {
      value = RankSet::parse(found->get_ref<const std::string&>()).value_or(RankSet());
    }
  }
  template <typename T>
  void optional(const char* key, T& value, bool& present) {
    if (const nlohmann::json* found = find(key)) {
      present = true;
      read(*found, value);
    }
  }
  template <typename T>
  void derived(const char*, const T&) {}
  // Elements with names of a later version are left out.
  template <typename T, Named E>
  void columns(const char* names, E T::*name, const char* numbers, double T::*number,
               std::vector<T>& values) {
    std::vector<std::string> first;
    std::vector<double> second;
    (*this)(names, first);
    (*this)(numbers, second);
    values.clear();
    for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
      if (const auto known = from_name<E>(first[i])) {
        T& value = values.emplace_back();
        value.*name = *known;
        value.*number = second[i];
      }
    }
  }
  // Reads an older version's member into `value` unless `newer` is present.
  template <typename T>
  void fallback(const char* key, const char* newer, T& value) {
    if (find(newer) == nullptr) {
      (*this)(key, value);
    }
  }
  template <typename F>
  void nested(const char* key, F&& inner) {
    if (const nlohmann::json* found = find(key)) {
      JsonReader reader(*found);
      inner(reader);
    }
  }

 private:
  // Treats null like an absent member. Throws if object_ is not an object.
  [[nodiscard]] const nlohmann::json* find(const char* key) const {
    if (!object_.is_object()) {
      throw nlohmann::json::type_error::create(302, "not an object", &object_);
    }
    return member(object_, key);
  }

  template <typename T>
  static void read(const nlohmann::json& j, T& value) {
    if constexpr (Named<T>) {
      value = from_name<T>(j.get_ref<const std::string&>()).value_or(value);
    } else if constexpr (std::same_as<T, bool>) {
      value = j.get<bool>();
    } else if constexpr (std::same_as<T, char>) {
      const auto& text = j.get_ref<const std::string&>();
      value = text.empty() ? value : text[0];
    } else if constexpr (std::integral<T>) {
      value = to_integer<T>(j);
    } else if constexpr (std::same_as<T, base::WaitStatus>) {
      value = base::WaitStatus(to_integer<int>(j));
    } else if constexpr (std::same_as<T, RankSet>) {
      std::vector<base::Rank> ranks;
      for (const nlohmann::json& r : j) {
        ranks.push_back(to_integer<base::Rank>(r));
      }
      value = RankSet::of(ranks);
    } else if constexpr (HasFields<T>) {
      JsonReader reader(j);
      fields(reader, value);
    } else {
      j.get_to(value);
    }
  }
  // Names of a later version are left out.
  template <Named T>
  static void read(const nlohmann::json& j, std::vector<T>& values) {
    std::vector<std::string> names;
    read(j, names);
    values.clear();
    for (const std::string& name : names) {
      if (const auto known = from_name<T>(name)) {
        values.push_back(*known);
      }
    }
  }
  template <Named K, std::integral T, typename Order>
  static void read(const nlohmann::json& j, std::map<K, T, Order>& values) {
    std::map<std::string, T> named;
    read(j, named);
    values.clear();
    for (const auto& [name, value] : named) {
      if (const auto known = from_name<K>(name)) {
        values[*known] = value;
      }
    }
  }
  template <std::integral T>
  static void read(const nlohmann::json& j, std::map<std::string, T>& values) {
    values.clear();
    if (!j.is_object()) {
      throw nlohmann::json::type_error::create(302, "not an object", &j);
    }
    for (const auto& [name, value] : j.items()) {
      values[name] = to_integer<T>(value);
    }
  }
  template <typename T>
  static void read(const nlohmann::json& j, std::vector<T>& values) {
    values.clear();
    if (!j.is_array()) {
      throw nlohmann::json::type_error::create(302, "not an array", &j);
    }
    for (const nlohmann::json& e : j) {
      read(e, values.emplace_back());
    }
  }

  const nlohmann::json& object_;
};

// The JSON of a whole file: `schema`, then the fields.
template <HasFields T>
nlohmann::ordered_json write_object(std::string_view schema, const T& value) {
  nlohmann::ordered_json j;
  j["schema"] = schema;
  JsonWriter writer(j);
  fields(writer, value);
  return j;
}

// `what` names the kind of file in errors: "malformed dump manifest: ...".
template <HasFields T>
base::Result<T> read_object(std::string_view schema, std::string_view what, const nlohmann::json& j) {
  try {
    if (const std::string found = j.value("schema", ""); found != schema) {
      // Files come from anywhere, and errors are printed.
      return base::fail(
          fmt::format("schema is '{}', expected '{}'", base::sanitize(found.substr(0, 100)), schema));
    }
    T out;
    JsonReader reader(j);
    fields(reader, out);
    return out;
  } catch (const nlohmann::json::exception& e) {
    return base::fail(fmt::format("malformed {}: {}", what, e.what()));
  }
}

// Parses the file at `path` with `from_json`. Errors name the path.
template <typename T>
base::Result<T> load_object(const std::string& path, base::Result<T> (*from_json)(const nlohmann::json&)) {
  XPURUN_TRY_ASSIGN(const std::string text, base::read_regular_file(path));
  const nlohmann::json j = parse_json(text);
  if (j.is_discarded()) {
    return base::fail(fmt::format("{}: not valid JSON (truncated?)", path));
  }
  auto out = from_json(j);
  if (!out) {
    return base::fail(std::move(out.error()).context(path));
  }
  return out;
}

}  // namespace xpurun::model
