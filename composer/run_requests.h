// What other processes may ask of a run while it trains.
#pragma once

#include <string>
#include <vector>

#include "composer/storage/mailbox.h"

namespace composer {

class RunControl;

class RunRequests {
 public:
  RunRequests() = default;
  /// mailbox: the run's, which must be there at every call; null where the run has no folder.
  explicit RunRequests(Mailbox* mailbox) : mailbox_(mailbox) {}

  /// The requests that are understood.
  static const std::vector<std::string>& names();

  /// At a batch's end: looks for requests, at most once a second of wall time unless it is to be
  /// now, and hands them on. One that is not understood is answered so.
  void look(RunControl& control, bool now = false);
  /// Those who asked for a checkpoint so far wait for the one that is being made.
  void serve_checkpoint();
  /// Tells them what came of it.
  void answer(const Answer& saved);
  /// Tells all who wait what came of the run's last checkpoint.
  void answer_all(const Answer& saved);

 private:
  Mailbox* mailbox_ = nullptr;
  double next_look_ = 0;  ///< seconds of the steady clock
  std::vector<Request> waiting_, served_;
};

}  // namespace composer
