// Runs in float64, whose ranks can be compared closely.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "composer/run/trainer.h"
#include "data/datasets/synthetic.h"
#include "nn/network/layers.h"
#include "nn/optimization/optimizers.h"
#include "tests/ranks.h"

namespace composer::test {

/// Strided convolutions with group norm, a pooling and a linear head, for images of 16 x 16.
class GroupNormModel : public Model {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    const auto first = pool_(op::relu(norm1_(conv1_(input))));
    return fc_(average_(op::relu(norm2_(conv2_(first)))));
  }
  int64_t num_classes() const override { return 10; }
  bool by_rows() const override { return true; }

 private:
  Slot& conv1_ = add<Conv2d>("conv1", Conv2dOptions{3, 8, {3, 3}, {1, 1}, {1, 1}});
  Slot& norm1_ = add<GroupNorm>("norm1", 2, 8);
  Slot& pool_ = add<MaxPool2d>("pool", Pool2dOptions{{3, 3}, {2, 2}, {1, 1}});
  Slot& conv2_ = add<Conv2d>("conv2", Conv2dOptions{8, 32, {3, 3}, {2, 2}, {1, 1}});
  Slot& norm2_ = add<GroupNorm>("norm2", 4, 32);
  Slot& average_ = add<AdaptiveAvgPool2d>("average");
  Slot& fc_ = add<Linear>("fc", 32, 10);
};

/// Makes network and batches float64. seen: where not null, gets each training batch.
class InDouble : public Algorithm {
 public:
  explicit InDouble(std::vector<Batch>* seen = nullptr) : seen_(seen) {}

  std::string prevents_sharding() const override { return {}; }
  /// After surgery, before all that sees a batch.
  Order order(Event event) const override {
    return event == Event::init ? Order::last : Order::first;
  }
  void init(State& state) override { state.model->to(at::kDouble); }
  void after_dataloader(State& state) override {
    state.batch.input = state.batch.input.to(at::kDouble);
    if (seen_ != nullptr) seen_->push_back(state.batch);
  }
  void eval_batch_start(State& state) override {
    state.batch.input = state.batch.input.to(at::kDouble);
  }

 private:
  std::vector<Batch>* seen_;
};

/// What a rank's run comes to.
struct Trained {
  std::map<std::string, at::Tensor> weights;  ///< copies, by name
  std::vector<double> losses;                 ///< of rank 0, batch by batch
  std::map<std::string, double> metrics;      ///< the last ones of rank 0
  Timestamp time;
  Summary summary;
};

class ValuesSink : public LogSink {
 public:
  void write(const Record& record) override {
    for (const auto& [name, value] : record.values) {
      last[name] = value;
      if (name == "loss/train") losses.push_back(value);
    }
  }
  std::map<std::string, double> last;
  std::vector<double> losses;
};

inline std::shared_ptr<Loader> noise_loader(int64_t samples, int64_t batch_size, bool is_train,
                                            const Ranks& ranks, int64_t size = 16) {
  SyntheticDataset::Params params;
  params.height = params.width = size, params.num_classes = 10, params.samples = samples;
  params.is_train = params.shuffle = is_train, params.drop_last = false;
  return SyntheticDataset(params).open(
      {.batch_size = batch_size, .seed = 17, .rank = ranks.rank(), .world_size = ranks.size()});
}

/// Parts of a run on the CPU that writes nothing: `batches` of `batch_size`, 9 of them an epoch,
/// the last one of 4 samples.
inline TrainerParts small_parts(std::shared_ptr<Model> model, int64_t batches, int64_t batch_size) {
  TrainerParts parts;
  parts.options.train_batch_size = batch_size;
  parts.options.eval_batch_size = 6;
  parts.options.max_duration = {static_cast<double>(batches), TimeUnit::batch};
  parts.options.log_interval = {1, TimeUnit::batch};
  parts.options.device = "cpu";
  parts.options.run_dir = "";
  parts.options.progress_bar = false;
  parts.console = false;
  parts.model = std::move(model);
  SgdParams sgd;
  sgd.lr = 0.0625, sgd.momentum = 0.875, sgd.weight_decay = 0.001;
  parts.optimizer = std::make_shared<Sgd>(sgd);
  return parts;
}

/// Changes the parts of a rank, adds to its trainer.
struct Setup {
  int64_t batches = 50, batch_size = 12, image_size = 16, spatial_ranks = 1;
  std::function<std::shared_ptr<Model>()> model = [] { return std::make_shared<GroupNormModel>(); };
  std::function<void(TrainerParts&)> change = [](TrainerParts&) {};
  std::function<void(Trainer&)> add = [](Trainer&) {};
};

/// Trains on `size` ranks; returns what rank 0 has, once all have the same weights.
Trained train_on(int64_t size, const Setup& setup);

/// Largest difference of a tensor, as a share of its largest number.
inline double difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

/// The same over all weights.
inline double difference(const Trained& a, const Trained& b) {
  double largest = a.weights.size() == b.weights.size() ? 0 : 1;
  for (const auto& [name, weight] : b.weights)
    largest = std::max(largest, difference(a.weights.at(name), weight));
  return largest;
}

}  // namespace composer::test
