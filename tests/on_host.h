// What runs kernels of cuda/ on the CPU.
#pragma once

#include <limits>
#include <vector>

#include "cuda/grid.h"

namespace composer::cuda {

/// A kernel's blocks one after another, and within a phase its threads.
struct OnHost {
  template <class Kernel>
  void operator()(const Grid& grid, const Kernel& kernel) {
    for (int y = 0; y < grid.blocks_y; ++y)
      for (int x = 0; x < grid.blocks_x; ++x) {
        std::vector<float> shared(grid.shared / sizeof(float),
                                  std::numeric_limits<float>::quiet_NaN());
        for (int phase = 0; phase < Kernel::phases; ++phase)
          for (int b = 0; b < grid.lanes_y; ++b)
            for (int a = 0; a < grid.lanes_x; ++a)
              kernel.phase(phase, Place{x, y, a, b, grid.lanes_x, grid.lanes_y}, shared.data());
      }
  }
};

}  // namespace composer::cuda
