// Other libraries as the reference of what an export computes.
#pragma once

#include <cstdlib>
#include <string>

#include "composer/checkpoint/safetensors.h"
#include "nn/network/model.h"
#include "tests/python.h"

namespace composer::test {

/// A file of images and of the model's answer to them, "images" and "logits", for peer.py.
inline void write_question(const std::filesystem::path& path, Model& model,
                           const at::Tensor& images) {
  const at::NoGradGuard no_grad;
  write_safetensors(path, {{"images", images}, {"logits", model.forward(images)}});
}

/// Runs tests/inference/peer.py; false where the peer's answers are not ours, which it prints.
inline bool ask_peer(const std::string& interpreter, const std::string& arguments) {
  const auto command =
      interpreter + " " + SOURCE_DIR + "/tests/inference/peer.py " + arguments + " >&2";
  return std::system(command.c_str()) == 0;
}

}  // namespace composer::test
