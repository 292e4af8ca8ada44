#include <algorithm>
#include <cstring>
#include <map>

#include "composer/error.h"
#include "data/datasets/cifar10.h"
#include "data/datasets/mnist.h"
#include "data/index_file.h"
#include "tests/data/helpers.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/memory_file.h"

namespace composer::test {
namespace {

using Bytes = std::span<const uint8_t>;

/// A folder with files that lie in memory, which is much faster.
struct Folder : TemporaryFolder {
  std::map<std::string, MemoryFile> files;

  void set(const std::string& name, Bytes bytes) {
    const auto [file, is_new] = files.try_emplace(name);
    if (is_new) fs::create_symlink(file->second.path(), *this / name);
    file->second.set(bytes);
  }
};

/// Opens the set and reads a batch in this thread. Returns whether there was one.
template <class Set>
bool read_batch(const TemporaryFolder& folder) {
  typename Set::Params params;
  params.datadir = folder.path().string();
  params.is_train = false;
  params.drop_last = false;
  try {
    const auto loader = Set(params).open({.batch_size = 4, .num_workers = 0});
    loader->start(0, 0);
    return loader->next().has_value();
  } catch (const UserError&) {
  } catch (const RunError&) {
  }
  return false;
}

}  // namespace

bool fuzz_idx(Bytes input) {
  static Folder folder;
  uint32_t label_bytes = 0;
  if (input.size() < sizeof label_bytes) return false;
  std::memcpy(&label_bytes, input.data() + input.size() - sizeof label_bytes, sizeof label_bytes);
  input = input.first(input.size() - sizeof label_bytes);
  const auto labels = input.last(std::min<size_t>(label_bytes, input.size()));
  folder.set("t10k-images-idx3-ubyte", input.first(input.size() - labels.size()));
  folder.set("t10k-labels-idx1-ubyte", labels);
  return read_batch<MnistDataset>(folder);
}

bool fuzz_cifar10(Bytes input) {
  static Folder folder;
  folder.set("test_batch.bin", input);
  return read_batch<Cifar10Dataset>(folder);
}

bool fuzz_index_file(Bytes input) {
  static Folder folder;
  folder.set("fuzz.index", input);
  const IndexTable table(folder / "fuzz.index", {1, 2});
  uint64_t sum = 0;
  int64_t read = 0;
  for (uint64_t key = 0; key < 8; ++key) {
    const auto found = table.find(key);
    if (!found) continue;
    ++read;
    for (const uint8_t byte : *found) sum += byte;
  }
  static volatile uint64_t sink;
  sink = sink + sum;
  return read > 0;
}

}  // namespace composer::test
