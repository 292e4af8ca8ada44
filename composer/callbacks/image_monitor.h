// Shows what the network is trained on.
#pragma once

#include <string>
#include <vector>

#include "base/params/params.h"
#include "base/time.h"
#include "composer/loop/algorithm.h"
#include "nn/network/batch.h"

namespace composer {

/// images/train: images of a training batch as the network gets them, after all augmentation, in
/// the colours that they had before normalisation, with their labels as captions, and what their
/// set calls them. Of the run's first batch, and every `interval`.
class ImageMonitor : public Callback {
 public:
  struct Params {
    int64_t num_images = 16;
    Time interval{0, TimeUnit::batch};
    void fields(auto&& f) {
      f("num_images", num_images, "images of a batch; 0 = none", at_least(0));
      f("interval", interval,
        "how often after the first batch, in ep or ba; 0 = of the first batch alone");
    }
    std::string check() const {
      if (interval.unit == TimeUnit::sample) return "interval: must be in ep or ba\n";
      return check_interval("interval", interval);
    }
  };
  explicit ImageMonitor(Params params) : params_(params) {}

  bool listens(Event) const override { return params_.num_images > 0; }
  void batch_start(const State& state, Logger& logger, RunControl& control) override;

 private:
  Params params_;
};

/// input: float32 [N, C, H, W], normalised -> uint8 [N, H, W, C], rounded; what is out of range
/// becomes 0 or 255.
at::Tensor denormalize(const at::Tensor& input, const Normalization& normalization);

/// "cat", or of mixed labels "cat 0.70, dog 0.30"; numbers where there are no names. Waits for the
/// device.
std::vector<std::string> label_texts(const Target& target, const std::vector<std::string>& names);

}  // namespace composer
