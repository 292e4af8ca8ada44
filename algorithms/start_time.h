// Times from which a method acts: what those that begin or end in mid-run share.
#pragma once

#include <string>

#include "composer/time.h"

namespace composer {

struct State;

/// Whether the run has come as far as `time`, which is no number of seconds.
bool reached(const State& state, const Time& time);

/// A line for Params::check() where reached() cannot tell `time`, the value of `key`; else "".
std::string check_start(const std::string& key, const Time& time);

}  // namespace composer
