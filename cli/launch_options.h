// The options before the subcommand: the ranks of a trainer and how they are supervised.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "cli/commands.h"

namespace composer {

/// The processors that a rank is bound to.
enum class Bind { none, cores, numa };

struct Launch {
  int64_t ranks = 1;       ///< ranks on this machine
  int64_t node_rank = 0;   ///< index of this machine; all machines have the same number of ranks
  int64_t world_size = 1;  ///< ranks on all machines
  std::string master_addr = "127.0.0.1";
  std::optional<uint16_t> master_port;  ///< empty: any free port
  int64_t max_restarts = 0;
  Bind bind = Bind::none;
  std::optional<int> requeue_status;  ///< exit status after a signal, except SIGINT
  /// Seconds between a signal that asks for the end and SIGKILL; see launcher.h.
  std::optional<int64_t> grace_seconds;

  int64_t machines() const { return world_size / ranks; }
  /// A single rank without launcher options runs in the launcher's own process.
  bool supervised() const { return !reason().empty(); }
  /// The option that requires ranks in processes of their own; empty if no option does.
  std::string reason() const {
    if (world_size > 1) return "-n";
    if (max_restarts > 0) return "--max_restarts";
    if (requeue_status) return "--requeue_status";
    if (grace_seconds) return "--grace_seconds";
    return bind != Bind::none ? "--bind" : "";
  }
};

/// The launcher's options, each with the words that it accepts if these are a fixed set.
const std::map<std::string, Words>& launch_option_words();

/// Removes the launcher's options from the front of `words`. UserError for values that contradict
/// each other.
Launch take_launch_options(Words& words);

/// UserError when options of the launcher come after the subcommand.
void check_place_of_options(const Words& words);

/// UserError when a key of the recipe comes before train or eval, unless that word is the key's
/// first value, or when the first word is another launcher's name for -n.
void check_place_of_subcommand(const Words& words);

}  // namespace composer
