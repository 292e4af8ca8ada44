#include "composer/callbacks/stragglers.h"

#include "base/clock.h"
#include "composer/logging/logger.h"
#include "composer/loop/state.h"
#include "nn/distributed/process_group.h"

namespace composer {

Stragglers::Reading Stragglers::read(const State& state) {
  const auto& group = dynamic_cast<const ProcessGroupCommunicator&>(*state.ranks.communicator());
  return {steady_seconds(), group.waited_seconds()};
}

void Stragglers::fit_start(const State& state, Logger&, RunControl&) { begin_ = read(state); }

void Stragglers::batch_end(const State& state, Logger& logger, RunControl&) {
  ++batches_;
  if (!state.run_length.due(log_interval_, state.time, false)) return;
  const auto now = read(state);
  const double waited = now.waited - begin_.waited;
  const double worked = now.passed - begin_.passed - waited;
  const auto of_all =
      state.ranks.gather(at::tensor({worked, waited}, at::kDouble)) / static_cast<double>(batches_);
  const auto work = of_all.select(1, 0);
  logger.log("ranks/slowest", static_cast<double>(work.argmax().item<int64_t>()));
  logger.log("ranks/slowest_excess", (work.max() - work.mean()).item<double>());
  logger.log("ranks/wait", of_all.select(1, 1).mean().item<double>());
  begin_ = read(state);
  batches_ = 0;
}

void Stragglers::eval_start(const State& state, Logger&, RunControl&) { eval_begin_ = read(state); }

void Stragglers::eval_end(const State& state, Logger&, RunControl&) {
  const auto now = read(state);
  begin_.passed += now.passed - eval_begin_.passed;
  begin_.waited += now.waited - eval_begin_.waited;
}

}  // namespace composer
