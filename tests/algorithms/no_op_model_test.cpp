#include "algorithms/no_op_model.h"

#include <catch2/catch.hpp>

#include "nn/network/loss.h"
#include "tests/composer/tiny_run.h"

namespace composer::no_op_model_test {

TEST_CASE("ScalarModel says its one number of every class", "[no_op_model]") {
  ScalarModel model(5);
  CHECK(model.parameters().size() == 1);
  CHECK(model.weight.dim() == 0);
  CHECK(at::equal(model.forward(at::randn({3, 3, 8, 8})), at::full({3, 5}, 1.5)));
}

TEST_CASE("no_op_model keeps what the run is trained for", "[no_op_model]") {
  State state;
  state.model = std::make_shared<TinyModel>();
  const auto objective = make_objective("mse", {}, 2);
  state.model->set_objective(objective);
  NoOpModel().init(state);
  CHECK(&state.model->objective() == objective.get());
}

TEST_CASE("no_op_model puts one number in the place of the model, and a run goes on",
          "[no_op_model]") {
  Trainer trainer(tiny_parts());
  trainer.add<NoOpModel>("no_op_model");
  const auto summary = trainer.fit();
  CHECK(summary.status == "completed");
  CHECK(summary.metrics.at("loss/train") == Approx(std::log(2.0)));
  CHECK(trainer.state().model->num_classes() == 2);
  CHECK(weights_of(trainer).item<float>() == 1.5f);
}

}  // namespace composer::no_op_model_test
