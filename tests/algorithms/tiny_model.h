// A small network of our layers and what algorithms need around it.
#pragma once

#include "composer/logging/logger.h"
#include "composer/loop/state.h"
#include "nn/network/layers.h"
#include "nn/network/model.h"

namespace composer::test {

/// conv1 (strided, 3 input channels), pool, conv2 (3x3, strided), conv3 (1x1, strided), fc.
class TinyModel : public Model {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    return fc_(average_(conv3_(conv2_(op::relu(pool_(conv1_(input)))))));
  }
  int64_t num_classes() const override { return 5; }

 private:
  Slot& conv1_ = add<Conv2d>("conv1", Conv2dOptions{3, 16, {3, 3}, {2, 2}, {1, 1}});
  Slot& pool_ = add<MaxPool2d>("pool", Pool2dOptions{{3, 3}, {2, 2}, {1, 1}});
  Slot& conv2_ = add<Conv2d>("conv2", Conv2dOptions{16, 24, {3, 3}, {2, 2}, {1, 1}});
  Slot& conv3_ = add<Conv2d>("conv3", Conv2dOptions{24, 24, {1, 1}, {2, 2}});
  Slot& average_ = add<AdaptiveAvgPool2d>("average");
  Slot& fc_ = add<Linear>("fc", 24, 5);
};

/// A State at the start of `batches` batches, with the model, one batch of 4 images of 32 x 32 and
/// a logger.
struct Fixture {
  explicit Fixture(int64_t batches = 100) {
    at::manual_seed(17);
    state.model = std::make_shared<TinyModel>();
    state.batch.input = at::randn({4, 3, 32, 32});
    state.image_size = {32, 32};
    state.batch.target.classes = at::arange(4);
    state.run_length = {.batches_per_epoch = batches,
                        .samples_per_epoch = batches * 4,
                        .batch_size = 4,
                        .max_duration = {static_cast<double>(batches), TimeUnit::batch}};
    state.seed = 17;
    state.logger = &logger;
    logger.add(sink);
  }

  /// Loss of a forward pass on the batch.
  double loss() {
    const auto outputs = state.model->forward(state.batch.input);
    return state.model->loss(outputs, state.batch.target).item<double>();
  }

  /// The last value logged under `name`; fails when there is none.
  double logged(const std::string& name) {
    logger.commit("batch", state.time);
    logger.flush();
    return sink->values.at(name);
  }

  struct Sink : LogSink {
    void write(const Record& record) override {
      for (const auto& [name, value] : record.values) values[name] = value;
    }
    std::map<std::string, double> values;
  };

  State state;
  Logger logger;
  std::shared_ptr<Sink> sink = std::make_shared<Sink>();
};

}  // namespace composer::test
