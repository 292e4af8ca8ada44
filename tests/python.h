// Python as the reference of tests.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "tests/temporary_folder.h"

namespace composer::test {

/// What the variable says, for tests that run on another machine than that of the build.
inline std::string from_environment(const char* variable, const char* otherwise) {
  const char* const value = std::getenv(variable);
  return value != nullptr ? value : otherwise;
}

inline std::string python() {
  return from_environment("COMPOSER_TEST_PYTHON", SOURCE_DIR "/.deps/venv/bin/python");
}

/// The peers of tests/peers.txt: cmake/bootstrap leaves this copy when all are installed.
inline bool has_python() { return std::filesystem::exists(SOURCE_DIR "/.deps/peers.txt"); }

/// Runs the script in the folder; false when it fails.
inline bool run_python(const std::string& script, const TemporaryFolder& folder) {
  folder.write("script.py", script);
  return std::system(("cd " + folder.path().string() + " && " + python() + " script.py").c_str()) ==
         0;
}

/// What the script of this path in the repository prints. Throws when it fails.
inline std::string output_of(const std::string& path, const std::string& arguments = "",
                             const std::string& interpreter = python()) {
  const auto command = interpreter + " " + from_environment("COMPOSER_TEST_SOURCE", SOURCE_DIR) +
                       "/" + path + " " + arguments;
  std::FILE* const pipe = popen(command.c_str(), "r");
  std::string output;
  for (int c = 0; pipe != nullptr && (c = std::fgetc(pipe)) != EOF;)
    output.push_back(static_cast<char>(c));
  if (pipe == nullptr || pclose(pipe) != 0) throw std::runtime_error(path + " failed");
  return output;
}

}  // namespace composer::test
