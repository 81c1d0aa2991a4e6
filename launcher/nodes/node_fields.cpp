#include "launcher/nodes/node_fields.h"

#include "common/model/json/json_text.h"
#include "common/model/verdict_fields.h"
#include "launcher/nodes/node_limits.h"

#include <optional>

namespace xpurun::launcher {

template <typename V, Self<StartMessage> M>
void fields(V& visit, M& m) {
  visit("run", m.run);
  visit("node", m.node);
  visit("node_rank", m.node_rank);
  visit("nodes", m.nodes);
  visit("instance", m.instance);
  visit("host", m.host);
  visit("local_ranks", m.local_ranks);
  visit("world_size", m.world_size);
  visit("url", m.url);
  visit("token", m.token);
  visit("user", m.user);
  visit("password", m.password);
  visit("creds", m.creds);
  visit("tls_ca", m.tls_ca);
  visit("tls_cert", m.tls_cert);
  visit("tls_key", m.tls_key);
  visit("auto", m.automatic);
  visit("secret_file", m.secret_file);
  visit("mark", m.mark);
  visit("directory", m.directory);
  visit("hang_timeout_s", m.hang_timeout_s);
  visit("gather_timeout_s", m.gather_timeout_s);
  visit("collect_all", m.collect_all);
}

template <typename V, Self<StalledMessage> M>
void fields(V& visit, M& m) {
  visit("stall", m.stall);
  visit("why", m.why);
  visit("ranks", m.ranks);
}

template <typename V, Self<DumpedMessage> M>
void fields(V& visit, M& m) {
  visit("request", m.request);
  visit("directory", m.directory);
  visit("status", m.status);
  visit("reason", m.reason);
}

template <typename V, Self<AnswerMessage> M>
void fields(V& visit, M& m) {
  visit("id", m.id);
  visit("status", m.status);
  visit("body", m.body);
}

template <typename V, Self<AskMessage> M>
void fields(V& visit, M& m) {
  visit("id", m.id);
  visit("node", m.node);
  visit("verb", m.verb);
  visit("arguments", m.arguments);
  visit("limit_s", m.limit_s);
}

template <typename V, Self<EndMessage> M>
void fields(V& visit, M& m) {
  visit("exit_status", m.exit_status);
}

template <typename V, Self<JoinedMessage> M>
void fields(V& visit, M& m) {
  visit("server", m.server);
  visit("elected", m.elected);
  visit("nodes", m.nodes);
}

template <typename V, Self<AloneMessage> M>
void fields(V& visit, M& m) {
  visit("reason", m.reason);
}

template <typename V, Self<FailedMessage> M>
void fields(V& visit, M& m) {
  visit("reason", m.reason);
}

template <typename V, Self<NodeInfo> N>
void fields(V& visit, N& n) {
  visit("node", n.node);
  visit("node_rank", n.node_rank);
  visit("host", n.host);
  visit("phase", n.phase);
  visit("elapsed_s", n.elapsed_s);
  visit("still_s", n.still_s);
  visit("seen_s", n.seen_s);
  visit("alive", n.alive);
  visit("offset_ns", n.offset_ns);
  visit("uncertainty_ns", n.uncertainty_ns);
  visit("elected", n.elected);
  visit.optional("exit_status", n.exit_status);
  visit("expected", n.expected);
  visit("ranks", n.ranks);
}

template <typename V, Self<NodesMessage> M>
void fields(V& visit, M& m) {
  visit("nodes", m.nodes);
  visit("dropped", m.dropped);
}

template <typename V, Self<DumpMessage> M>
void fields(V& visit, M& m) {
  visit("request", m.request);
  visit("why", m.why);
  visit("at_wall_ns", m.at_wall_ns);
  visit("node", m.node);
  visit("ranks", m.ranks);
}

template <typename V, Self<GatheredNode> N>
void fields(V& visit, N& n) {
  visit("node", n.node);
  visit("host", n.host);
  visit("node_rank", n.node_rank);
  visit("status", n.status);
  visit("reason", n.reason);
  visit("ranks", n.ranks);
  visit("offset_ns", n.offset_ns);
  visit("uncertainty_ns", n.uncertainty_ns);
  visit("directory", n.directory);
  visit("dump", n.dump);
}

template <typename V, Self<GatheredMessage> M>
void fields(V& visit, M& m) {
  visit("request", m.request);
  visit("nodes", m.nodes);
}

template <typename V, Self<JobFilesMessage> M>
void fields(V& visit, M& m) {
  visit("request", m.request);
  visit("nodes", m.nodes);
  visit("reason", m.reason);
}

template <typename V, Self<RequestMessage> M>
void fields(V& visit, M& m) {
  visit("id", m.id);
  visit("node", m.node);
  visit("verb", m.verb);
  visit("arguments", m.arguments);
}

template <typename V, Self<AnswersMessage> M>
void fields(V& visit, M& m) {
  visit("id", m.id);
  visit("node", m.node);
  visit("status", m.status);
  visit("body", m.body);
  visit("last", m.last);
}

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

template <typename Variant>
std::string line_of(const Variant& message) {
  ordered_json j;
  std::visit(
      [&j](const auto& m) {
        j["type"] = m.kType;
        model::JsonWriter writer(j);
        fields(writer, m);
      },
      message);
  return model::json_text(j) + "\n";
}

// Reads `j` as T if T is named `type`.
template <typename T, typename Variant>
void read_as(std::string_view type, const json& j, std::optional<Variant>& out) {
  if (type == T::kType) {
    T message;
    model::JsonReader reader(j);
    fields(reader, message);
    out = std::move(message);
  }
}

template <typename... T>
base::Result<std::variant<T...>> message_of(std::string_view line, const std::variant<T...>* /*tag*/) {
  if (line.size() > kLongestLine) {
    return base::fail("the message is too long");
  }
  const json j = model::parse_json(line);
  const json* type = j.is_object() ? model::member(j, "type") : nullptr;
  if (type == nullptr || !type->is_string()) {
    return base::fail("the message is not a JSON object with a type");
  }
  std::optional<std::variant<T...>> out;
  try {
    (read_as<T>(type->get_ref<const std::string&>(), j, out), ...);
  } catch (const json::exception& e) {
    return base::fail(fmt::format("malformed message: {}", e.what()));
  }
  if (!out) {
    return base::fail("the message is of an unknown type");
  }
  return std::move(*out);
}

}  // namespace

std::string to_line(const ToHelper& message) {
  return line_of(message);
}

std::string to_line(const FromHelper& message) {
  return line_of(message);
}

base::Result<ToHelper> to_helper_from_line(std::string_view line) {
  return message_of(line, static_cast<const ToHelper*>(nullptr));
}

base::Result<FromHelper> from_helper_from_line(std::string_view line) {
  return message_of(line, static_cast<const FromHelper*>(nullptr));
}

}  // namespace xpurun::launcher
