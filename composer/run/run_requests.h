// Requests of other processes to a run while it trains.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/files/mailbox.h"

namespace composer {

class RunControl;

/// The stop reason after a request of another process.
inline constexpr const char* stop_request_text = "another process asked for it";

class RunRequests {
 public:
  RunRequests() = default;
  /// mailbox: the run's mailbox, which must outlive the calls; null if the run has no folder.
  explicit RunRequests(Mailbox* mailbox) : mailbox_(mailbox) {}

  /// The names of known requests.
  static const std::vector<std::string>& names();

  /// Takes requests at a batch's end, at most once a second unless `now`, and passes them on.
  /// Refuses unknown requests, and one for a trace with another number of steps than a waiting one.
  void look(RunControl& control, bool now = false);
  /// Returns the requested number of steps to trace once, then 0.
  int64_t take_steps_to_trace() { return std::exchange(steps_to_trace_, 0); }
  /// Marks the requests for `name` so far as being served.
  void serve(const std::string& name);
  /// Answers the requests for `name` that are being served.
  void answer(const std::string& name, const Answer& answer);
  /// Answers all requests at the end of the run. saved: the answer about the last checkpoint.
  void answer_all(const Answer& saved);

 private:
  std::string take(const Request& request, RunControl& control);

  Mailbox* mailbox_ = nullptr;
  double next_look_ = 0;  ///< time of the next look, on the steady clock
  int64_t steps_to_trace_ = 0;
  std::vector<Request> waiting_, served_;
};

}  // namespace composer
