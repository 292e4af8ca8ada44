#include "composer/run_requests.h"

#include <utility>

#include "composer/algorithm.h"
#include "composer/clock.h"
#include "composer/logging/log.h"
#include "composer/text.h"

namespace composer {
namespace {

/// A word that came from elsewhere, for one line of a log: its first bytes, in quotes.
std::string in_quotes(const std::string& word) {
  constexpr size_t most = 40;
  std::string text = word.substr(0, most);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  return "'" + text + (word.size() > most ? "...'" : "'");
}

}  // namespace

const std::vector<std::string>& RunRequests::names() {
  static const std::vector<std::string> all{"checkpoint", "stop"};
  return all;
}

void RunRequests::look(RunControl& control, bool now) {
  const double time = steady_seconds();
  if (mailbox_ == nullptr || (!now && time < next_look_)) return;
  next_look_ = time + 1;
  for (auto& request : mailbox_->take()) {
    if (request.name == "checkpoint") {
      log::info("another process asked for a checkpoint");
      control.request_checkpoint();
    } else if (request.name == "stop") {
      control.request_stop("another process asked for it");
    } else {
      const auto problem = "unknown request " + in_quotes(request.name) +
                           "; this run understands " + joined(names());
      log::warn(problem);
      mailbox_->answer(request, {false, problem});
      continue;
    }
    waiting_.push_back(std::move(request));
  }
}

void RunRequests::serve_checkpoint() {
  std::erase_if(waiting_, [&](const Request& request) {
    if (request.name != "checkpoint") return false;
    served_.push_back(request);
    return true;
  });
}

void RunRequests::answer(const Answer& saved) {
  for (const auto& request : std::exchange(served_, {})) mailbox_->answer(request, saved);
}

void RunRequests::answer_all(const Answer& saved) {
  served_.insert(served_.end(), waiting_.begin(), waiting_.end());
  waiting_.clear();
  answer(saved);
}

}  // namespace composer
