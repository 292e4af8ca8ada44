#include "inference/python_names.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "composer/recipe/recipe.h"
#include "composer/run/assemble.h"
#include "inference/graph/graph_json.h"
#include "nn/network/outline.h"

namespace composer {

LibraryNames names_in(const TakenNetwork& taken, const std::string& library) {
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
  const auto plain = build_model(recipe);
  const auto names = plain->names_in(library);
  if (!names)
    throw UserError("--names: " + library + " has no network like " + recipe.model->name() + " (" +
                    plain->describe() +
                    "); without --names the tensors have the names that they have in PyTorch");
  const auto& graph = taken.network.graph;
  if (std::ranges::any_of(graph.operations, [](const auto& operation) {
        return operation.kind == OperationKind::group_norm;
      }))
    log::warn("--names: " + library +
              "'s networks have batch norms unless they are made with another norm_layer; this one "
              "has group norms");
  if (!names->difference.empty()) log::warn("--names: " + library + "'s " + names->difference);
  const auto& image = graph.values[graph.input].shape;
  if (const auto side = std::max(image[2], image[3]);
      names->differs_from > 0 && side >= names->differs_from)
    log::warn("--names: " + library + "'s network computes something else for images of " +
              std::to_string(names->differs_from) + " pixels a side and more, as this one's of " +
              std::to_string(side) + " are");
  if (to_json(graph) == to_json(record(*plain, at::zeros(image)))) return *names;
  const auto changed = differences(taken.network.outline, in_use(outline(*plain)));
  log::warn("--names: " + library + "'s network of these names is another one: " +
            (changed.empty() ? "surgery changed it"
                             : std::to_string(changed.size()) +
                                   " layers differ by surgery, the first " + changed.front()));
  return *names;
}

}  // namespace composer
