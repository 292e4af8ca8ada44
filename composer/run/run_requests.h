// What other processes may ask of a run while it trains.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/files/mailbox.h"

namespace composer {

class RunControl;

/// Why a run stopped that another process asked to stop.
inline constexpr const char* stop_request_text = "another process asked for it";

class RunRequests {
 public:
  RunRequests() = default;
  /// mailbox: the run's, which must be there at every call; null where the run has no folder.
  explicit RunRequests(Mailbox* mailbox) : mailbox_(mailbox) {}

  /// The requests that are understood.
  static const std::vector<std::string>& names();

  /// At a batch's end: looks for requests, at most once a second of wall time unless it is to be
  /// now, and hands them on. One that is not understood is answered so, and one for
  /// a trace of other steps than those of one that has not begun.
  void look(RunControl& control, bool now = false);
  /// Steps that are to be traced, told once; 0: none.
  int64_t take_steps_to_trace() { return std::exchange(steps_to_trace_, 0); }
  /// Those who asked for `name` so far wait for what is being made of it.
  void serve(const std::string& name);
  /// Tells them what came of it.
  void answer(const std::string& name, const Answer& answer);
  /// The run is over: tells all who wait what came of its last checkpoint.
  void answer_all(const Answer& saved);

 private:
  std::string take(const Request& request, RunControl& control);

  Mailbox* mailbox_ = nullptr;
  double next_look_ = 0;  ///< seconds of the steady clock
  int64_t steps_to_trace_ = 0;
  std::vector<Request> waiting_, served_;
};

}  // namespace composer
