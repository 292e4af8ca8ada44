// What the stand-in's libraries noted, for tests to read: a line each in the file STAND_IN_LOG.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace composer::stand_in {

inline void note(const std::string& line) {
  const char* path = std::getenv("STAND_IN_LOG");
  if (path == nullptr) return;
  if (std::FILE* file = std::fopen(path, "a")) {
    std::fputs((line + "\n").c_str(), file);
    std::fclose(file);
  }
}

inline int number(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace composer::stand_in
