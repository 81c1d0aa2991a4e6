#include "report/diagnosis/ends/origin.h"

#include "common/base/strings.h"
#include "common/model/evidence/traceback_frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace xpurun::report {

using model::ExceptionLink;
using model::PythonException;

namespace {

constexpr std::string_view kTraceback = "Traceback (most recent call last):";
constexpr std::string_view kOriginal = "Original ";

// Between the exceptions of a chain Python prints a sentence, "During handling of the above exception, ...:".
bool introduces(std::string_view line) {
  return line.starts_with("During handling of the above exception") ||
         line.starts_with("The above exception was the direct cause");
}

void read_type(std::string_view line, ExceptionLink& link) {
  const size_t colon = line.find(": ");
  link.type = std::string(line.substr(0, colon));
  link.message = colon == line.npos ? "" : std::string(line.substr(colon + 2));
}

// "Caught ValueError in DataLoader worker process 1." -> "DataLoader worker process 1"
std::string worker_in(std::string_view message) {
  std::string_view first = base::trim(message.substr(0, message.find('\n')));
  const size_t in = first.find(" in ");
  if (!first.starts_with("Caught ") || in == first.npos) {
    return "";
  }
  first.remove_prefix(in + 4);
  return std::string(first.ends_with('.') ? first.substr(0, first.size() - 1) : first);
}

// str() of a group ends with the number of its members: "3 shards failed (3 sub-exceptions)".
bool is_group(const ExceptionLink& link) {
  const std::string_view first =
      base::trim(std::string_view(link.message).substr(0, link.message.find('\n')));
  return first.ends_with(" sub-exception)") || first.ends_with(" sub-exceptions)");
}

// The thread of the pool's owner that writes tasks into a queue: no process of the pool has got the task.
bool not_sent(const ExceptionLink& link) {
  return std::any_of(link.frames.begin(), link.frames.end(), [](const model::PythonFrame& f) {
    return f.function == "_feed" && f.file.ends_with("multiprocessing/queues.py");
  });
}

std::optional<Origin> origin_with(Carrier carrier, std::string name, ExceptionLink link) {
  return link.empty() ? std::nullopt : std::optional(Origin{carrier, std::move(name), std::move(link)});
}

}  // namespace

ExceptionLink parse_traceback(std::string_view text) {
  ExceptionLink out;
  bool inside = false;  // between the header of a traceback and its last line
  for (const std::string_view line : base::split(text, '\n')) {
    if (line.starts_with(kTraceback)) {
      out = {};
      inside = true;
    } else if (inside && !line.empty() && line.front() != ' ' && !introduces(line)) {
      read_type(line, out);
      inside = false;
    }
  }
  if (!out.empty()) {
    out.frames = model::traceback_frames(text);
  }
  return out;
}

std::optional<Origin> origin_of(const PythonException& exception) {
  if (exception.chain.empty()) {
    return std::nullopt;
  }
  const ExceptionLink& front = exception.chain.front();
  const std::string_view message = front.message;
  const size_t original = message.find(fmt::format("{}{}", kOriginal, kTraceback));
  if (original != message.npos) {
    return origin_with(Carrier::worker, worker_in(message),
                       parse_traceback(message.substr(original + kOriginal.size())));
  }
  const auto first_of = [&](auto is) {
    return std::find_if(exception.chain.begin() + 1, exception.chain.end(), is);
  };
  if (const auto remote =
          first_of([](const ExceptionLink& l) { return l.type.ends_with("RemoteTraceback"); });
      remote != exception.chain.end() && remote->relation == model::Relation::cause) {
    ExceptionLink link = parse_traceback(remote->message);
    return not_sent(link) ? std::nullopt : origin_with(Carrier::pool, "", std::move(link));
  }
  if (const auto member =
          first_of([](const ExceptionLink& l) { return l.relation == model::Relation::member; });
      is_group(front) && member != exception.chain.end()) {
    return origin_with(Carrier::group, "", *member);
  }
  return std::nullopt;
}

}  // namespace xpurun::report
