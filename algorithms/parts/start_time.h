// Times from which and intervals at which a method acts.
#pragma once

#include <string>

#include "base/time.h"

namespace composer {

struct State;

/// `time`, which is no number of seconds, as a share of the run; 0 where the run's length is no
/// number of batches.
double share_of_run(const RunLength& run_length, const Time& time);

/// Whether the run has come as far as `time`, which is no number of seconds.
bool reached(const State& state, const Time& time);

/// Warns where `time`, the value of `key`, is not before the end of the run.
void warn_if_never(const State& state, const std::string& key, const Time& time);

/// Warns where `time`, the value of `key`, is longer than the run.
void warn_if_longer(const State& state, const std::string& key, const Time& time);

/// A line for Params::check() where reached() cannot tell `time`, the value of `key`; else "".
std::string check_start(const std::string& key, const Time& time);

/// A line for Params::check() where `time`, the value of `key`, is no number of epochs or batches;
/// else "".
std::string check_ep_or_ba(const std::string& key, const Time& time);

}  // namespace composer
