#include "inference/python_names.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "composer/assemble.h"
#include "composer/error.h"
#include "composer/logging/log.h"
#include "composer/network/outline.h"
#include "composer/recipe/recipe.h"
#include "composer/text.h"
#include "inference/graph_json.h"

namespace composer {
namespace {

/// Whether the library has the component's networks under the names of their tensors.
bool has_network(const std::string& library, ComponentOf<Model>& model) {
  if (model.name() == "resnet")
    return library == "timm" || write_fields(model.fields()).find("variant")->text == "b";
  static const std::set<std::string> others{"convnext", "efficientnet", "mobilenet_v3", "vgg"};
  return library == "torchvision" && others.contains(model.name());
}

}  // namespace

void check_names(const TakenNetwork& taken, const std::string& library) {
  if (library != "torchvision" && library != "timm")
    throw UserError("--names: must be torchvision or timm, not '" + library + "'" +
                    suggestion(library, {"torchvision", "timm"}));
  if (!taken.network.quantization.empty())
    throw UserError("--names: " + library + " has no quantized networks; export the checkpoint");
  if (taken.network.recipe.empty())
    throw UserError("--names: nothing tells whether " + library +
                    " has this network: it was made from C++ without a recipe");
  const auto recipe = resolve({"the checkpoint's recipe", taken.network.recipe}, {}, registry(),
                              {.evaluation = true, .options = {}});
  if (!has_network(library, *recipe.model))
    throw UserError("--names: " + library + " has no network like " + recipe.model->name() + "; " +
                    (library == "timm" ? "it has those of the component resnet"
                                       : "it has those of the components convnext, efficientnet, "
                                         "mobilenet_v3, resnet (variant b) and vgg"));
  const auto& graph = taken.network.graph;
  if (std::ranges::any_of(graph.operations, [](const auto& operation) {
        return operation.kind == OperationKind::group_norm;
      }))
    log::warn("--names: " + library +
              "'s networks have batch norms unless they are made with another norm_layer; this one "
              "has group norms");
  const auto plain = build_model(recipe);
  if (to_json(graph) == to_json(record(*plain, at::zeros(graph.values[graph.input].shape)))) return;
  const auto changed = differences(taken.network.outline, in_use(outline(*plain)));
  log::warn("--names: " + library + "'s network of these names is another one: " +
            (changed.empty() ? "surgery changed it"
                             : std::to_string(changed.size()) +
                                   " layers differ by surgery, the first " + changed.front()));
}

}  // namespace composer
