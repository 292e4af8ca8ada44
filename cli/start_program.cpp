#include "cli/start_program.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/params/value.h"
#include "cli/launcher.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

/// That path as it is, in the folder of this program, or its name there; empty: none is a program.
fs::path program_at(const fs::path& path) {
  const auto here = fs::read_symlink("/proc/self/exe").parent_path();
  for (const auto& one : {path, here / path, here / path.filename()})
    if (fs::is_regular_file(one) && access(one.c_str(), X_OK) == 0) return fs::absolute(one);
  return {};
}

/// A name without a slash is a subcommand's: whatever lies in a folder under a mistyped one is not
/// run.
fs::path find_program(const std::string& name) {
  const auto program = program_at(name);
  const bool is_path = name.find('/') != name.npos;
  if (is_path && !program.empty()) return program;
  const auto problem = "composer: '" + name + "' is no ";
  if (is_path) throw UserError(problem + "program, neither here nor beside composer");
  if (!program.empty())
    throw UserError(problem + "subcommand; the program of that name is started as ./" + name);
  Words known{"--help", "--version"};
  for (const auto& [subcommand, function] : command_table()) known.push_back(subcommand);
  throw UserError(problem + "subcommand" + suggestion(name, known));
}

}  // namespace

bool only_looks(const Words& words) {
  return std::ranges::any_of(words, [](const auto& word) {
    return word == "--plan" || word == "--dump" || word == "--help" || word == "-h";
  });
}

void take_first_place(const Launch& launch) {
  for (const auto& [name, value] : rank_environment(launch, 0))
    setenv(name.c_str(), value.c_str(), 1);
}

int start_program(const Launch& launch, const Words& words) {
  const auto program = find_program(words[0]);
  const bool asks_for_help = std::ranges::count(words, "--help") > 0;
  if (launch.supervised() && !asks_for_help)
    return run_ranks(launch, {program, {words.begin() + 1, words.end()}, {}, {}});
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  take_first_place(launch);
  execv(program.c_str(), arguments.data());
  throw UserError(cannot_be_started(program, errno));
}

}  // namespace composer
