// The subcommand data index: writes the side file with which a reader decodes only the crop of a
// JPEG.
#include <atomic>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/remote/remote_path.h"
#include "cli/arguments.h"
#include "cli/in_order.h"
#include "cli/sources.h"
#include "data/files/thread_count.h"
#include "data/index/index_location.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

struct Counts {
  std::atomic<int64_t> known = 0, made = 0, without = 0, bad = 0;
};

bool is_known(const StoredImage& image) {
  return !image.index.records() || jpeg_index_fits(image.bytes, image.index.index());
}

/// Records the index of every JPEG stream whose record is missing or does not fit.
void make_indices(const Source& source, IndexStore& store, int threads, Counts& counts) {
  const auto make_worker = [&] {
    auto scratch = std::make_shared<ReadScratch>();
    return [&source, &store, &counts, scratch](int64_t index) -> SampleReport {
      try {
        StoredImage image = source.open(index, *scratch);
        image.index.use(store);
        if (!image.jpeg) {
          ++counts.without;
        } else if (is_known(image)) {
          ++counts.known;
        } else {
          const auto bytes = use_image(image, [&] { return make_jpeg_index(image.bytes); });
          image.index.record(bytes);
          ++(bytes.empty() ? counts.without : counts.made);
        }
      } catch (const RunError& error) {
        ++counts.bad;
        return [line = source.name(index) + ": " + error.what()] { std::cerr << line << '\n'; };
      }
      return {};
    };
  };
  in_order(source.size(), thread_count(threads), make_worker);
}

/// The files or folders whose side files a training on `path` reads.
std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  std::error_code error;
  for (const char* part : {"train", "val"}) {
    if (fs::is_directory(fs::path(path) / part, error))
      parts.push_back((fs::path(path) / part).string());
  }
  return parts.empty() ? std::vector<std::string>{path} : parts;
}

}  // namespace

int data_index_command(const Words& words) {
  CLI::App app(
      "Makes or renews the side file (F.beton.index, or .composer-index in a folder) with which "
      "only the crop of a JPEG is\ndecoded. Training makes one by itself in its first epoch, in "
      "the "
      "user's cache unless dataloader.crop_index says\notherwise, and uses this one too.",
      "data index");
  std::string path;
  int threads = 0;
  app.add_option("path", path, "a .beton file or a folder of images")->required();
  app.add_option("--num_workers", threads, "threads; 0 = as many as there are processors")
      ->check(CLI::Range(0, 1024));
  const auto& json = add_json(app);
  if (!parse(app, words)) return 0;

  if (is_remote(path))
    throw UserError(path +
                    ": an index lies beside its data, and these are remote; training makes theirs "
                    "in the user's cache");
  std::error_code error;
  if (!fs::exists(path, error)) throw UserError(path + ": there is no such file or folder");
  for (const auto& part : parts_of(path)) {
    const bool folder = fs::is_directory(part, error);
    const std::shared_ptr<Source> source = folder ? open_folder_files(part) : open_beton(part);
    const fs::path file = index_file_of(part);
    const FileStamp stamp = index_stamp_of(part);
    Counts counts;
    IndexStore store(file, stamp);
    make_indices(*source, store, threads, counts);
    store.flush();
    if (!IndexTable(file, stamp).compact()) compact_index(file, stamp);
    if (json) {
      std::cout << nlohmann::ordered_json{{"file", file.string()},
                                          {"made", counts.made.load()},
                                          {"kept", counts.known.load()},
                                          {"without", counts.without.load()},
                                          {"bad", counts.bad.load()}}
                << '\n';
    } else {
      std::cout << file.string() << ": " << counts.made << " indices made, " << counts.known
                << " kept, " << counts.without << " images have none, " << counts.bad
                << " files cannot be read\n";
    }
  }
  return 0;
}

}  // namespace composer
