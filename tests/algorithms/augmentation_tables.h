// What torchvision's AutoAugment and TrivialAugment draw from, for their tests.
#pragma once

#include <fstream>
#include <string>

#include "tests/algorithms/augmentation_checks.h"
#include "tests/vectors.h"

namespace composer::test {

/// tables.txt of augmentation_reference.py from the peer, or as it was recorded; empty, with a
/// warning, where the peer is asked for and missing.
inline std::string tables(bool from_peer) {
  if (!from_peer) return recorded("augmentation_tables.txt");
  const TemporaryFolder folder;
  if (!run_reference("tables", folder)) return "";
  std::ifstream file(folder / "tables.txt");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  record("augmentation_tables.txt", text);
  return text;
}

}  // namespace composer::test
