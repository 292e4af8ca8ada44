// The options before the subcommand: how many ranks a trainer has, and what becomes of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "cli/commands.h"

namespace composer {

/// What ranks are bound to.
enum class Bind { none, cores, numa };

struct Launch {
  int64_t ranks = 1;       ///< on this machine
  int64_t node_rank = 0;   ///< this machine among those of as many ranks
  int64_t world_size = 1;  ///< on all machines
  std::string master_addr = "127.0.0.1";
  std::optional<uint16_t> master_port;  ///< nothing: any that is free
  int64_t max_restarts = 0;
  Bind bind = Bind::none;
  std::optional<int> requeue_status;  ///< exit status after a signal other than SIGINT
  /// That ranks have between a signal that asks for the end and SIGKILL; see launcher.h.
  std::optional<int64_t> grace_seconds;

  int64_t machines() const { return world_size / ranks; }
  /// One rank without wishes runs in the launcher's own process.
  bool supervised() const { return !reason().empty(); }
  /// The option that asks for ranks in processes of their own; empty: none does.
  std::string reason() const {
    if (world_size > 1) return "-n";
    if (max_restarts > 0) return "--max_restarts";
    if (requeue_status) return "--requeue_status";
    if (grace_seconds) return "--grace_seconds";
    return bind != Bind::none ? "--bind" : "";
  }
};

/// The launcher's options, each with the words it takes, where these are few.
const std::map<std::string, Words>& launch_option_words();

/// Takes the launcher's options off the front of `words`. UserError for what makes no sense.
Launch take_launch_options(Words& words);

/// UserError where options of the launcher stand behind the subcommand.
void check_place_of_options(const Words& words);

/// UserError where words that begin with a recipe's key have train or eval behind it, and not as a
/// key's first value, or begin with what other launchers call -n.
void check_place_of_subcommand(const Words& words);

}  // namespace composer
