// Whether bf16 is the faster arithmetic of this processor.
#pragma once

#include <functional>
#include <string>

namespace composer {

struct Bf16Instructions {
  std::string name;      ///< "AMX", "AVX512-BF16", ...; empty where it has none
  bool matrix = false;   ///< of whole tiles: always faster than float32
  bool limited = false;  ///< the environment keeps LibTorch from some instructions
};

/// Of this processor.
Bf16Instructions bf16_instructions();

/// How many times as fast as in float32 the passes of a few usual convolutions are in bf16, on one
/// thread: the best of alternating rounds, in at most about 0.3 s. Measured once a process.
double bf16_speedup();

struct Bf16Choice {
  bool faster;
  std::string reason;  ///< for people: "AMX"
};

/// bf16 counts as faster with unlimited matrix instructions, never without any, and else where
/// `speedup`, asked only then, is at least 1.1.
Bf16Choice choose_bf16(const Bf16Instructions& instructions,
                       const std::function<double()>& speedup);

}  // namespace composer
