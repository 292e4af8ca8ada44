#include <algorithm>
#include <cstring>
#include <fstream>
#include <regex>

#include "cli/main.h"
#include "composer/composer.h"
#include "data/datasets/dataset_params.h"
#include "data/samples/memory_source.h"

using namespace composer;

/// An array that numpy.save wrote: its shape, and its bytes row by row.
struct NpyArray {
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;
};

/// type: as NumPy writes it, "|u1" for bytes, "<i8" for 64-bit numbers. UserError naming the file.
NpyArray read_npy(const std::string& path, const std::string& type, int64_t bytes_each) {
  const auto fail = [&](const std::string& why) { throw UserError(path + ": " + why); };
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("cannot be opened");
  char start[10] = {};
  file.read(start, sizeof start);
  if (std::string(start, 6) != "\x93NUMPY" || start[6] != 1) fail("is no .npy file of version 1");
  std::string header(static_cast<uint8_t>(start[8]) + 256 * static_cast<uint8_t>(start[9]), ' ');
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  std::smatch found;
  if (!std::regex_search(
          header, found,
          std::regex("'descr': '([^']+)', 'fortran_order': False, 'shape': \\(([0-9, ]+)\\)")))
    fail("must hold one array in C order");
  if (found[1] != type) fail("has the type " + found[1].str() + "; expected " + type);

  NpyArray array;
  std::string sizes = found[2];
  std::replace(sizes.begin(), sizes.end(), ',', ' ');
  std::istringstream numbers(sizes);
  for (int64_t size = 0; numbers >> size;) array.shape.push_back(size);
  array.bytes.assign(std::istreambuf_iterator<char>(file), {});
  int64_t expected = bytes_each;
  for (const int64_t size : array.shape) expected *= size;
  if (std::ssize(array.bytes) != expected) fail("does not end where its header says");
  return array;
}

/// Images from NumPy: datadir holds images.npy, uint8 [N, size, size, 3], and labels.npy, int64
/// [N].
class NpyDataset final : public Dataset {
 public:
  struct Params : DatasetParams {
    int64_t size = 32;

    void fields(auto&& f) {
      DatasetParams::fields(f);
      f("size", size, "height and width of the images", in(1, 4096));
    }
  };

  explicit NpyDataset(Params params) : params_(std::move(params)) {}

  /// All that is the user's own is the source; the loader's threads crop, flip and batch it as they
  /// do the built-in sets.
  std::unique_ptr<Loader> open(const LoaderOptions& options) const override {
    const std::string path = params_.datadir + "/images.npy";
    auto images = read_npy(path, "|u1", 1);
    auto labels = read_labels();
    const std::vector<int64_t> shape{std::ssize(labels), params_.size, params_.size, 3};
    if (images.shape != shape)
      throw UserError(path + ": has the shape " + c10::str(at::IntArrayRef(images.shape)) +
                      "; expected " + c10::str(at::IntArrayRef(shape)) +
                      " (labels.npy, size, size, 3)");
    auto source = std::make_shared<MemorySource>(path, image_size(), 3, std::move(images.bytes),
                                                 std::move(labels));
    const auto kind = params_.is_train ? Transform::Kind::pad_and_crop : Transform::Kind::whole;
    return open_loader(std::move(source), {.kind = kind, .size = image_size(), .padding = 2},
                       TransformParams{.flip = 0.5}, normalization(), params_, options);
  }

  /// What `predict --source` goes through: files of any format and size.
  std::unique_ptr<Loader> open_files(std::vector<std::string> files,
                                     const LoaderOptions& options) const override {
    return open_file_loader(files, *preparation(options), options);
  }
  std::optional<Preparation> preparation(const LoaderOptions&) const override {
    return fitted(3, image_size(), normalization());
  }

  bool drop_last() const override { return params_.drop_last; }
  ImageSize image_size() const override { return {params_.size, params_.size}; }
  std::optional<int64_t> num_classes() const override {
    const auto labels = read_labels();
    return labels.empty() ? 0 : *std::max_element(labels.begin(), labels.end()) + 1;
  }

 private:
  static Normalization normalization() { return {{127.5, 127.5, 127.5}, {64, 64, 64}}; }

  std::vector<int32_t> read_labels() const {
    const std::string path = checked_datadir(params_.datadir, "images.npy and labels.npy");
    const auto array = read_npy(path + "/labels.npy", "<i8", 8);
    std::vector<int64_t> labels(array.bytes.size() / 8);
    std::memcpy(labels.data(), array.bytes.data(), array.bytes.size());
    return {labels.begin(), labels.end()};
  }

  Params params_;
};

int main(int argc, char** argv) {
  registry().datasets.add<NpyDataset>("npy", "images and labels from NumPy's .npy files");
  return composer::main(argc, argv);
}
