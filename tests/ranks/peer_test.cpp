// Two ranks against PyTorch's DistributedDataParallel.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/python.h"
#include "tests/ranks/double_run.h"

namespace composer::peer_test {

using namespace composer::test;

namespace {

using nlohmann::json;

/// Writes a tensor's numbers into the folder; returns what finds them.
json written(const TemporaryFolder& folder, const std::string& name, const at::Tensor& tensor) {
  const auto whole = tensor.detach().contiguous();
  folder.write(name, {static_cast<const char*>(whole.const_data_ptr()), whole.nbytes()});
  return {{"file", name}, {"shape", whole.sizes().vec()}};
}

}  // namespace

TEST_CASE("two ranks train as two of DistributedDataParallel", "[ranks][peer]") {
  if (!has_python()) {
    WARN("skipped: needs the packages of tests/peers.txt");
    return;
  }
  constexpr int64_t steps = 10;
  std::vector<Batch> batches;
  Setup setup;
  setup.batches = steps;
  // The last batch of an epoch is smaller, which DistributedDataParallel weighs in another way.
  setup.change = [](TrainerParts& parts) {
    parts.train_loader = noise_loader(steps * 12, 12, true, parts.ranks);
    parts.eval_loader = nullptr;
  };
  setup.add = [&](Trainer& trainer) { trainer.add<InDouble>("in_double", &batches); };
  train_on(1, setup);  // which sees whole batches
  REQUIRE(batches.size() == steps);

  at::manual_seed(3);
  const auto model = setup.model();
  setup.add = [](Trainer& trainer) { trainer.add<InDouble>("in_double"); };
  const auto two = train_on(2, setup);

  const TemporaryFolder folder;
  json run{{"lr", 0.0625}, {"momentum", 0.875}, {"weight_decay", 0.001}, {"ranks", 2}};
  for (const auto& item : model->named_parameters())
    run["before"][item.key()] =
        written(folder, "before." + item.key(), item.value().to(at::kDouble));
  for (const auto& [name, weight] : two.weights)
    run["after"][name] = written(folder, "after." + name, weight);
  for (size_t i = 0; i < batches.size(); ++i)
    run["batches"].push_back(
        {{"images", written(folder, "images" + std::to_string(i), batches[i].input)},
         {"classes", written(folder, "classes" + std::to_string(i), batches[i].target.classes)}});
  run["losses"] = two.losses;
  folder.write("run.json", run.dump());
  const auto found = json::parse(output_of("tests/ranks/ddp_reference.py", folder.path().string()));
  CHECK(found.at("weights").get<double>() < 1e-8);
  CHECK(found.at("losses").get<double>() < 1e-8);
}

}  // namespace composer::peer_test
