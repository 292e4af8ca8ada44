// How a process finds the other ranks of its run.
#pragma once

#include <ATen/ATen.h>

#include "base/rank_environment.h"
#include "nn/distributed/ranks.h"

namespace composer {

/// Meets the other ranks: Gloo between CPUs and, where `device` is a GPU, NCCL between those.
/// timeout_seconds: of the meeting and of every call later. Returns once all are there. For one
/// rank nothing is opened. RunError when they do not come.
Ranks join_ranks(const RankEnvironment& environment, at::Device device, double timeout_seconds);

}  // namespace composer
