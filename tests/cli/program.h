// Runs the program `composer` as a user does.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace composer {

struct Outcome {
  int status = -1;  ///< exit status, or 128 + signal
  std::string output, errors;
};

/// A started program in `folder`, its output in files there.
class Process {
 public:
  Process(const std::filesystem::path& folder, const std::vector<std::string>& words,
          const std::string& program = PROGRAM)
      : output_(folder / (".out" + std::to_string(++count()))),
        errors_(folder / (".err" + std::to_string(count()))) {
    id_ = fork();
    if (id_ != 0) return;
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
    execvp(program.c_str(), arguments.data());
    _exit(127);
  }

  pid_t id() const { return id_; }
  void signal(int number) const { kill(id_, number); }

  Outcome wait() const {
    int status = 0;
    waitpid(id_, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read(output_),
            read(errors_)};
  }

 private:
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

inline Outcome run(const std::filesystem::path& folder, const std::vector<std::string>& words,
                   const std::string& program = PROGRAM) {
  return Process(folder, words, program).wait();
}

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

}  // namespace composer
