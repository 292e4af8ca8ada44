#include "composer/storage/weights.h"

#include <catch2/catch.hpp>

#include "composer/error.h"
#include "composer/network/layers.h"
#include "tests/composer/temporary_folder.h"

namespace composer::weights_test {
namespace {

using Catch::Matchers::Contains;

class Net : public Model {
 public:
  explicit Net(int64_t classes) : classes_(classes) {
    add<BatchNorm2d>("bn", 3);
    add<AdaptiveAvgPool2d>("pool");
    add<Linear>("fc", 3, classes);
  }
  at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
  int64_t num_classes() const override { return classes_; }

 private:
  int64_t classes_;
};

TensorMap copies(const Model& model) {
  auto tensors = model_tensors(model);
  for (auto& [name, tensor] : tensors) tensor = tensor.detach().clone();
  return tensors;
}

TEST_CASE("weights go from one model to another through a file", "[weights]") {
  const TemporaryFolder folder;
  Net source(4), target(4);
  source.forward(at::randn({2, 3, 4, 4}));
  write_safetensors(folder / "w.safetensors", model_tensors(source));
  const auto weight = target.named_parameters()["fc.weight"];
  load_weights(target, folder / "w.safetensors");
  for (const auto& [name, tensor] : model_tensors(target)) {
    INFO(name);
    CHECK(at::equal(tensor, model_tensors(source).at(name)));
  }
  CHECK(target.named_parameters()["fc.weight"].is_same(weight));
  CHECK(weight.requires_grad());
  CHECK(weight.is_leaf());
}

TEST_CASE("a checkpoint folder is taken, another folder is not", "[weights]") {
  const TemporaryFolder folder;
  Net source(4), target(4);
  std::filesystem::create_directory(folder / "ep1-ba2");
  CHECK_THROWS_WITH(load_weights(target, folder / "ep1-ba2"), Contains("not a checkpoint"));
  write_safetensors(folder / "ep1-ba2/model-00001-of-00001.safetensors", model_tensors(source));
  load_weights(target, folder / "ep1-ba2");
  CHECK(at::equal(model_tensors(target).at("fc.weight"), model_tensors(source).at("fc.weight")));
}

TEST_CASE("wrappers' prefixes are taken off, types converted, counters optional", "[weights]") {
  const TemporaryFolder folder;
  Net source(4), target(4);
  TensorMap wrapped;
  for (const auto& [name, tensor] : copies(source))
    if (!name.ends_with("num_batches_tracked")) wrapped["module." + name] = tensor.to(at::kHalf);
  write_safetensors(folder / "w.safetensors", wrapped);
  load_weights(target, folder / "w.safetensors");
  CHECK(at::allclose(model_tensors(target).at("fc.weight"), model_tensors(source).at("fc.weight"),
                     1e-2, 1e-3));
  CHECK(model_tensors(target).at("fc.weight").scalar_type() == at::kFloat);
}

TEST_CASE("a file under a library's names and shapes is read under the model's", "[weights]") {
  const TemporaryFolder folder;
  const auto file = folder / "w.safetensors";
  const PeerNames names{.paths = {{"fc", "head.fc"}, {"bn", "norm"}, {"bn.weight", "scale"}},
                        .shapes = {{"fc.weight", {4, 3, 1, 1}}}};
  const Net source(4);
  const auto tensors = copies(source);
  const auto theirs = in_names_of(names, tensors);
  CHECK(theirs.size() == tensors.size());
  CHECK(theirs.at("head.fc.weight").sizes() == at::IntArrayRef{4, 3, 1, 1});
  CHECK(theirs.contains("scale"));
  CHECK(theirs.contains("norm.bias"));
  write_safetensors(file, theirs, names_metadata(names, tensors));
  const auto read = read_weights(file);
  CHECK(read.size() == tensors.size());
  for (const auto& [name, tensor] : tensors) {
    INFO(name);
    REQUIRE(read.contains(name));
    CHECK(at::equal(read.at(name), tensor));
  }
  CHECK(names_metadata({}, tensors).empty());
  for (const std::string damage :
       {"[", R"({"scale": 1})", R"({"scale": {"name": "bn.bias", "shape": [4]},
              "norm.bias": {"name": "bn.bias", "shape": [4]}})"}) {
    INFO(damage);
    write_safetensors(file, theirs, {{"own_names", damage}});
    CHECK_THROWS_WITH(read_weights(file), Contains("'own_names' is damaged"));
  }
}

TEST_CASE("everything that does not fit is listed at once, and nothing is changed", "[weights]") {
  Net model(4);
  const auto before = copies(model);
  auto tensors = copies(Net(10));
  tensors["head.weight"] = at::ones({1});
  tensors.erase("bn.bias");
  try {
    assign_weights(model, tensors, "w.pth");
    FAIL("no error");
  } catch (const UserError& error) {
    const std::string text = error.what();
    CHECK(error.problems().size() == 3);
    CHECK_THAT(text, Contains("w.pth") && Contains("1 (bn.bias)") && Contains("1 (head.weight)"));
    CHECK_THAT(text, Contains("fc.weight: [10, 3] in the file, [4, 3] in the model"));
    CHECK_THAT(text, Contains("num_classes 10"));
  }
  for (const auto& [name, tensor] : model_tensors(model)) CHECK(at::equal(tensor, before.at(name)));
}

TEST_CASE("long lists are cut", "[weights]") {
  Net model(4);
  CHECK_THROWS_WITH(assign_weights(model, {}, "w"), Contains("6 (") && Contains("..."));
}

TEST_CASE("a file that is no weights file at all is a user error", "[weights]") {
  const TemporaryFolder folder;
  Net model(4);
  CHECK_THROWS_AS(load_weights(model, folder / "none.pth"), UserError);
  CHECK_THROWS_AS(load_weights(model, folder.write("x.pth", "hello")), UserError);
  CHECK_THROWS_AS(load_weights(model, folder.write("x.safetensors", "hello")), UserError);
}

}  // namespace
}  // namespace composer::weights_test
