#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/files/byte_reader.h"
#include "base/files/checksum.h"
#include "data/datasets/cifar10.h"
#include "data/datasets/mnist.h"
#include "data/index/index_file.h"
#include "data/samples/list_file.h"
#include "data/samples/sample_table.h"
#include "data/shards/mds.h"
#include "data/shards/webdataset.h"
#include "nn/network/batch.h"
#include "tests/files.h"
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

bool fuzz_sample_table(Bytes input) {
  constexpr size_t length_at = 16, checksum_at = 24, header_bytes = 96;
  std::vector<uint8_t> bytes(input.begin(), input.end());
  if (bytes.size() >= header_bytes) {
    const uint64_t length = bytes.size();
    uint32_t sum = 0;
    std::memcpy(bytes.data() + length_at, &length, sizeof length);
    std::memcpy(bytes.data() + checksum_at, &sum, sizeof sum);
    Checksum checksum;
    checksum.add(bytes);
    sum = checksum.crc32();
    std::memcpy(bytes.data() + checksum_at, &sum, sizeof sum);
  }
  try {
    const SampleTable table(std::move(bytes));
    size_t texts = 0;
    for (int64_t i = 0; i < table.size(); ++i) {
      texts += table.container(i).size() + table.name(i).size();
      if (table.num_values() == 0 && table.label(i) >= table.classes())
        throw std::logic_error("a label beyond the classes");
      std::vector<float> values(static_cast<size_t>(table.num_values()));
      table.read_values(i, values);
      if (table.has_parts()) texts += table.offset(i) + table.length(i) < table.offset(i);
    }
    for (uint64_t i = 0; i < table.containers(); ++i) texts += table.container_text(i).size();
    for (uint64_t i = 0; i < table.watched(); ++i) texts += table.watched(i).path.size();
    for (const auto& name : table.class_names()) texts += name.size();
    static volatile size_t sink;
    sink = sink + texts;
    return true;
  } catch (const FormatError&) {
    return false;
  }
}

namespace {

/// Whether make() gives a table; one whose samples do not lie in `file_bytes` is a fault.
template <class Make>
bool makes_table(uint64_t file_bytes, const Make& make) {
  try {
    const SampleTable table(make());
    for (int64_t i = 0; table.has_parts() && i < table.size(); ++i)
      if (table.offset(i) + table.length(i) > file_bytes)
        throw std::logic_error("a sample outside its file");
    return table.size() > 0;
  } catch (const UserError&) {
  } catch (const RunError&) {
  }
  return false;
}

/// The sum of a tar file's header, as its writers put it there.
void put_sum(uint8_t* block) {
  std::memset(block + 148, ' ', 8);
  unsigned sum = 0;
  for (int i = 0; i < 512; ++i) sum += block[i];
  std::snprintf(reinterpret_cast<char*>(block) + 148, 8, "%06o", sum & 0777777);
}

}  // namespace

bool fuzz_tar(Bytes input) {
  static Folder folder;
  std::vector<uint8_t> bytes(input.begin(), input.end());
  for (size_t at = 0; at + 512 <= bytes.size(); at += 512)
    if (std::memcmp(bytes.data() + at + 257, "ustar", 5) == 0) put_sum(bytes.data() + at);
  folder.set("fuzz.tar", bytes);
  const ShardFiles files{(folder / "").string(), {"fuzz.tar"}};
  const bool classes = makes_table(bytes.size(), [&] { return webdataset_table(files, {}); });
  const WebDatasetFiles numbers{.targets = {bytes.size() % 2 == 0 ? "cls" : "json.label"}};
  return makes_table(bytes.size(), [&] { return webdataset_table(files, numbers); }) || classes;
}

bool fuzz_mds(Bytes input) {
  static Folder folder;
  uint32_t index_bytes = 0;
  if (input.size() < sizeof index_bytes) return false;
  std::memcpy(&index_bytes, input.data() + input.size() - sizeof index_bytes, sizeof index_bytes);
  input = input.first(input.size() - sizeof index_bytes);
  const auto index = input.last(std::min<size_t>(index_bytes, input.size()));
  const auto shard = input.first(input.size() - index.size());
  folder.set("shard.00000.mds", shard);
  folder.set("index.json", index);
  const bool classes = makes_table(shard.size(), [&] { return mds_table(folder.path(), {}); });
  const MdsOptions numbers{.targets = {"label"}};
  return makes_table(shard.size(), [&] { return mds_table(folder.path(), numbers); }) || classes;
}

bool fuzz_list(Bytes input) {
  static Folder folder;
  if (input.empty()) return false;
  const char* const name = std::array{"a.csv", "a.tsv", "a.jsonl", "a.csv"}[input[0] % 4];
  folder.set(name, input.subspan(1));
  const auto makes = [&](const ListColumns& columns) {
    return makes_table(0, [&] { return list_table(folder / name, columns, {}).bytes(); });
  };
  const bool classes = makes({});
  return makes({.targets = {"label"}}) || classes;
}

}  // namespace composer::test
