// Asks LibTorch something, then for the GPU: what it was answered goes to standard output. Or
// neither.
#include <ATen/ATen.h>

#include <functional>
#include <iostream>
#include <map>

#include "base/error.h"
#include "nn/device/device.h"

int main(int, char** words) {
  const std::map<std::string, std::function<void()>> questions{
      {"nothing", [] {}},
      {"seed_generator", [] { composer::seed_generator(1); }},
      {"manual_seed", [] { at::manual_seed(1); }},
      {"hasCUDA", [] { at::hasCUDA(); }},
      {"is_pinned", [] { at::ones({1}).is_pinned(); }},
  };
  if (words[1] == std::string_view("neither")) return 0;
  questions.at(words[1])();
  try {
    std::cout << composer::resolve_device("gpu", composer::read_rank_environment()).str() << '\n';
  } catch (const composer::UserError& error) {
    std::cout << error.what() << '\n';
  }
  return 0;
}
