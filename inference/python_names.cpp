#include "inference/python_names.h"

#include "composer/assemble.h"
#include "composer/error.h"
#include "composer/logging/log.h"
#include "composer/network/outline.h"
#include "composer/recipe/recipe.h"
#include "composer/text.h"

namespace composer {

void check_names(const TakenNetwork& taken, const std::string& library) {
  if (library != "torchvision" && library != "timm")
    throw UserError("--names: must be torchvision or timm, not '" + library + "'" +
                    suggestion(library, {"torchvision", "timm"}));
  const auto recipe = resolve({"the checkpoint's recipe", taken.network.recipe}, {}, registry(),
                              {.evaluation = true, .options = {}});
  if (recipe.model->name() != "resnet")
    throw UserError("--names: " + library + " has no network like " + recipe.model->name() +
                    "; it has those of the component resnet");
  const auto changed = differences(taken.network.outline, outline(*build_model(recipe)));
  if (changed.empty()) return;
  log::warn("--names: " + library +
            "'s network of these names is another one: " + std::to_string(changed.size()) +
            " layers differ by surgery, the first " + changed.front());
}

}  // namespace composer
