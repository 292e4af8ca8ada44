// A pass through a graph, one operation after the other.
#pragma once

#include <cstddef>
#include <functional>

#include "composer/network/graph.h"

namespace composer {

/// Hears of the input and of each operation's output as it is made, and may put another in its
/// place.
using Made = std::function<void(size_t value, at::Tensor& tensor)>;

/// The graph's output for images [N, C, H, W]; the others are let go as soon as nothing reads them
/// any more.
at::Tensor pass(const Graph& graph, const at::Tensor& images, const Made& made);

}  // namespace composer
