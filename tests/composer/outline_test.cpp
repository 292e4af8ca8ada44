#include "nn/network/outline.h"

#include <catch2/catch.hpp>

#include "composer/checkpoint/checkpoint_folder.h"
#include "composer/checkpoint/safetensors.h"
#include "composer/checkpoint/weights.h"
#include "tiny_run.h"

namespace composer::outline_test {

using Lines = std::vector<std::string>;

TEST_CASE("the outline has a line a layer, those of inner blocks too", "[outline]") {
  TinyModel model;
  const auto lines = outline(model);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].starts_with("conv: Conv2d(3, 4, 3x3"));
  CHECK(lines[2].starts_with("fc: Linear(4, 2"));

  Sequential inner({std::make_shared<Linear>(2, 2)});
  Sequential outer({std::make_shared<Sequential>(
      std::vector<std::shared_ptr<Layer>>{std::make_shared<Linear>(2, 2)})});
  REQUIRE(outline(outer).size() == 1);
  CHECK(outline(outer)[0].starts_with("0.0: Linear"));
}

TEST_CASE("the outline says what follows a layer", "[outline]") {
  struct Net : Block {
    explicit Net(Activation next) { add<Linear>("fc", 2, 2).then(next); }
    at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
  };
  Net relu(Activation::relu), gelu(Activation::gelu), none(Activation::none);
  CHECK(outline(relu).at(1) == "fc.then: ReLU");
  CHECK(differences(outline(relu), outline(gelu)) == Lines{"fc.then: ReLU there, GELU here"});
  CHECK(differences(outline(none), outline(gelu)).empty());
}

TEST_CASE("differences name the layers, but for those that may differ", "[outline]") {
  const Lines there{"conv: BlurConv2d", "fc: Linear(4, 1000)", "old: Linear"};
  const Lines here{"conv: Conv2d", "fc: Linear(4, 2)", "new: Linear"};
  CHECK(differences(there, there).empty());
  CHECK(differences(there, here, {"fc.*"}) == Lines{"conv: BlurConv2d there, Conv2d here",
                                                    "old: Linear there, nothing here",
                                                    "new: nothing there, Linear here"});
}

TEST_CASE("what training alone does can be left out", "[outline]") {
  const auto rounds = in_training("rounds");
  CHECK(in_use({"a: Conv2d" + rounds, "b: Two: A" + rounds + ", B" + rounds + ", 4 channels",
                "c: Linear(4, [in] 2)"}) ==
        Lines{"a: Conv2d", "b: Two: A, B, 4 channels", "c: Linear(4, [in] 2)"});
}

TEST_CASE("an activation may have a slot of its own in one network only", "[outline]") {
  const Lines with{"bn1: BatchNorm2d(64)", "gelu: GELU", "layer1.relu: ReLU"};
  const Lines without{"bn1: BatchNorm2d(64)"};
  CHECK(differences(with, without).empty());
  CHECK(differences(without, with).empty());
  CHECK(differences({"gelu: GELU"}, {"gelu: ReLU"}) == Lines{"gelu: GELU there, ReLU here"});
  CHECK(differences({"gelu: GELU"}, {"gelu: Linear(2, 2)"}).size() == 1);
}

TEST_CASE("weights load whose network had slots for its activations", "[outline]") {
  const TemporaryFolder folder;
  TinyModel source;
  auto network = outline(source);
  network.insert(network.begin() + 1, "relu: ReLU");
  write_safetensors(folder / "w.safetensors", model_tensors(source),
                    to_metadata({"model: x\n", network, {}}));
  auto parts = tiny_parts();
  parts.train_loader = nullptr;  // evaluation, where another network is an error
  parts.optimizer = nullptr;
  parts.options.load_path = (folder / "w.safetensors").string();
  Trainer trainer(std::move(parts));
  trainer.evaluate();
  CHECK(at::equal(model_tensors(*trainer.state().model).at("fc.weight"),
                  model_tensors(source).at("fc.weight")));
}

TEST_CASE("an exported file says where its weights come from", "[outline]") {
  const TemporaryFolder folder;
  const Provenance provenance{"model: x\n", {"conv: Conv2d"}, {"cat", "dog \"big\""}};
  write_safetensors(folder / "w.safetensors", {{"a", at::ones({2})}}, to_metadata(provenance));
  const auto read = read_provenance(folder / "w.safetensors");
  CHECK(read.recipe == provenance.recipe);
  CHECK(read.network == provenance.network);
  CHECK(read.class_names == provenance.class_names);
  CHECK(at::equal(read_safetensors(folder / "w.safetensors").at("a"), at::ones({2})));

  write_safetensors(folder / "plain.safetensors", {{"a", at::ones({2})}});
  CHECK(read_provenance(folder / "plain.safetensors").network.empty());
}

}  // namespace composer::outline_test
