#include "cli/sources.h"

#include <CLI/App.hpp>

namespace composer {

void add_threads(CLI::App& app, int& threads) {
  app.add_option("--num_workers", threads, "threads; 0 = one for each processor")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

void add_shard_columns(CLI::App& app, ShardColumns& columns) {
  app.add_option("--image", columns.image,
                 "what the images of shards and lists are, as for data write")
      ->capture_default_str();
  app.add_option("--label", columns.label, "likewise what the classes are")->capture_default_str();
  app.add_option("--targets", columns.targets,
                 "numbers of shards and lists in place of classes "
                 "(docs/targets.md)");
  app.add_option("--images_dir", columns.images_dir,
                 "the folder that a list's paths begin in (default: the list's)");
}

}  // namespace composer
