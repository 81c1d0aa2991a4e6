// TraceEvents: the events of a Chrome trace in JSON, one after the other, as text. The file is an object with
// a list "traceEvents", or the list itself. Other files that are one list of objects are read in the same
// way. Tolerant: what is wrong with one event concerns this event alone. About ten times as fast as a reader
// that makes a tree or calls back for each value.
#pragma once

#include <cstddef>
#include <functional>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

// A member of an object. Views are valid during the call.
struct JsonMember {
  std::string_view key;    // as written, without quotes
  std::string_view value;  // of a string: without quotes, with escapes; else as written
  bool is_string = false;
};

struct TraceEvent {
  std::vector<JsonMember> members;
  std::vector<JsonMember> arguments;  // of the member "args"
};

// Bytes. torch's longest strings are the inputs of an operation, some KiB.
inline constexpr size_t kLongestTraceEvent = size_t{16} << 20;

class TraceEvents {
 public:
  struct Handler {
    std::function<void(const TraceEvent&)> event;
    // A member of the object around the list: "baseTimeNanoseconds".
    std::function<void(const JsonMember&)> about;
    // An event that is no object of members. The text is its beginning.
    std::function<void(std::string_view)> bad;
    // False ends the reading.
    std::function<bool()> goes_on;
  };

  enum class End {
    whole,     // the text ended where it should
    cut,       // in the middle
    too_long,  // one event is longer than kLongestTraceEvent
    no_list,   // there is no list of events
  };
  // `list`: the name of the list.
  static End read(std::istream& text, const Handler& handler, std::string_view list = "traceEvents");
};

// Without escapes; a wrong escape stays as it is written.
std::string unescaped(std::string_view text);

}  // namespace xpurun::report
