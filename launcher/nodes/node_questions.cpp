#include "launcher/nodes/node_questions.h"

#include <utility>

namespace xpurun::launcher {

AskMessage NodeQuestions::ask(std::string node, std::string verb, std::string arguments, Done done) {
  const uint64_t id = ++last_;
  open_[id].done = std::move(done);
  return {.id = id, .node = std::move(node), .verb = std::move(verb), .arguments = std::move(arguments)};
}

void NodeQuestions::answered(AnswersMessage message) {
  const auto it = open_.find(message.id);
  if (it == open_.end()) {
    return;
  }
  const bool last = message.last;
  if (!message.node.empty()) {
    it->second.answers.push_back(std::move(message));
  }
  if (last) {
    const Question question = std::move(it->second);
    open_.erase(it);
    question.done(question.answers);
  }
}

void NodeQuestions::lost() {
  for (const auto& [id, question] : std::exchange(open_, {})) {
    question.done(question.answers);
  }
}

}  // namespace xpurun::launcher
