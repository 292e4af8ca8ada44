#include "composer/callbacks/histogram_monitor.h"

#include "composer/logging/logger.h"
#include "composer/loop/state.h"
#include "nn/network/model.h"

namespace composer {
namespace {

void log_histograms(const State& state, Logger& logger) {
  for (const auto& item : state.model->named_parameters()) {
    logger.log_histogram("weights/" + item.key(), item.value());
    if (item.value().grad().defined())
      logger.log_histogram("gradients/" + item.key(), item.value().grad());
  }
}

}  // namespace

void HistogramMonitor::batch_end(const State& state, Logger& logger, RunControl&) {
  if (state.run_length.due(interval_, state.time, false)) log_histograms(state, logger);
}

void HistogramMonitor::epoch_end(const State& state, Logger& logger, RunControl&) {
  if (state.run_length.due(interval_, state.time, true)) log_histograms(state, logger);
}

}  // namespace composer
