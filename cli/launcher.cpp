#include "cli/launcher.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>

#include "composer/error.h"
#include "composer/process/supervisor.h"
#include "composer/recipe/value.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

int64_t whole_number(const std::string& option, const std::string& text, int64_t least) {
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size() || value < least)
    throw UserError(option + ": '" + text + "' is not a whole number of at least " +
                    std::to_string(least));
  return value;
}

/// Of each option: the least whole number that it takes; nothing where it takes any word.
const std::map<std::string, std::optional<int64_t>> options{
    {"-n", 1},           {"--nproc", 1},        {"--node_rank", 0},
    {"--world_size", 1}, {"--master_addr", {}}, {"--master_port", 1}};

/// Makes -n8 and --nproc=8 in front the two words -n 8 and --nproc 8.
void split_first(Words& words) {
  const std::string word = words[0];
  size_t name_end = word.find('='), value = name_end + 1;
  if (word.starts_with("-n") && word.size() > 2 &&
      std::isdigit(static_cast<unsigned char>(word[2])))
    name_end = value = 2;
  if (name_end == std::string::npos || !options.contains(word.substr(0, name_end))) return;
  words[0].resize(name_end);
  words.insert(words.begin() + 1, word.substr(value));
}

fs::path find_program(const std::string& name) {
  const auto here = fs::read_symlink("/proc/self/exe").parent_path();
  for (const auto& path : {fs::path(name), here / name, here / fs::path(name).filename()})
    if (fs::is_regular_file(path) && access(path.c_str(), X_OK) == 0) return fs::absolute(path);
  std::string problem =
      "composer: '" + name + "' is no subcommand, nor a program here or beside composer";
  throw UserError(problem + suggestion(name, command_names()));
}

}  // namespace

Launch take_launch_options(Words& words) {
  Launch launch;
  bool world_size_given = false;
  for (; !words.empty(); words.erase(words.begin(), words.begin() + 2)) {
    split_first(words);
    const std::string name = words[0];
    const auto option = options.find(name);
    if (option == options.end()) break;
    if (words.size() < 2) throw UserError(name + ": needs a value");
    const auto& least = option->second;
    const int64_t number = least ? whole_number(name, words[1], *least) : 0;
    if (name == "-n" || name == "--nproc") launch.ranks = number;
    if (name == "--node_rank") launch.node_rank = number;
    if (name == "--world_size") launch.world_size = number, world_size_given = true;
    if (name == "--master_addr") launch.master_addr = words[1];
    if (name == "--master_port") launch.master_port = words[1];
  }
  if (!world_size_given) launch.world_size = launch.ranks;
  if (launch.node_rank > 0 && launch.world_size <= launch.ranks)
    throw UserError("--node_rank: " + std::to_string(launch.node_rank) +
                    " on one machine; give --world_size, the ranks of all machines");
  if (launch.world_size < launch.ranks)
    throw UserError("--world_size: " + std::to_string(launch.world_size) + " is less than the " +
                    std::to_string(launch.ranks) + " ranks of this machine (-n)");
  if (launch.node_rank >= launch.world_size / launch.ranks)
    throw UserError("--node_rank: machines of " + std::to_string(launch.ranks) +
                    " ranks (-n) make a --world_size of " + std::to_string(launch.world_size) +
                    " with node ranks below " + std::to_string(launch.world_size / launch.ranks) +
                    ", not " + std::to_string(launch.node_rank));
  return launch;
}

void check_place_of_options(const Words& words) {
  const auto has = [&](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  if (has("-n") || has("--nproc"))
    throw UserError("-n: goes before the subcommand: composer -n 8 train ...");
}

std::map<std::string, std::string> rank_environment(const Launch& launch, int64_t local_rank) {
  const int64_t rank = launch.node_rank * launch.ranks + local_rank;
  return {{"RANK", std::to_string(rank)},
          {"LOCAL_RANK", std::to_string(local_rank)},
          {"WORLD_SIZE", std::to_string(launch.world_size)},
          {"LOCAL_WORLD_SIZE", std::to_string(launch.ranks)},
          {"NODE_RANK", std::to_string(launch.node_rank)},
          {"MASTER_ADDR", launch.master_addr},
          {"MASTER_PORT", launch.master_port}};
}

int run_ranks(const Launch& launch, const Command& program) {
  std::vector<std::string> prefixes;
  for (int64_t i = 0; i < launch.ranks; ++i)
    prefixes.push_back("rank " + rank_environment(launch, i).at("RANK") + ": ");
  LineWriter output(STDOUT_FILENO), errors(STDERR_FILENO);
  SupervisorOptions options;
  options.writers = {&output, &errors};
  options.take_line = [&](size_t number, Stream stream, std::string_view line) {
    (stream == Stream::output ? output : errors).add(prefixes[number], line);
  };
  Supervisor supervisor(options);
  for (int64_t i = 0; i < launch.ranks; ++i) {
    Command rank = program;
    for (auto& [name, value] : rank_environment(launch, i)) rank.environment[name] = value;
    supervisor.start(rank);
  }
  supervisor.wait();
  return supervisor.status();
}

int start_program(const Launch& launch, const Words& words) {
  const auto program = find_program(words[0]);
  check_place_of_options(words);
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  Launch alone = launch;
  alone.ranks = alone.world_size = 1, alone.node_rank = 0;
  for (const auto& [name, value] : rank_environment(alone, 0))
    setenv(name.c_str(), value.c_str(), 1);
  execv(program.c_str(), arguments.data());
  throw UserError(cannot_be_started(program, errno));
}

}  // namespace composer
