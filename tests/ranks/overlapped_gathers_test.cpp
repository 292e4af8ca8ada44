// In which order divided weights are gathered, waited for and computed with: a unit's gather is
// begun before the unit ahead of it computes, and waited for after.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>
#include <vector>

#include "nn/distributed/process_group.h"
#include "nn/network/layers.h"
#include "nn/network/sharded_parameters.h"

namespace composer::overlapped_gathers_test {

namespace {

using Log = std::vector<std::string>;

/// Layer i has widths[i] x widths[i + 1] weights, whose number tells it from the others.
const std::vector<int64_t> widths{4, 16, 32, 48, 4};
const std::vector<std::string> layers{"0", "1", "2", "3"};

std::string layer_of(const at::Tensor& row) {
  for (size_t i = 0; i < layers.size(); ++i)
    if (row.numel() == widths[i] * widths[i + 1]) return layers[i];
  return "unknown";
}

/// A collective that is over as soon as it is waited for.
class LoggedWork : public c10d::Work {
 public:
  LoggedWork(Log& log, std::string line) : log_(log), line_(std::move(line)) {}
  bool wait(std::chrono::milliseconds) override {
    log_.push_back(line_);
    return true;
  }

 private:
  Log& log_;
  std::string line_;
};

/// Rank 0 of two, whose other rank sends ones.
class LoggedGroup : public c10d::ProcessGroup {
 public:
  explicit LoggedGroup(Log& log)
      : ProcessGroup(c10::make_intrusive<c10d::HashStore>(), 0, 2), log_(log) {}

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    if (options.rootRank != getRank()) tensors[0].fill_(1);
    return begun("gather ", layer_of(tensors[0]));
  }
  c10::intrusive_ptr<c10d::Work> reduce(std::vector<at::Tensor>& tensors,
                                        const c10d::ReduceOptions&) override {
    return begun("sum ", layer_of(tensors[0]));
  }

 private:
  c10::intrusive_ptr<c10d::Work> begun(const std::string& what, const std::string& layer) {
    log_.push_back(what + layer);
    return c10::make_intrusive<LoggedWork>(log_, "wait for " + what + layer);
  }

  Log& log_;
};

class LoggedRanks : public ProcessGroupCommunicator {
 public:
  explicit LoggedRanks(Log& log) : group_(c10::make_intrusive<LoggedGroup>(log)) {}

  int64_t rank() const override { return 0; }
  int64_t size() const override { return 2; }
  void sum(const std::vector<at::Tensor>&) override {}
  void broadcast(const std::vector<at::Tensor>&, int64_t) override {}
  at::Tensor gather(const at::Tensor& tensor) override { return at::stack({tensor, tensor}); }
  void exchange(const std::vector<at::Tensor>&, const std::vector<at::Tensor>&) override {}
  void barrier() override {}
  std::shared_ptr<Communicator> part(const std::vector<int64_t>&, const std::string&) override {
    return nullptr;
  }
  void abort() override {}
  c10::intrusive_ptr<c10d::ProcessGroup> group() const override { return group_; }

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

/// Logs when its block computes, forward and, before what is in front of it, backward.
class Passed : public Layer {
 public:
  Passed(Log& log, std::string name) : log_(log), name_(std::move(name)) {}
  at::Tensor forward(const at::Tensor& input) override {
    log_.push_back("forward " + name_);
    if (input.requires_grad())
      input.register_hook([this](const at::TensorBase&) { log_.push_back("backward " + name_); });
    return op::scale(input, 2);
  }
  std::string describe() const override { return "Passed"; }

 private:
  Log& log_;
  std::string name_;
};

class LoggedBlock : public Block {
 public:
  LoggedBlock(Log& log, const std::string& name, int64_t inputs, int64_t outputs) {
    add<Linear>("fc", inputs, outputs, /*bias=*/false);
    add<Passed>("passed", log, name);
  }
  at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
};

class LoggedModel : public Model {
 public:
  explicit LoggedModel(Log& log) {
    for (size_t i = 0; i < layers.size(); ++i)
      add<LoggedBlock>("layer" + layers[i], log, layers[i], widths[i], widths[i + 1]);
  }
  at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
  int64_t num_classes() const override { return widths.back(); }
};

/// Every second layer belongs to the other rank.
std::vector<std::pair<at::Tensor, int64_t>> owners_of(const Model& model) {
  std::vector<std::pair<at::Tensor, int64_t>> owners;
  for (const auto& parameter : model.parameters())
    owners.emplace_back(parameter, owners.size() % 2);
  return owners;
}

}  // namespace

TEST_CASE("the next unit's weights are gathered while a unit computes", "[ranks]") {
  Log log;
  const auto model = std::make_shared<LoggedModel>(log);
  ShardedParameters weights(model, owners_of(*model), Ranks(std::make_shared<LoggedRanks>(log)),
                            {});
  const auto forward = [&] {
    log.clear();
    weights.begin_pass();
    auto output = model->forward(at::ones({2, widths[0]}));
    weights.end_pass();
    return output;
  };
  const auto backward = [&](const at::Tensor& output) {
    log.clear();
    weights.before_backward();
    output.sum().backward();
    weights.after_backward(/*last=*/true);
    for (const auto& parameter : model->parameters()) parameter.mutable_grad().reset();
  };

  // The first passes find out what follows what.
  auto output = forward();
  CHECK(log == Log{"gather 0", "wait for gather 0", "forward 0",  //
                   "gather 1", "wait for gather 1", "forward 1",  //
                   "gather 2", "wait for gather 2", "forward 2",  //
                   "gather 3", "wait for gather 3", "forward 3"});
  backward(output);

  for (int step = 0; step < 2; ++step) {
    CAPTURE(step);
    weights.begin_update();
    output = forward();
    CHECK(log == Log{"gather 0", "wait for gather 0",               //
                     "gather 1", "forward 0", "wait for gather 1",  //
                     "gather 2", "forward 1", "wait for gather 2",  //
                     "gather 3", "forward 2", "wait for gather 3",  //
                     "forward 3"});
    // The last unit still has its weights. A unit's sum goes on while the next one computes.
    backward(output);
    CHECK(log == Log{"gather 2", "backward 3",                                                  //
                     "sum 3", "wait for gather 2", "gather 1", "backward 2",                    //
                     "wait for sum 3", "sum 2", "wait for gather 1", "gather 0", "backward 1",  //
                     "wait for sum 2", "sum 1", "wait for gather 0", "backward 0",              //
                     "wait for sum 1", "sum 0", "wait for sum 0"});
  }

  // An evaluation gathers ahead too, and keeps nothing.
  const at::NoGradGuard no_grad;
  for (int i = 0; i < 2; ++i) {
    forward();
    CHECK(log == Log{"gather 0", "wait for gather 0",               //
                     "gather 1", "forward 0", "wait for gather 1",  //
                     "gather 2", "forward 1", "wait for gather 2",  //
                     "gather 3", "forward 2", "wait for gather 3",  //
                     "forward 3"});
  }
}

}  // namespace composer::overlapped_gathers_test
