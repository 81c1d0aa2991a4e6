// NodeQuestions: control requests that this node has put to others, until all answers are there. Event loop's
// thread only.
#pragma once

#include "launcher/nodes/node_messages.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace xpurun::launcher {

class NodeQuestions {
 public:
  using Done = std::function<void(const std::vector<AnswersMessage>&)>;

  // The message to send: the question with its number. `done` is called once, with the answers so far if the
  // helper is lost.
  AskMessage ask(AskMessage question, Done done);
  void answered(AnswersMessage message);
  void lost();

 private:
  struct Question {
    std::vector<AnswersMessage> answers;
    Done done;
  };
  std::map<uint64_t, Question> open_;
  uint64_t last_ = 0;
};

}  // namespace xpurun::launcher
