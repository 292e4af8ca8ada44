#include "data/datasets/mnist.h"

#include <zlib.h>

#include "base/error.h"
#include "data/samples/memory_source.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

/// An idx file, read through zlib, which also reads uncompressed files.
class IdxFile {
 public:
  explicit IdxFile(std::string path) : path_(std::move(path)), file_(gzopen(path_.c_str(), "rb")) {
    if (file_ == nullptr) fail("cannot be opened");
    gzbuffer(file_, 1 << 18);
  }
  ~IdxFile() { gzclose(file_); }
  IdxFile(const IdxFile&) = delete;
  IdxFile& operator=(const IdxFile&) = delete;

  uint32_t number() {
    uint8_t b[4];
    read(b, 4);
    return uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | b[3];
  }

  /// The rest of the file, which must have this number of bytes.
  std::vector<uint8_t> rest(uint64_t bytes) {
    if (bytes > (uint64_t{1} << 31))
      fail("its header asks for " + std::to_string(bytes) + " bytes");
    std::vector<uint8_t> data;
    // Memory grows as bytes are read: the header may ask for more than the file holds.
    for (uint64_t done = 0; done < bytes; done = data.size()) {
      constexpr uint64_t kStep = uint64_t{1} << 24;
      data.resize(std::min(bytes, done + kStep));
      read(data.data() + done, static_cast<unsigned>(data.size() - done));
    }
    uint8_t more;
    if (gzread(file_, &more, 1) != 0) fail("is longer than its header says, or damaged at the end");
    return data;
  }

  [[noreturn]] void fail(const std::string& why) const { throw UserError(path_ + ": " + why); }

 private:
  void read(uint8_t* out, unsigned bytes) {
    const int got = gzread(file_, out, bytes);
    if (got < 0) fail("its compressed data are damaged");
    if (static_cast<unsigned>(got) != bytes) fail("ends too early");
  }

  std::string path_;
  gzFile file_;
};

std::vector<uint8_t> read_images(const std::string& path, int64_t& count) {
  IdxFile file(path);
  if (file.number() != 0x803)
    file.fail("is no idx file of images (it does not start with 00 00 08 03)");
  count = file.number();
  const uint32_t height = file.number(), width = file.number();
  if (height != 28 || width != 28)
    file.fail("has images of " + std::to_string(height) + " x " + std::to_string(width) +
              " pixels; mnist has 28 x 28");
  return file.rest(static_cast<uint64_t>(count) * 28 * 28);
}

std::vector<int32_t> read_labels(const std::string& path) {
  IdxFile file(path);
  if (file.number() != 0x801)
    file.fail("is no idx file of labels (it does not start with 00 00 08 01)");
  const auto bytes = file.rest(file.number());
  for (const uint8_t label : bytes)
    if (label > 9) file.fail("has the label " + std::to_string(label) + "; mnist has 0 to 9");
  return {bytes.begin(), bytes.end()};
}

std::string images_of(bool is_train) {
  return std::string(is_train ? "train" : "t10k") + "-images-idx3-ubyte";
}

/// The file, with or without .gz, in datadir or datadir/MNIST/raw, or empty. It may be called
/// train-images.idx3-ubyte, and lie in a folder of the same name, as some programs unpack it.
std::string find(const fs::path& datadir, const std::string& name) {
  std::string dotted = name;
  dotted[name.rfind("-idx")] = '.';
  for (const auto& folder : {datadir, datadir / "MNIST" / "raw"})
    for (const auto& own : {name, dotted})
      for (const auto& path : {folder / own, folder / own / own})
        for (const char* ending : {"", ".gz"}) {
          std::error_code error;
          const std::string file = path.string() + ending;
          if (fs::is_regular_file(file, error)) return file;
        }
  return {};
}

}  // namespace

bool has_mnist(const fs::path& datadir, bool is_train) {
  return !find(datadir, images_of(is_train)).empty();
}

std::shared_ptr<Source> open_mnist(const std::string& datadir, bool is_train) {
  const std::string images = images_of(is_train);
  const std::string labels = std::string(is_train ? "train" : "t10k") + "-labels-idx1-ubyte";
  const std::string expected = images + " and " + labels + " (.gz or not), or with MNIST/raw in it";
  const fs::path folder = checked_datadir(datadir, expected);
  const std::string image_file = find(folder, images), label_file = find(folder, labels);
  for (const auto& [name, found] : {std::pair{images, image_file}, {labels, label_file}})
    if (found.empty())
      throw UserError("datadir: '" + datadir + "' has no " + name + "; expected " + expected);
  int64_t count = 0;
  auto pixels = read_images(image_file, count);
  auto classes = read_labels(label_file);
  if (count != std::ssize(classes))
    throw UserError(label_file + ": has " + std::to_string(classes.size()) + " labels for the " +
                    std::to_string(count) + " images of " + image_file);
  return std::make_shared<MemorySource>(image_file, MnistParams::kSize, 1, std::move(pixels),
                                        std::move(classes));
}

std::unique_ptr<Loader> MnistDataset::open(const LoaderOptions& options) const {
  return open_loader(open_source(options, open_mnist), {.size = image_size()}, {},
                     Params::normalization(), params_, options);
}

std::vector<std::string> MnistDataset::class_names() const {
  if (!params_.ffcv.targets.empty()) return params_.ffcv.value_names();
  return {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
}

}  // namespace composer
