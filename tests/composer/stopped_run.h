// For tests that stop a run and resume it: the stop, and the comparison of what both leave.
#pragma once

#include <catch2/catch.hpp>

#include "composer/checkpoint/safetensors.h"
#include "composer/loop/algorithm.h"
#include "composer/loop/state.h"

namespace composer {

struct StopAt : Callback {
  explicit StopAt(int64_t batch) : batch(batch) {}
  void batch_end(const State& state, Logger&, RunControl& control) override {
    if (state.time.batch == batch) control.request_stop("the test says so");
  }
  int64_t batch;
};

inline void check_equal(const TensorMap& a, const TensorMap& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, tensor] : a) {
    CAPTURE(name);
    CHECK(at::equal(tensor, b.at(name)));
  }
}

}  // namespace composer
