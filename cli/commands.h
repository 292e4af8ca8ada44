// The subcommands. Each takes the words after its name, and returns the exit status or throws
// (base/error.h, Interrupted).
#pragma once

#include <map>
#include <string>
#include <vector>

namespace composer {

using Words = std::vector<std::string>;
using CommandTable = std::map<std::string, int (*)(const Words&)>;

/// Thrown when a signal ends the work: the exit status is 128 + signal.
struct Interrupted {
  int signal;
};

/// All subcommands.
const CommandTable& command_table();

int train_command(const Words& words);
int eval_command(const Words& words);
int predict_command(const Words& words);
int list_command(const Words& words);
int describe_command(const Words& words);
int bench_command(const Words& words);
int check_command(const Words& words);
int checkpoint_command(const Words& words);
int export_command(const Words& words);
int quantize_command(const Words& words);
int report_command(const Words& words);
int compare_command(const Words& words);
int ablate_command(const Words& words);
int sweep_command(const Words& words);
int lr_range_command(const Words& words);
int watch_command(const Words& words);
int request_command(const Words& words);
int trace_command(const Words& words);
int doctor_command(const Words& words);
int model_command(const Words& words);
int plan_scale_command(const Words& words);
int schema_command(const Words& words);
int completion_command(const Words& words);
int reference_command(const Words& words);
int data_command(const Words& words);
int data_info_command(const Words& words);
int data_hash_command(const Words& words);
int data_verify_command(const Words& words);
int data_write_command(const Words& words);
int data_index_command(const Words& words);

}  // namespace composer
