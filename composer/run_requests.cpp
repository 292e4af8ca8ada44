#include "composer/run_requests.h"

#include "composer/algorithm.h"
#include "composer/clock.h"
#include "composer/logging/log.h"
#include "composer/text.h"

namespace composer {

const std::vector<std::string>& RunRequests::names() {
  static const std::vector<std::string> all{"checkpoint", "stop"};
  return all;
}

void RunRequests::look(RunControl& control) {
  const double now = steady_seconds();
  if (mailbox_ == nullptr || now < next_look_) return;
  next_look_ = now + 1;
  for (auto& request : mailbox_->take()) {
    if (request.name == "checkpoint") {
      log::info("another process asked for a checkpoint");
      control.request_checkpoint();
    } else if (request.name == "stop") {
      control.request_stop("another process asked for it");
    } else {
      const auto problem =
          "unknown request '" + request.name + "'; this run understands " + joined(names());
      log::warn(problem);
      mailbox_->answer(request, {false, problem});
      continue;
    }
    waiting_.push_back(std::move(request));
  }
}

void RunRequests::answer(const Answer& saved, bool last) {
  std::erase_if(waiting_, [&](const Request& request) {
    if (!last && request.name != "checkpoint") return false;
    mailbox_->answer(request, saved);
    return true;
  });
}

}  // namespace composer
