// The subcommands. Each takes the words after its name and returns the exit status. It throws the
// errors of base/error.h, or Interrupted.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace composer {

using Words = std::vector<std::string>;
using CommandTable = std::map<std::string, int (*)(const Words&)>;

/// Thrown when a signal ends the command, whose exit status is then 128 + signal.
struct Interrupted {
  int signal;
};

/// All subcommands by name.
const CommandTable& command_table();

/// X(name) for each subcommand; the command line has a dash in place of `_`.
// clang-format off
#define COMPOSER_COMMANDS(X) \
  X(train) X(eval) X(predict) X(export) X(quantize) X(checkpoint) X(bench) X(check) X(model) \
  X(ablate) X(sweep) X(lr_range) X(plan_scale) X(request) X(trace) X(watch) X(report) X(compare) \
  X(data) X(doctor) X(list) X(describe) X(schema) X(reference) X(completion)
// clang-format on

#define X(name) int name##_command(const Words& words);
COMPOSER_COMMANDS(X)
#undef X

int data_info_command(const Words& words);
int data_hash_command(const Words& words);
int data_verify_command(const Words& words);
int data_write_command(const Words& words);
int data_index_command(const Words& words);

}  // namespace composer
