#include "composer/network/outline.h"

#include <catch2/catch.hpp>

#include "composer/storage/provenance.h"
#include "composer/storage/safetensors.h"
#include "tiny_run.h"

using namespace composer;
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

TEST_CASE("differences name the layers, but for those that may differ", "[outline]") {
  const Lines there{"conv: BlurConv2d", "fc: Linear(4, 1000)", "old: Linear"};
  const Lines here{"conv: Conv2d", "fc: Linear(4, 2)", "new: Linear"};
  CHECK(differences(there, there).empty());
  CHECK(differences(there, here, {"fc.*"}) == Lines{"conv: BlurConv2d there, Conv2d here",
                                                    "old: Linear there, nothing here",
                                                    "new: nothing there, Linear here"});
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
