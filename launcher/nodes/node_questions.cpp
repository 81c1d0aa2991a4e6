#include "launcher/nodes/node_questions.h"

#include <utility>

namespace xpurun::launcher {

AskMessage NodeQuestions::ask(AskMessage question, Done done) {
  question.id = ++last_;
  open_[question.id].done = std::move(done);
  return question;
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
