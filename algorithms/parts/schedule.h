// When a method acts: start times, intervals, and values that grow over a run.
#pragma once

#include <string>

#include "base/time.h"

namespace composer {

struct State;

/// `time`, not in seconds, as a share of the run; 0 where the length of the run in batches is
/// unknown.
double share_of_run(const RunLength& run_length, const Time& time);

/// Whether the run has reached `time`, which is not in seconds.
bool reached(const State& state, const Time& time);

/// Warns if `time`, the value of `key`, is not before the end of the run.
void warn_if_never(const State& state, const std::string& key, const Time& time);

/// Warns if `time`, the value of `key`, is longer than the run.
void warn_if_longer(const State& state, const std::string& key, const Time& time);

/// A line for Params::check() if reached() does not support `time`, the value of `key`; else "".
std::string check_start(const std::string& key, const Time& time);

/// A line for Params::check() if `time`, the value of `key`, is not in epochs or batches; else "".
std::string check_ep_or_ba(const std::string& key, const Time& time);

/// A scale that grows from `initial` to 1 when the share `elapsed` of training is done: `initial`
/// before `delay`, 1 from 1 - finetune on, linear in between. All are in [0, 1], and delay +
/// finetune is at most 1.
double grown_scale(double elapsed, double initial, double delay, double finetune);

/// A line for Params::check() if the two shares add up to more than 1; else "".
std::string check_shares(double delay_fraction, double finetune_fraction);

}  // namespace composer
