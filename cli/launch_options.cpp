#include "cli/launch_options.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "composer/recipe/overrides.h"

namespace composer {
namespace {

/// Sets a member of Launch to the value `word` of `option`.
using Take = std::function<void(Launch&, const std::string& option, const std::string& word)>;

const std::map<std::string, Bind> binds{
    {"none", Bind::none}, {"cores", Bind::cores}, {"numa", Bind::numa}};

constexpr int64_t most_grace_seconds = 1'000'000, most_ranks = 4096;  // ranks of one machine
constexpr int64_t any = std::numeric_limits<int64_t>::max();

template <class Member>
Take whole_number(int64_t least, int64_t most, Member Launch::*member) {
  return [=](Launch& launch, const std::string& option, const std::string& word) {
    const auto value = to_number<int64_t>(word);
    if (!value || *value < least || *value > most)
      throw UserError(option + ": '" + word + "' is not a whole number of at least " +
                      std::to_string(least) +
                      (most == any ? "" : ", at most " + std::to_string(most)));
    launch.*member = *value;
  };
}

void take_bind(Launch& launch, const std::string& option, const std::string& word) {
  check_word(option, word, names_in(binds));
  launch.bind = binds.at(word);
}

const std::map<std::string, Take>& launch_options() {
  static const std::map<std::string, Take> options{
      {"-n", whole_number(1, most_ranks, &Launch::ranks)},
      {"--nproc", whole_number(1, most_ranks, &Launch::ranks)},
      {"--node_rank", whole_number(0, any, &Launch::node_rank)},
      {"--world_size", whole_number(1, any, &Launch::world_size)},
      {"--master_addr",
       [](Launch& launch, const auto&, const auto& word) { launch.master_addr = word; }},
      {"--master_port", whole_number(1, 65535, &Launch::master_port)},
      {"--bind", take_bind},
      {"--max_restarts", whole_number(0, any, &Launch::max_restarts)},
      {"--requeue_status", whole_number(1, 255, &Launch::requeue_status)},
      {"--grace_seconds", whole_number(1, most_grace_seconds, &Launch::grace_seconds)}};
  return options;
}

/// Splits -n8 or --nproc=8 at the front into two words.
void split_first(Words& words) {
  const std::string word = words[0];
  size_t name_end = word.find('='), value = name_end + 1;
  if (word.starts_with("-n") && word.size() > 2 &&
      std::isdigit(static_cast<unsigned char>(word[2])))
    name_end = value = 2;
  if (name_end == std::string::npos || !launch_options().contains(word.substr(0, name_end))) return;
  words[0].resize(name_end);
  words.insert(words.begin() + 1, word.substr(value));
}

/// UserError unless machines of launch.ranks ranks each make up launch.world_size.
void check_machines(const Launch& launch, bool address_given) {
  if (launch.node_rank > 0 && launch.world_size <= launch.ranks)
    throw UserError("--node_rank: " + std::to_string(launch.node_rank) +
                    " on one machine; give --world_size, the ranks of all machines");
  if (launch.world_size < launch.ranks)
    throw UserError("--world_size: " + std::to_string(launch.world_size) + " is less than the " +
                    std::to_string(launch.ranks) + " ranks of this machine (-n)");
  if (launch.world_size % launch.ranks != 0)
    throw UserError("--world_size: " + std::to_string(launch.world_size) +
                    " ranks cannot be made of machines of " + std::to_string(launch.ranks) +
                    " (-n)");
  if (launch.node_rank >= launch.machines())
    throw UserError("--node_rank: machines of " + std::to_string(launch.ranks) +
                    " ranks (-n) make a --world_size of " + std::to_string(launch.world_size) +
                    " with node ranks below " + std::to_string(launch.machines()) + ", not " +
                    std::to_string(launch.node_rank));
  if (launch.machines() > 1 && !address_given)
    throw UserError("--master_addr: missing: the address of the machine with --node_rank 0");
}

}  // namespace

const std::map<std::string, Words>& launch_option_words() {
  static const auto all = [] {
    std::map<std::string, Words> words;
    for (const auto& [name, take] : launch_options()) words[name];
    words["--bind"] = names_in(binds);
    return words;
  }();
  return all;
}

Launch take_launch_options(Words& words) {
  Launch launch;
  Words given;
  for (; !words.empty(); words.erase(words.begin(), words.begin() + 2)) {
    split_first(words);
    const std::string name = words[0];
    const auto found = launch_options().find(name);
    if (found == launch_options().end()) break;
    if (words.size() < 2) throw UserError(name + ": needs a value");
    found->second(launch, name, words[1]);
    given.push_back(name);
  }
  const auto has = [&](const char* name) { return std::ranges::count(given, name) > 0; };
  if (!has("--world_size")) launch.world_size = launch.ranks;
  check_machines(launch, has("--master_addr"));
  return launch;
}

void check_place_of_options(const Words& words) {
  for (const auto& word : words)
    if (const auto name = word.substr(0, word.find('=')); launch_options().contains(name))
      throw UserError(name + ": goes before the subcommand: composer " + name +
                      (name == "-n" ? " 8" : " ...") + " train ...");
}

void check_place_of_subcommand(const Words& words) {
  const auto waits_for_value = [](const std::string& word) {
    return word.starts_with("-") && word.find('=') == word.npos;
  };
  if (!words.empty() && words[0].starts_with("--")) {
    const auto name = words[0].substr(0, words[0].find('='));
    const Words value = name.size() < words[0].size() ? Words{words[0].substr(name.size() + 1)}
                        : words.size() > 1            ? Words{words[1]}
                                                      : Words{};
    if (const auto meant = ranks_meant_by(name.substr(2), value); !meant.empty())
      throw UserError(name + ": no such option; did you mean " + meant + "?");
  }
  for (size_t i = 1; i < words.size(); ++i)
    if ((words[i] == "train" || words[i] == "eval") && !waits_for_value(words[i - 1]))
      throw UserError(words[0].substr(0, words[0].find('=')) +
                      ": goes behind the subcommand: composer " + words[i] + " " + words[0] +
                      " ...");
}

}  // namespace composer
