// The base class and helpers of methods that replace layers at init.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "nn/network/layers.h"
#include "nn/network/surgery.h"

namespace composer {

/// Reports the replacements of init(). A method whose layers do not do the same work in every step
/// must override prevents_graph_capture().
class Surgery : public UnrestrictedAlgorithm {
 public:
  std::vector<std::string> report() const override { return lines(replacements_); }

 protected:
  /// Prints "<before> <number of replacements> <after>" and logs the number as `metric`.
  void log_count(const State& state, const std::string& metric, const std::string& before,
                 const std::string& after) const;

  std::vector<Replacement> replacements_;
};

/// replace_layers() that throws UserError with the text `nothing` where it replaces no layer.
std::vector<Replacement> replace_some(
    Block& root,
    const std::function<std::shared_ptr<Layer>(const std::string& path, Layer& layer)>& replace,
    const std::string& nothing);

/// Puts a Norm, made of the original and `argument`, in place of every BatchNorm2d. Weights,
/// buffers and their names stay. Throws UserError, which names `algorithm`, when there is none.
template <class Norm>
std::vector<Replacement> replace_batch_norms(Block& model, const std::string& algorithm,
                                             const auto& argument) {
  const auto replace = [&](const std::string&, Layer& layer) -> std::shared_ptr<Layer> {
    const auto* norm = dynamic_cast<BatchNorm2d*>(&layer);
    if (norm == nullptr || dynamic_cast<Norm*>(&layer) != nullptr) return nullptr;
    return std::make_shared<Norm>(*norm, argument);
  };
  return replace_some(model, replace,
                      "algorithms." + algorithm + ": the model has no batch normalisation, so " +
                          algorithm + " would change nothing; remove it");
}

}  // namespace composer
