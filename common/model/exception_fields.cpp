#include "common/model/exception_fields.h"

#include "common/base/strings.h"
#include "common/model/secrets/redact.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace xpurun::model {

namespace {

constexpr std::string_view kOutOfMemory = "CUDA out of memory.";

// The size at the start of the text: "20.00 MiB".
std::optional<uint64_t> size_at(std::string_view text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos || space + 1 >= text.size()) {
    return std::nullopt;
  }
  // parse_size() recognises units by their first letter.
  const std::string_view unit = text.substr(space + 1, 3);
  std::string number(text.substr(0, space));
  if (unit == "KiB" || unit == "MiB" || unit == "GiB" || unit == "TiB") {
    number += unit[0];
  } else if (!unit.starts_with("byt") && !unit.starts_with("B")) {
    return std::nullopt;
  }
  return base::parse_size(number);
}

std::optional<uint64_t> size_after(std::string_view text, std::string_view words) {
  const size_t at = text.find(words);
  return at == std::string_view::npos ? std::nullopt : size_at(text.substr(at + words.size()));
}

// "(GPU 0; 79.15 GiB total capacity; 77.00 GiB already allocated; ...": the size in front of the words.
std::optional<uint64_t> size_before(std::string_view text, std::string_view words) {
  const size_t at = text.find(words);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view before = text.substr(0, at);
  const size_t unit = before.rfind(' ');
  const size_t number = unit == std::string_view::npos || unit == 0 ? unit : before.rfind(' ', unit - 1);
  return number == std::string_view::npos ? std::nullopt : size_at(before.substr(number + 1));
}

std::optional<uint64_t> either(std::optional<uint64_t> a, std::optional<uint64_t> b) {
  return a ? a : b;
}

std::string_view introduction(Relation next) {
  switch (next) {
    case Relation::cause:
      return "\nThe above exception was the direct cause of the following exception:\n\n";
    case Relation::context:
      return "\nDuring handling of the above exception, another exception occurred:\n\n";
    case Relation::member:
      return "\nThe exception above is one of the following group:\n\n";
    case Relation::none:
      break;
  }
  return "\n";
}

void mask(PythonException& e) {
  for (ExceptionLink& link : e.chain) {
    link.message = redact_text(link.message);
    for (PythonFrame& frame : link.frames) {
      frame.source = redact_source(frame.source);
    }
  }
}

// "Process 4711 has 20.00 GiB memory in use."
void add_other_processes(std::string_view message, OutOfMemory& o) {
  constexpr std::string_view kProcess = "Process ";
  uint64_t most = 0;
  for (size_t at = message.find(kProcess); at != std::string_view::npos; at = message.find(kProcess, at)) {
    at += kProcess.size();
    const std::string_view rest = message.substr(at);
    const auto pid = base::parse_int(rest.substr(0, rest.find(' ')));
    const auto bytes = size_after(rest.substr(0, rest.find(". ")), " has ");
    if (!pid || !bytes) {
      continue;
    }
    o.others = o.others.value_or(0) + *bytes;
    if (*bytes > most) {
      most = *bytes;
      o.other = static_cast<base::Pid>(*pid);
    }
  }
}

}  // namespace

std::map<std::string, std::string> identity_in_message(std::string_view text) {
  std::map<std::string, std::string> out;
  const nlohmann::json j = parse_json(text);
  const auto found = j.is_object() ? j.find("identity") : j.end();
  if (j.is_object() && found != j.end() && found->is_object()) {
    for (const auto& [name, value] : found->items()) {
      if (value.is_string()) {
        out.emplace(name, value.get<std::string>());
      }
    }
  }
  return out;
}

base::Pid parent_in_message(std::string_view text) {
  const nlohmann::json j = parse_json(text);
  const auto found = j.is_object() ? j.find("parent") : j.end();
  return j.is_object() && found != j.end() && found->is_number_integer() ? found->get<base::Pid>() : 0;
}

base::Result<PythonException> exception_from_message(std::string_view text) {
  const nlohmann::json j = parse_json(text);
  if (j.is_discarded()) {
    return base::fail("not valid JSON");
  }
  XPURUN_TRY_ASSIGN(PythonException e, read_object<PythonException>(kExceptionSchema, "exception", j));
  if (e.chain.empty()) {
    return base::fail("an exception without a type");
  }
  mask(e);
  return e;
}

