// What the end-to-end tests are run again with: a file of tests/settings.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace composer {

/// The words of a command line without quotes.
inline std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> words;
  for (size_t at = 0; at < line.size();) {
    const size_t begin = line.find_first_not_of(" \n", at);
    if (begin == std::string::npos) break;
    const size_t end = std::min(line.find_first_of(" \n", begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    at = end;
  }
  return words;
}

inline std::vector<std::string> operator+(std::vector<std::string> a,
                                          const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Lines of the file, each one of
///   --key value     for every training and evaluation, unless the test gives this key itself
///   NAME=value      in the environment of every training
///   kill_every N    every N batches kill -9, then --autoresume true: killed_training.h
///   # text          a comment
struct Settings {
  std::vector<std::pair<std::string, std::string>> options;  ///< "--key", value
  std::vector<std::pair<std::string, std::string>> environment;
  int64_t kill_every = 0;  ///< batches; 0 = never
};

/// Throws std::runtime_error with the line that is none of a Settings'.
inline Settings read_settings(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  Settings settings;
  for (std::string line; std::getline(file, line);) {
    const auto words = split(line);
    if (words.empty() || words[0][0] == '#') continue;
    const auto equals = words[0].find('=');
    if (words.size() == 2 && words[0].starts_with("--"))
      settings.options.emplace_back(words[0], words[1]);
    else if (words.size() == 2 && words[0] == "kill_every" && std::atoll(words[1].c_str()) > 0)
      settings.kill_every = std::atoll(words[1].c_str());
    else if (words.size() == 1 && equals != 0 && equals != std::string::npos)
      settings.environment.emplace_back(words[0].substr(0, equals), words[0].substr(equals + 1));
    else
      throw std::runtime_error(path + ": '" + line + "' is no option, no variable, no kill_every");
  }
  return settings;
}

/// Of the file that COMPOSER_TEST_SETTINGS names; without it, nothing.
inline const Settings& current_settings() {
  static const char* const path = std::getenv("COMPOSER_TEST_SETTINGS");
  static const Settings settings = path == nullptr ? Settings{} : read_settings(path);
  return settings;
}

/// Whether the words give the option, in full or by the last part of its key.
inline bool gives(const std::vector<std::string>& words, const std::string& option) {
  const auto last = [](const std::string& word) {
    return word.substr(std::max(word.rfind('.') + 1, size_t{2}));
  };
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return word.starts_with("--") && word.size() > 2 && last(word) == last(option);
  });
}

inline bool has(const std::vector<std::string>& words, const char* word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// A command that trains, rather than one that only looks at its recipe.
inline bool trains(const std::vector<std::string>& words) {
  return has(words, "train") && !has(words, "--plan") && !has(words, "--dump") &&
         !has(words, "--help");
}

inline std::vector<std::string> with_options(const Settings& settings,
                                             std::vector<std::string> words) {
  if (!trains(words) && !(has(words, "eval") && !has(words, "--help"))) return words;
  const auto given = words;
  for (const auto& [key, value] : settings.options)
    if (!gives(given, key)) words.insert(words.end(), {key, value});
  return words;
}

}  // namespace composer
