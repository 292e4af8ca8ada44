// A layer's weights in the orders in which oneDNN reads them.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace composer {

/// The best order depends on the number of images and of threads: in another one, every call would
/// bring all weights into its own. Each is made when it is first asked for; the few that were asked
/// for last are kept.
class PackedWeights {
 public:
  using Shape = std::vector<int64_t>;
  using Pack = std::function<at::Tensor(const Shape& input)>;
  /// input: the layer's, with any number of images.
  PackedWeights(Shape input, Pack pack) : input_(std::move(input)), pack_(std::move(pack)) {}

  /// From any thread.
  at::Tensor for_images(int64_t images) const {
    const Work work{images, at::get_num_threads()};
    const std::lock_guard lock(mutex_);
    auto found = std::ranges::find(packed_, work, &std::pair<Work, at::Tensor>::first);
    if (found == packed_.end()) {
      if (packed_.size() == most_kept) packed_.pop_back();
      auto input = input_;
      input[0] = images;
      found = packed_.emplace(packed_.end(), work, pack_(input));
    }
    std::rotate(packed_.begin(), found, found + 1);
    return packed_.front().second;
  }

 private:
  static constexpr size_t most_kept = 4;

  /// Decides on the order.
  struct Work {
    int64_t images;
    int threads;
    bool operator==(const Work&) const = default;
  };

  const Shape input_;
  const Pack pack_;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<Work, at::Tensor>> packed_;  ///< the last one asked for first
};

}  // namespace composer
