// A started program, as a user starts it.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "settings.h"

namespace composer {

struct Outcome {
  int status = -1;  ///< exit status, or 128 + signal
  std::string output, errors;
};

/// A started program in `folder`, its output in files there. Trainings have the current settings.
/// With `main` the program is a copy of this process that calls it.
class Process {
 public:
  Process(const std::filesystem::path& folder, const std::vector<std::string>& command,
          const std::string& program = PROGRAM, int (*main)(int, char**) = nullptr)
      : output_(folder / (".out" + std::to_string(++count()))),
        errors_(folder / (".err" + std::to_string(count()))) {
    const auto words = with_options(current_settings(), command);
    if (main != nullptr) std::cout.flush();
    id_ = fork();
    if (id_ != 0) return;
    if (trains(words))
      for (const auto& [name, value] : current_settings().environment)
        setenv(name.c_str(), value.c_str(), 1);
    if (chdir(folder.c_str()) != 0) _exit(126);
    const auto redirect = [](int stream, const std::string& path, int flags) {
      dup2(open(path.c_str(), flags, 0644), stream);
    };
    redirect(STDIN_FILENO, "/dev/null", O_RDONLY);
    redirect(STDOUT_FILENO, output_, O_WRONLY | O_CREAT | O_TRUNC);
    redirect(STDERR_FILENO, errors_, O_WRONLY | O_CREAT | O_TRUNC);
    std::vector<char*> arguments{const_cast<char*>(program.c_str())};
    for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    if (main != nullptr) {
      const int status = main(static_cast<int>(arguments.size()) - 1, arguments.data());
      std::cout.flush();
      _exit(status);
    }
    execvp(program.c_str(), arguments.data());
    _exit(127);
  }

  pid_t id() const { return id_; }
  void signal(int number) const { kill(id_, number); }

  /// What it has printed on standard error so far.
  std::string errors() const { return read(errors_); }

  Outcome wait() const { return *outcome(0); }

  /// Empty while it runs.
  std::optional<Outcome> poll() const { return outcome(WNOHANG); }

 private:
  std::optional<Outcome> outcome(int options) const {
    int status = 0;
    if (waitpid(id_, &status, options) == 0) return {};
    return Outcome{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read(output_),
                   read(errors_)};
  }

  static int& count() {
    static int value = 0;
    return value;
  }
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string output_, errors_;
  pid_t id_;
};

}  // namespace composer
