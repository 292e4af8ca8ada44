// The subcommand checkpoint: shows what a checkpoint holds.
#include "composer/storage/checkpoint.h"

#include <iostream>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "composer/error.h"
#include "composer/remote/fetched.h"
#include "composer/text.h"

namespace composer {

int checkpoint_command(const Words& words) {
  if (!words.empty() && words[0] == "export")
    throw UserError(
        "composer checkpoint export: is now composer export CHECKPOINT --format safetensors "
        "--output FOLDER, which --load_path takes, with the weights in FOLDER/model.safetensors");
  CLI::App app("Shows what a checkpoint holds. Weights are taken out of it by `composer export`.",
               "checkpoint");
  std::string action, path;
  app.add_option("action", action, "info")->required();
  app.add_option("path", path, "a checkpoint folder; s3:// and https:// too")->required();
  if (!parse(app, words)) return 0;
  if (action != "info")
    throw UserError("composer checkpoint: unknown action '" + action + "'" +
                    suggestion(action, {"info"}));
  std::cout << describe_checkpoint(fetched(path));
  return 0;
}

}  // namespace composer
