// The subcommand data hash: a hash of the pixels of every sample.
#include <functional>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "base/remote/remote_path.h"
#include "cli/arguments.h"
#include "cli/in_order.h"
#include "cli/sources.h"
#include "data/beton/beton.h"
#include "data/beton/source.h"
#include "data/files/digest.h"
#include "data/files/thread_count.h"
#include "data/formats/decode.h"
#include "data/samples/verify.h"

namespace composer {
namespace {

std::string size_and_hash(const ImageView& image) {
  Digest hash("sha256");
  for (int64_t y = 0; y < image.height; ++y)
    hash.update({image.row(y), static_cast<size_t>(image.width * image.channels)});
  return std::to_string(image.width) + ' ' + std::to_string(image.height) + ' ' + hash.hex();
}

/// Prints a line for each sample in order. Logs the samples that cannot be decoded, and returns
/// their number. make_line: makes the function of a thread from an index to its line.
int64_t print_hashes(int64_t count, int threads, const std::function<std::string(int64_t)>& name,
                     const std::function<std::function<std::string(int64_t)>()>& make_line) {
  int64_t bad = 0;
  in_order(count, threads, [&]() -> SampleWorker {
    return [&bad, &name, line = make_line()](int64_t index) -> SampleReport {
      try {
        return [text = line(index)] { std::cout << text << '\n'; };
      } catch (const RemoteError&) {
        throw;
      } catch (const UserError&) {  // an error of the store
        throw;
      } catch (const std::runtime_error& error) {
        return [&bad, told = name(index) + ": " + error.what()] {
          ++bad;
          log::error(told);
        };
      }
    };
  });
  return bad;
}

int64_t hash_beton(const BetonFile& file, int threads) {
  const auto image = file.find_field(BetonType::image);
  if (!image) throw UserError(file.path().string() + ": has no image field");
  const auto label = label_field(file);
  const auto name = [&](int64_t row) {
    return shown_path(file.path().string()) + ": sample " + std::to_string(row);
  };
  return print_hashes(file.samples(), threads, name, [&] {
    const auto scratch = std::make_shared<ReadScratch>();
    return [&, scratch](int64_t row) {
      BetonImage stored = file.image(row, *image);
      const auto hash = file.use(stored.bytes, scratch->file, [&](auto bytes) {
        stored.bytes = bytes;
        return size_and_hash(decode_whole(stored, Dct::fast, scratch->decoder));
      });
      return std::to_string(row) + ' ' + (label ? std::to_string(file.integer(row, *label)) : "-") +
             ' ' + hash;
    };
  });
}

int64_t hash_files(const std::vector<std::string>& files, int threads) {
  const auto source = open_files(files);
  const auto name = [&](int64_t i) { return shown_path(files[static_cast<size_t>(i)]); };
  return print_hashes(static_cast<int64_t>(files.size()), threads, name, [&] {
    const auto image = std::make_shared<Image>();
    return [&, image](int64_t index) {
      std::vector<uint8_t> bytes;
      source->fetch(index, bytes, {});
      decode_image(bytes, *image);
      return std::to_string(index) + " - " + size_and_hash(image->view());
    };
  });
}

int64_t hash_source(const Source& source, int threads) {
  const auto name = [&](int64_t i) { return source.name(i); };
  return print_hashes(source.size(), threads, name, [&] {
    const auto scratch = std::make_shared<ReadScratch>();
    const auto decoded = std::make_shared<Image>();
    return [&, scratch, decoded](int64_t index) {
      const StoredImage image = source.open(index, *scratch);
      const auto hash =
          use_image(image, [&] { return size_and_hash(whole_pixels(image, *decoded)); });
      const bool has_label = source.num_values() == 0;
      return std::to_string(index) + ' ' + (has_label ? std::to_string(source.label(index)) : "-") +
             ' ' + hash;
    };
  });
}

}  // namespace

int data_hash_command(const Words& words) {
  CLI::App app(
      "One line a sample: index, label (- where there is none), width, height, SHA-256 of the "
      "decoded\nRGB bytes (rows from the top). JPEGs in .beton files are decoded as FFCV does.",
      "data hash");
  std::string path;
  int threads = 0;
  app.add_option(
         "source", path,
         "a .beton file, an image file or a folder of them, local or remote, shards, or a list "
         "of images")
      ->required();
  ShardColumns columns;
  add_shard_columns(app, columns);
  add_threads(app, threads);
  if (!parse(app, words)) return 0;

  if (const auto shards = open_shards(path, /*is_train=*/true, columns).source)
    return hash_source(*shards, thread_count(threads)) > 0 ? 1 : 0;
  if (is_beton(path)) return hash_beton(BetonFile(path), thread_count(threads)) > 0 ? 1 : 0;
  return hash_files(image_files(path), thread_count(threads)) > 0 ? 1 : 0;
}

}  // namespace composer
