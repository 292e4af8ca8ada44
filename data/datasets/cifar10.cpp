#include "data/datasets/cifar10.h"

#include <fstream>

#include "base/error.h"
#include "base/log.h"
#include "data/samples/memory_source.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPixels = 32 * 32;
constexpr size_t kRecord = 1 + 3 * kPixels;
constexpr int kTrainFiles = 5;

std::vector<fs::path> folders(const std::string& datadir) {
  return {datadir, fs::path(datadir) / "cifar-10-batches-bin"};
}

std::vector<std::string> files_in(const fs::path& folder, bool is_train) {
  std::vector<std::string> names;
  for (int i = 1; i <= kTrainFiles; ++i)
    names.push_back("data_batch_" + std::to_string(i) + ".bin");
  if (!is_train) names = {"test_batch.bin"};
  std::vector<std::string> found;
  for (const auto& name : names) {
    std::error_code error;
    if (fs::is_regular_file(folder / name, error)) found.push_back((folder / name).string());
  }
  return found;
}

/// Adds a file's records: a label, then the planes of red, green and blue, which it interleaves.
void add_records(const std::string& file, std::vector<uint8_t>& pixels,
                 std::vector<int32_t>& labels) {
  std::vector<uint8_t> bytes;
  try {
    read_file(file.c_str(), bytes);
  } catch (const RunError& error) {
    throw UserError(file + ": " + error.what());
  }
  if (bytes.empty() || bytes.size() % kRecord != 0)
    throw UserError(file + ": has " + std::to_string(bytes.size()) +
                    " bytes; a file of CIFAR-10's binary version has a multiple of " +
                    std::to_string(kRecord));
  size_t out = pixels.size();
  pixels.resize(out + bytes.size() / kRecord * 3 * kPixels);
  for (const uint8_t* record = bytes.data(); record < bytes.data() + bytes.size();
       record += kRecord) {
    if (record[0] > 9)
      throw UserError(file + ": record " + std::to_string((record - bytes.data()) / kRecord) +
                      " has the label " + std::to_string(record[0]) + "; CIFAR-10 has 0 to 9");
    labels.push_back(record[0]);
    for (size_t i = 0; i < kPixels; ++i)
      for (size_t c = 0; c < 3; ++c) pixels[out++] = record[1 + c * kPixels + i];
  }
}

}  // namespace

Normalization Cifar10Params::normalization() {
  return {{0.4914 * 255, 0.4822 * 255, 0.4465 * 255}, {0.247 * 255, 0.243 * 255, 0.261 * 255}};
}

std::shared_ptr<Source> open_cifar10(const std::string& datadir, bool is_train) {
  const std::string expected =
      std::string(is_train ? "data_batch_1.bin to data_batch_5.bin" : "test_batch.bin") +
      " of CIFAR-10's binary version, or with cifar-10-batches-bin in it";
  checked_datadir(datadir, expected);
  std::vector<std::string> files;
  for (const auto& folder : folders(datadir))
    if (files.empty()) files = files_in(folder, is_train);
  if (files.empty()) {
    std::error_code error;
    const bool python = fs::exists(fs::path(datadir) / "cifar-10-batches-py", error) ||
                        fs::exists(fs::path(datadir) / "data_batch_1", error);
    throw UserError(
        "datadir: '" + datadir + "' has no " + expected +
        (python ? "; its Python version (cifar-10-batches-py) is there, which is not read" : ""));
  }
  if (is_train && files.size() != kTrainFiles)
    log::warn("datadir: '" + datadir + "' has " + std::to_string(files.size()) + " of the " +
              std::to_string(kTrainFiles) + " files data_batch_*.bin");
  std::vector<uint8_t> pixels;
  std::vector<int32_t> labels;
  for (const auto& file : files) add_records(file, pixels, labels);
  return std::make_shared<MemorySource>(fs::path(files.front()).parent_path().string(),
                                        Cifar10Params::kSize, 3, std::move(pixels),
                                        std::move(labels));
}

std::vector<std::string> cifar10_class_names(const std::string& datadir) {
  for (const auto& folder : folders(datadir)) {
    std::ifstream file(folder / "batches.meta.txt");
    std::vector<std::string> names;
    for (std::string name; file >> name;) names.push_back(name);
    if (names.size() == 10) return names;
  }
  return {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
}

}  // namespace composer
