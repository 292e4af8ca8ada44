#include "composer/checkpoint/weights.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "nn/network/layers.h"
#include "tests/temporary_folder.h"

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

TensorMap under(const std::string& prefix, const TensorMap& tensors) {
  TensorMap named;
  for (const auto& [name, tensor] : tensors) named[prefix + name] = tensor;
  return named;
}

/// All values are `value`.
TensorMap filled(const Model& model, double value) {
  auto tensors = copies(model);
  for (auto& [name, tensor] : tensors) tensor.fill_(value);
  return tensors;
}

TEST_CASE("a prefix of all names is taken off, whatever it is", "[weights]") {
  for (const std::string prefix : {"model.", "net.", "backbone.", "model.module.encoder."}) {
    INFO(prefix);
    Net target(4);
    auto tensors = under(prefix, filled(target, 3));
    tensors["criterion.weight"] = at::ones({4});
    assign_weights(target, tensors, prefix);
    CHECK(model_tensors(target).at("fc.weight").min().item<double>() == 3);
    // A layer may stand beside the wrapped ones.
    for (const char* name : {"fc.weight", "fc.bias"}) {
      auto beside = tensors.extract(prefix + name);
      beside.key() = name;
      beside.mapped().fill_(5);
      tensors.insert(std::move(beside));
    }
    assign_weights(target, tensors, prefix);
    CHECK(model_tensors(target).at("fc.weight").min().item<double>() == 5);
    CHECK(model_tensors(target).at("bn.weight").min().item<double>() == 3);
    // What stands under the prefix and is not the model's is not passed over.
    tensors[prefix + "extra"] = at::ones({1});
    CHECK_THROWS_WITH(assign_weights(target, tensors, prefix), Contains("(extra)"));
  }
}

TEST_CASE("of weights under several prefixes the average is taken", "[weights]") {
  Net target(4);
  auto tensors = under("model.", filled(target, 1));
  tensors.merge(under("ema_model.module.", filled(target, 2)));
  tensors["ema_model.n_averaged"] = at::ones({});
  assign_weights(target, tensors, "several");
  CHECK(model_tensors(target).at("fc.weight").min().item<double>() == 2);

  tensors = under("first.", filled(target, 3));
  tensors.merge(under("second.", filled(target, 4)));
  CHECK_THROWS_WITH(assign_weights(target, tensors, "two"),
                    Contains("two: ") && Contains("'first.' and 'second.'"));
  assign_weights(target, tensors, "two", {.ignore = {"second.*"}});
  CHECK(model_tensors(target).at("fc.weight").min().item<double>() == 3);
}

TEST_CASE("an AveragedModel's weights are taken without its count", "[weights]") {
  const TemporaryFolder folder;
  Net target(4);
  auto tensors = under("module.", filled(target, 2));
  tensors["n_averaged"] = at::ones({1});
  write_safetensors(folder / "w.safetensors", tensors);
  const auto read = read_weights(folder / "w.safetensors");
  CHECK(read.size() == model_tensors(target).size());
  CHECK(read.contains("fc.weight"));
}

TEST_CASE("a file of which nothing fits is refused, strictly or not", "[weights]") {
  Net model(4);
  auto tensors = under("other_", copies(model));
  tensors["bn.num_batches_tracked"] = at::ones({}, at::kLong);
  for (const bool strict : {true, false})
    CHECK_THROWS_WITH(assign_weights(model, tensors, "w.pth", {.strict = strict}),
                      Contains("w.pth: nothing of it would be loaded") &&
                          Contains("named like bn.num_batches_tracked"));
}

TEST_CASE("a file under a library's names and shapes is read under the model's", "[weights]") {
  const TemporaryFolder folder;
  const auto file = folder / "w.safetensors";
  const LibraryNames names{.paths = {{"fc", "head.fc"}, {"bn", "norm"}, {"bn.weight", "scale"}},
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
