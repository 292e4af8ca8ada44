#include "cli/main.h"
#include "composer/composer.h"

using namespace composer;

/// Logs the accuracy of the class that an evaluation knows least, and ends the run once that is
/// high enough.
class WorstClass final : public Callback {
 public:
  struct Params {
    double enough = 1;

    void fields(auto&& f) {
      f("enough", enough, "accuracy of the worst class that ends the run", in(0, 1));
    }
  };

  explicit WorstClass(Params params) : params_(params) {}

  void eval_start(const State& state, Logger&, RunControl&) override {
    const auto counts = at::TensorOptions(at::kFloat).device(state.device);
    right_ = at::zeros({state.model->num_classes()}, counts);
    seen_ = at::zeros({state.model->num_classes()}, counts);
  }

  /// Counts on the device: no batch waits for it.
  void eval_batch_end(const State& state, Logger&, RunControl&) override {
    const auto& classes = state.batch.target.classes;
    right_.index_add_(0, classes, state.outputs.argmax(1).eq(classes).to(at::kFloat));
    seen_.index_add_(0, classes, at::ones_like(classes, at::kFloat));
  }

  void eval_end(const State& state, Logger& logger, RunControl& control) override {
    const auto shares = (right_ / seen_).masked_select(seen_ > 0);
    if (shares.numel() == 0) return;
    const double worst = shares.min().item<double>();
    logger.log("metrics/" + state.evaluation_set + "/WorstClassAccuracy", worst);
    if (worst >= params_.enough)
      control.request_stop("every class is right in " + std::to_string(worst) + " of its images");
  }

 private:
  Params params_;
  at::Tensor right_, seen_;  ///< [num_classes], of this evaluation
};

int main(int argc, char** argv) {
  registry().callbacks.add<WorstClass>("worst_class", "ends a run that knows every class");
  return composer::main(argc, argv);
}
