// Options of commands that open samples.
#pragma once

#include "data/datasets/sources.h"

namespace CLI {
class App;
}

namespace composer {

void add_shard_columns(CLI::App& app, ShardColumns& columns);

/// Declares --num_workers for work on every sample. threads: the argument of thread_count().
void add_threads(CLI::App& app, int& threads);

}  // namespace composer