void drop_details(PythonException& exception) {
  constexpr size_t kMessageBytes = 500;
  exception.chain.resize(1);
  ExceptionLink& link = exception.chain.front();
  link.message = base::sanitize_lines(link.message.substr(0, kMessageBytes));
  constexpr size_t kFrames = 5;
  if (link.frames.size() > kFrames) {
    link.left_out += static_cast<int>(link.frames.size() - kFrames);
    link.frames.erase(link.frames.begin(), link.frames.end() - kFrames);
  }
}

std::string traceback_text(const PythonException& exception) {
  std::string out;
  const auto& chain = exception.chain;
  // Python prints the earliest exception first.
  for (size_t i = chain.size(); i-- > 0;) {
    const ExceptionLink& link = chain[i];
    out += link.frames.empty() ? "" : "Traceback (most recent call last):\n";
    for (size_t f = 0; f < link.frames.size(); ++f) {
      if (link.left_out > 0 && f == link.frames.size() / 2) {
        out += fmt::format("  [... {} frames ...]\n", link.left_out);
      }
      const PythonFrame& frame = link.frames[f];
      out += fmt::format("  File \"{}\", line {}, in {}\n", frame.file, frame.line, frame.function);
      out += frame.source.empty() ? "" : fmt::format("    {}\n", frame.source);
    }
    out += link.message.empty() ? link.type + "\n" : fmt::format("{}: {}\n", link.type, link.message);
    out += i > 0 ? introduction(link.relation) : "";
  }
  return out;
}

std::string headline(const ExceptionLink& link) {
  const std::string_view message = base::trim(link.message);
  const std::string_view first = base::trim(message.substr(0, message.find('\n')));
  return base::sanitize(first.empty() ? link.type : fmt::format("{}: {}", link.type, first));
}

std::optional<OutOfMemory> out_of_memory(const ExceptionLink& link) {
  const std::string_view m = link.message;
  if (!m.starts_with(kOutOfMemory)) {
    return std::nullopt;
  }
  OutOfMemory o;
  o.asked = size_after(m, "Tried to allocate ");
  o.total = either(size_after(m, "total capacity of "), size_before(m, " total capacity"));
  o.free = either(size_after(m, "of which "), size_before(m, " free"));
  o.allocated = either(size_after(m, "Of the allocated memory "), size_before(m, " already allocated"));
  o.reserved = size_before(m, " is reserved by PyTorch but unallocated");
  if (link.largest_free > 0) {
    o.largest = link.largest_free;
  }
  // In a container whose pids are not the driver's, PyTorch cannot tell its own process from the others.
  if (m.find("this process has ") != std::string_view::npos) {
    add_other_processes(m, o);
  }
  // Before 2.1 the message has the sum of both.
  if (const auto both = size_before(m, " reserved in total by PyTorch"); both && o.allocated) {
    o.reserved = *both > *o.allocated ? *both - *o.allocated : 0;
  }
  return o;
}

int port_in_use(const ExceptionLink& link) {
  const std::string_view m = link.message;
  if (m.find("ddress already in use") == std::string_view::npos &&
      m.find("EADDRINUSE") == std::string_view::npos) {
    return 0;
  }
  // "port: 29500, useIpv6: false", "bind to [::]:29500 (errno: 98", "('127.0.0.1', 8080)".
  constexpr std::array<std::string_view, 4> kBefore = {":", "port: ", "port ", "', "};
  const auto digit = [&](size_t at) {
    return at < m.size() && std::isdigit(static_cast<unsigned char>(m[at]));
  };
  for (size_t at = 0, end = 0; at < m.size(); at = std::max(end, at + 1)) {
    for (end = at; digit(end);) {
      ++end;
    }
    const bool named = end > at && std::any_of(kBefore.begin(), kBefore.end(), [&](std::string_view before) {
                         return m.substr(0, at).ends_with(before);
                       });
    const auto port = named ? base::parse_int(m.substr(at, end - at)) : std::nullopt;
    if (port && *port > 0 && *port < 65536) {
      return static_cast<int>(*port);
    }
  }
  return 0;
}

}  // namespace xpurun::model
