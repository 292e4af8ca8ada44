#include "composer/run/run_requests.h"

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "composer/loop/algorithm.h"

namespace composer {
namespace {

/// A foreign word for one line of a log: its first characters, in quotes.
std::string in_quotes(const std::string& word) {
  constexpr size_t most = 40;
  size_t size = std::min(word.size(), most);
  const auto is_within_character = [&](size_t at) {
    return at < word.size() && (static_cast<unsigned char>(word[at]) & 0xc0) == 0x80;
  };
  while (size > 0 && is_within_character(size)) --size;
  std::string text = word.substr(0, size);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  return "'" + text + (size < word.size() ? "...'" : "'");
}

/// The requested number of steps; 0 if it is not valid.
int64_t steps_of(const Request& request) {
  const auto given = request.arguments.find("steps");
  if (given == request.arguments.end()) return 5;
  const auto steps = to_number<int64_t>(given->second).value_or(0);
  return steps >= 1 && steps <= 1000 ? steps : 0;
}

}  // namespace

const std::vector<std::string>& RunRequests::names() {
  static const std::vector<std::string> all{"checkpoint", "stop", "trace"};
  return all;
}

void RunRequests::look(RunControl& control, bool now) {
  const double time = steady_seconds();
  if (mailbox_ == nullptr || (!now && time < next_look_)) return;
  next_look_ = time + 1;
  for (auto& request : mailbox_->take()) {
    const auto problem = take(request, control);
    if (problem.empty()) {
      waiting_.push_back(std::move(request));
    } else {
      log::warn(problem);
      mailbox_->answer(request, {false, problem});
    }
  }
}

/// Accepts a request; returns the reason if it is refused.
std::string RunRequests::take(const Request& request, RunControl& control) {
  if (request.name == "checkpoint") {
    log::info("another process asked for a checkpoint");
    control.request_checkpoint();
  } else if (request.name == "stop") {
    control.request_stop(stop_request_text);
  } else if (request.name == "trace") {
    const auto steps = steps_of(request);
    if (steps == 0) return "steps of a trace: must be a whole number from 1 to 1000";
    for (const auto& other : waiting_)
      if (other.name == request.name && steps_of(other) != steps)
        return "a trace of " + std::to_string(steps_of(other)) +
               " steps has been asked for and has not begun; ask again when it is there, or for as "
               "many steps";
    log::info("another process asked for a trace of " + std::to_string(steps) + " steps");
    steps_to_trace_ = std::max(steps_to_trace_, steps);
  } else {
    return "unknown request " + in_quotes(request.name) + "; this run understands " +
           joined(names());
  }
  return "";
}

void RunRequests::serve(const std::string& name) {
  std::erase_if(waiting_, [&](const Request& request) {
    if (request.name != name) return false;
    served_.push_back(request);
    return true;
  });
}

void RunRequests::answer(const std::string& name, const Answer& answer) {
  std::erase_if(served_, [&](const Request& request) {
    if (request.name != name) return false;
    mailbox_->answer(request, answer);
    return true;
  });
}

void RunRequests::answer_all(const Answer& saved) {
  for (const auto& name : names()) {
    serve(name);
    answer(name, name == "trace" ? Answer{false, "training ended before its next step"} : saved);
  }
}

}  // namespace composer
